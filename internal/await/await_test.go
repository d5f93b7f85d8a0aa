package await

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errPlanted = errors.New("planted")

// call is a fake driver call. It takes a second and counts how many run at once.
type call struct {
	calls, running atomic.Int32
	errs           []error // by call
}

func (c *call) sync() error {
	n := c.calls.Add(1)
	if c.running.Add(1) != 1 {
		panic("two calls at once")
	}
	defer c.running.Add(-1)
	time.Sleep(time.Second)
	if int(n) <= len(c.errs) {
		return c.errs[n-1]
	}
	return nil
}

// noLost fails the test if an error gets lost.
func noLost(t *testing.T) func(error) {
	return func(err error) { t.Errorf("lost %v", err) }
}

// TestWaitEndedContext checks that nothing is called for a context that has ended.
func TestWaitEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var g Group
	if err := g.Wait(ctx, func() error { t.Error("called"); return nil }, noLost(t)); err != context.Canceled {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestWaitShares checks that callers share calls, and that a call that began before Wait
// does not count.
func TestWaitShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var c call
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin := time.Now()
		wait := func(want time.Duration) {
			if err := g.Wait(ctx, c.sync, noLost(t)); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took != want {
				t.Errorf("returned after %v, want %v", took, want)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { wait(time.Second) })
		time.Sleep(time.Second / 2)
		for range 3 {
			all.Go(func() { wait(2 * time.Second) })
		}
		all.Wait()
		if n := c.calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		wait(3 * time.Second)
	})
}

// TestWaitErrors checks that all callers of a call get its error, also those for which
// another call would follow.
func TestWaitErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		c := call{errs: []error{errPlanted}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := g.Wait(ctx, c.sync, noLost(t)); err != errPlanted {
					t.Errorf("got %v, want %v", err, errPlanted)
				}
			})
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if err := g.Wait(ctx, c.sync, noLost(t)); err != nil || c.calls.Load() != 2 {
			t.Errorf("got %v after %d calls, want nil after 2", err, c.calls.Load())
		}
	})
}

// TestWaitGivesUp checks that Wait returns when its context ends, that other callers keep
// the call, and that a later caller does not start a second call beside it.
func TestWaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		c := call{errs: []error{nil, nil, errPlanted, errPlanted}}
		short, cancel := context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		long, stop := context.WithCancel(t.Context())
		defer stop()
		begin := time.Now()
		if err := g.Wait(short, c.sync, noLost(t)); err != context.DeadlineExceeded || time.Since(begin) != time.Second/4 {
			t.Errorf("got %v after %v, want %v after 250ms", err, time.Since(begin), context.DeadlineExceeded)
		}
		if err := g.Wait(long, c.sync, noLost(t)); err != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("got %v after %v, want nil after 2s: the call in progress does not count", err, time.Since(begin))
		}

		// Of two callers one gives up. The other gets the error.
		short, cancel = context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { _ = g.Wait(short, c.sync, noLost(t)) })
		if err := g.Wait(long, c.sync, noLost(t)); err != errPlanted {
			t.Errorf("got %v, want %v", err, errPlanted)
		}
		all.Wait()

		// The only caller gives up. The error goes to lost.
		short, cancel = context.WithTimeout(t.Context(), time.Second/4)
		defer cancel()
		var lost []error
		if err := g.Wait(short, c.sync, func(err error) { lost = append(lost, err) }); err != context.DeadlineExceeded {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		time.Sleep(time.Second)
		if synctest.Wait(); len(lost) != 1 || lost[0] != errPlanted {
			t.Errorf("lost %v, want %v", lost, errPlanted)
		}
	})
}

// TestWaitGoexit checks that a call that ends its goroutine ends its round.
func TestWaitGoexit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var g Group
	if err := g.Wait(ctx, func() error { runtime.Goexit(); return nil }, noLost(t)); err != errNoReturn {
		t.Errorf("got %v, want %v", err, errNoReturn)
	}
	if err := g.Wait(ctx, func() error { return nil }, noLost(t)); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestNoErrorVanishes runs callers whose contexts end when a call fails, at the same
// time or a little earlier or later. Each error must be returned by a Wait or go to lost.
// No call may run beside another.
func TestNoErrorVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var running atomic.Int32
		var mu sync.Mutex
		made, seen := map[error]bool{}, map[error]bool{}
		note := func(m map[error]bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			m[err] = true
		}
		fail := func() error {
			if running.Add(1) != 1 {
				t.Error("two calls at once")
			}
			defer running.Add(-1)
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			err := fmt.Errorf("call failed: %w", errPlanted)
			note(made, err)
			return err
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 1000 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(3))*time.Millisecond)
					if err := g.Wait(ctx, fail, func(err error) { note(seen, err) }); errors.Is(err, errPlanted) {
						note(seen, err)
					} else if err != context.DeadlineExceeded {
						t.Errorf("got %v", err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second) // the last call may still run
		if synctest.Wait(); len(seen) != len(made) || len(made) == 0 {
			t.Errorf("%d of %d errors were returned or lost", len(seen), len(made))
		}
	})
}

// TestErrorAtTheEnd ends a context while its call fails. Wait returns the error, or lost
// gets it, whichever of both comes first.
func TestErrorAtTheEnd(t *testing.T) {
	for range 2000 {
		var g Group
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan error, 1)
		switch err := g.Wait(ctx, func() error { cancel(); return errPlanted }, func(err error) { lost <- err }); err {
		case errPlanted:
		case context.Canceled:
			select {
			case <-lost:
			case <-time.After(10 * time.Second):
				t.Fatal("the error was neither returned nor lost")
			}
		default:
			t.Fatalf("got %v, want %v or %v", err, errPlanted, context.Canceled)
		}
	}
}

// TestContext checks that a nil context never ends.
func TestContext(t *testing.T) {
	var none context.Context
	if ctx := Context(none); ctx == nil || ctx.Done() != nil {
		t.Errorf("got %v for nil", ctx)
	}
	if ctx := Context(t.Context()); ctx != t.Context() {
		t.Error("another context than the given one")
	}
}
