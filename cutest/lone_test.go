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

// hidden is a driver that does not say that it is emulated.
type hidden struct{ cu.Driver }

// TestProcessPerCase runs cases that lose the device as hardware needs it: each
// in a process that runs this test again for that case.
func TestProcessPerCase(t *testing.T) {
	open := func(t testing.TB) cu.Driver { return hidden{openSoftgpu(t)} }
	var checks []check
	for _, k := range allChecks() {
		switch k.id {
		case "fault/illegal-address", "fault/new-start", startedAnew: // no times: kernels here do not take as long as their clock says
			checks = append(checks, k)
		}
	}
	checks = append(checks, check{"test/misjudged", "a failure comes back from a process", "Ferry: cutest", needLone, func(c *T) { c.fail("as it must") }})
	if id, ok := childOf(); ok {
		runChecks(t, open, id, checks)
		return
	}
	s := &suite{open: open, times: usual, parent: t}
	s.start(t)
	for _, k := range checks {
		c := s.judge(t, k)
		failed := len(c.failures) > 0
		if failed != (k.id == "test/misjudged") {
			t.Errorf("%s: failures %q", k.id, c.failures)
		}
		if failed && !strings.Contains(c.failures[0], "as it must") {
			t.Errorf("%s: the reason is lost: %q", k.id, c.failures)
		}
	}
	if s.hangs > 0 {
		t.Errorf("%d hangs", s.hangs)
	}
}

// TestProcessThatDies sees the end of a process that gives no result.
func TestProcessThatDies(t *testing.T) {
	if _, ok := childOf(); ok {
		panic("as it must")
	}
	s := &suite{open: openSoftgpu, times: times{time.Second, time.Second, time.Second}, parent: t}
	s.start(t)
	c := s.judge(t, check{"test/dies", "a process without a result is a failure", "Ferry: cutest", needLaunchBlocking, func(*T) {}})
	if len(c.failures) != 1 || !strings.Contains(c.failures[0], "as it must") {
		t.Errorf("failures %q, want the panic of the process", c.failures)
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern("TestSoftgpu/eager"), "^TestSoftgpu$/^eager$"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
