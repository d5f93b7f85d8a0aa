package cutest

import (
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

func openSoftgpu(t testing.TB) cu.Driver {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hidden wraps a driver and hides that it is emulated.
type hidden struct{ cu.Driver }

// TestProcessPerCase runs cases that lose the device in the way for hardware: each in
// a process that runs this test again for that case.
func TestProcessPerCase(t *testing.T) {
	open := func(t testing.TB) cu.Driver { return hidden{openSoftgpu(t)} }
	var checks []check
	for _, k := range allChecks() {
		switch k.id {
		case "fault/illegal-address", "fault/new-start", newProcessCase: // none that measures times: kernels here do not take as long as their clock says
			checks = append(checks, k)
		}
	}
	checks = append(checks, check{"test/misjudged", "a failure is reported by a process", "Ferry: cutest", needIsolation, func(c *trial) { c.fail("expected failure") }})
	if id, ok := childOf(); ok {
		runChecks(t, open, id, checks)
		return
	}
	s := &suite{open: open, times: defaultTimes, parent: t}
	s.start(t)
	for _, k := range checks {
		c := s.runCase(t, k)
		failed := len(c.failures) > 0
		if failed != (k.id == "test/misjudged") {
			t.Errorf("%s: failures %q", k.id, c.failures)
		}
		if failed && !strings.Contains(c.failures[0], "expected failure") {
			t.Errorf("%s: the reason is lost: %q", k.id, c.failures)
		}
	}
	if s.hangs > 0 {
		t.Errorf("%d hangs", s.hangs)
	}
}

// TestProcessThatDies starts a process that ends without a result.
func TestProcessThatDies(t *testing.T) {
	if _, ok := childOf(); ok {
		panic("expected panic")
	}
	s := &suite{open: openSoftgpu, times: times{time.Second, time.Second, time.Second}, parent: t}
	s.start(t)
	c := s.runCase(t, check{"test/dies", "a process without a result is a failure", "Ferry: cutest", needLaunchBlocking, func(*trial) {}})
	if len(c.failures) != 1 || !strings.Contains(c.failures[0], "expected panic") {
		t.Errorf("failures %q, want the panic of the process", c.failures)
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern("TestSoftgpu/eager"), "^TestSoftgpu$/^eager$"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
