package sweep

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestOutage lets each call and all after it return an error that does not say that the
// context is lost, so that the hardware may still use memory. What may be in use is not
// freed. When calls work again, a second Close frees all.
func TestOutage(t *testing.T) {
	random := sample.Rand(t)
	runs, kept := 0, 0
	for _, s := range Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			soft, err := softgpu.Open(softgpu.Options{Devices: 2})
			if err != nil {
				t.Fatal(err)
			}
			plain := fault.Wrap(soft, fault.Options{})
			if err := run(s, plain); err != nil {
				t.Fatalf("without a failure: %v", err)
			}
			for nth := uint64(1); nth <= plain.Calls(); nth++ {
				if random.IntN(part()) != 0 {
					continue
				}
				runs++
				if outage(t, s, soft, nth) {
					kept++
				}
			}
		})
	}
	t.Logf("%d runs, %d of them kept memory", runs, kept)
}

// outage runs a scenario whose calls fail from the nth on, until all was closed once. It
// reports whether something was not freed then.
func outage(t *testing.T, s Scenario, soft cu.Driver, nth uint64) (kept bool) {
	t.Helper()
	d := fault.Wrap(soft, fault.Options{Nth: nth, Mode: fault.Sticky, Code: cu.ErrorDeviceUnavailable})
	var g *ferry.GPU
	b := &base{}
	err := guarded(t, d, s.Name, func() (err error) {
		if g, err = ferry.OpenDriver(d, 0); err != nil {
			return err
		}
		var ok bool
		if b, ok = prepare(g); ok {
			err = s.steps(t.Context(), g, b)
		}
		return errors.Join(b.done(err), g.Close())
	})
	what := fmt.Sprintf("%s: %s", s.Name, d.Failed())
	if d.Failed() == "" && err == nil { // it made fewer calls: the outage before left pools open to the other device
		return false
	}
	if !errors.Is(err, cu.ErrorDeviceUnavailable) && !mayBeIgnored(s.Name, d.Failed()) {
		t.Errorf("%s: error %v, want the code in it", what, err)
	}
	kept = len(d.Live()) > 0
	d.Restore()
	again := guarded(t, d, s.Name, func() error { return errors.Join((&user{frees: b.frees}).done(nil), g.Close()) })
	if live := left(d); len(live) > 0 {
		t.Errorf("%s: left %v; error %v; closed again: %v", what, live, err, again)
	}
	return kept
}
