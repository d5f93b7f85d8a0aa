package softgpu

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

// manyEvents queues work with many events in virtual time, and waits for it.
func (r *rig) manyEvents() error {
	dev := r.alloc(4096)
	for range 200 {
		if err := r.MemsetD8Async(r.ctx, dev, 1, 4096, 0); err != nil {
			return err
		}
	}
	return r.CtxSynchronize(r.ctx)
}

// TestClockLimit: the limit of kernels holds for the work of the virtual clock, under each
// schedule. Then the devices are lost, as with a kernel.
func TestClockLimit(t *testing.T) {
	for _, s := range []Schedule{Eager, Lazy, Random} {
		t.Run(s.String(), func(t *testing.T) {
			r := newRig(t, Options{Schedule: s, KernelLimit: time.Hour})
			r.ok(r.manyEvents())
			r.sim.look, r.limit = 1, 1 // ns: any work of the clock is longer
			err := r.manyEvents()
			ended(t, err, "the virtual clock: CUDA_ERROR_LAUNCH_TIMEOUT; at ", "of profile h200's time it was stopped after", "longer than the limit of 1ns", LimitVariable)
			if _, again := r.MemAlloc(r.ctx, 8); !errors.Is(again, err) {
				t.Errorf("after it: %v, want the same", again)
			}
			r.Now() // ends
		})
	}
}

// TestClockInterrupt: an interrupt, such as that of a command's user, ends the work of the clock.
func TestClockInterrupt(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		r.ok(r.manyEvents())
		cause := context.Canceled
		r.sim.look = 1
		r.Interrupt(nil)
		err := r.manyEvents()
		ended(t, err, "the virtual clock: CUDA_ERROR_LAUNCH_TIMEOUT; at ", "it was interrupted after", "context canceled")
		if !errors.Is(err, cause) {
			t.Errorf("%v does not wrap %v", err, cause)
		}
	})
}

// TestPollsEnd: a wait of any length ends after a bounded number of the program's queries. The
// bound of one query's time grows if there are many.
func TestPollsEnd(t *testing.T) {
	r := newRig(t, Options{})
	o := &op{ctx: r.handles[uintptr(r.ctx)].(*contextState)}
	passed := 0.0
	for ; passed < longestCost && o.polls < 2*manyPolls; o.polls++ {
		passed += o.pollNs()
	}
	if passed < longestCost {
		t.Errorf("%d queries took %v ns, want %v", o.polls, passed, float64(longestCost))
	}
	if o.polls = manyPolls; o.pollNs() != longestPoll {
		t.Errorf("query %d takes %v ns, want %v", o.polls, o.pollNs(), float64(longestPoll))
	}
}

// TestCostBounded: whatever a cost is, the clock gets finite numbers.
func TestCostBounded(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, math.MaxFloat64, math.SmallestNonzeroFloat64}
	for _, ns := range odd {
		for _, use := range odd {
			k := cost{ns: ns, use: [numResources]float64{use, 0.5, use}}.bounded()
			if !(k.ns >= 0 && k.ns <= longestCost) || !(k.use[0] >= 0 && k.use[0] <= mostUse) || k.use[1] != 0.5 || k.use[2] != k.use[0] {
				t.Errorf("%v ns with use %v became %v", ns, use, k)
			}
			if ns >= 0 && ns <= longestCost && k.ns != ns {
				t.Errorf("%v ns became %v", ns, k.ns)
			}
		}
	}
	for ns, want := range map[float64]time.Duration{1.5: 1, 1e18: 1e18, 1e19: math.MaxInt64, math.Inf(1): math.MaxInt64} {
		if got := nanoseconds(ns); got != want {
			t.Errorf("%v ns is %d, want %d", ns, got, want)
		}
	}
	if got := nanoseconds(math.NaN()); got != math.MaxInt64 {
		t.Errorf("NaN is %v", got)
	}
}

// TestOpenChecksProfile: a profile that a program has changed is checked as one that is read.
func TestOpenChecksProfile(t *testing.T) {
	p := *named(t, "h200")
	p.Link.Tags.Value = 1e-320
	_, err := Open(Options{Profile: &p})
	if err == nil || err.Error() != "open software GPU: profile h200: link.tags.value: found 1e-320, want a number from 1 to 1e+06, or 0" {
		t.Errorf("got %v", err)
	}
}
