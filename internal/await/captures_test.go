package await

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestCapturesRefuseWaits: no wait begins while a stream captures, also while one of two does.
func TestCapturesRefuseWaits(t *testing.T) {
	var c Captures
	planted := errors.New("planted")
	try := func(want bool) {
		t.Helper()
		called := false
		ok, err := c.Wait(func() error { called = true; return planted })
		if ok != want || called != want || (err == planted) != want { //nolint:errorlint // it is not wrapped
			t.Errorf("got %t, %v, called %t, want %t", ok, err, called, want)
		}
	}
	try(true)
	c.Begin()
	try(false)
	c.Begin()
	c.End()
	try(false)
	c.End()
	try(true)
}

// TestCapturesBegin: a capture waits for a wait that has just begun, but not for one that goes
// on for long.
func TestCapturesBegin(t *testing.T) {
	for _, test := range []struct{ before, length, want time.Duration }{
		{0, time.Millisecond, time.Millisecond},     // until its end
		{0, time.Hour, lookTime},                    // until the driver has looked
		{lookTime / 4, time.Hour, 3 * lookTime / 4}, // the rest of that time
		{lookTime, time.Hour, 0},                    // the driver has looked
		{time.Millisecond, time.Millisecond / 2, 0}, // it has ended
		{lookTime / 2, lookTime/2 + 1000*time.Hour, lookTime / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var c Captures
			var wait sync.WaitGroup
			wait.Go(func() { c.Wait(func() error { time.Sleep(test.length); return nil }) })
			time.Sleep(test.before)
			synctest.Wait()
			began := time.Now()
			c.Begin()
			if took := time.Since(began); took != test.want {
				t.Errorf("%v after the start of a wait of %v: a capture waits %v, want %v", test.before, test.length, took, test.want)
			}
			c.End()
			wait.Wait()
		})
	}
}

// TestCapturesEndOfWait: a wait whose call panics does not stay.
func TestCapturesEndOfWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Captures
		func() {
			defer func() { _ = recover() }()
			c.Wait(func() error { panic("planted") })
		}()
		began := time.Now()
		c.Begin()
		if took := time.Since(began); took != 0 {
			t.Errorf("a capture waits %v for a wait that has ended", took)
		}
	})
}

// TestCapturesApart: many goroutines wait and capture. A driver that looks at a random time of a
// wait, before lookTime is over, never finds a capture.
func TestCapturesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Captures
		var capturing, found, waited, refused atomic.Int64
		var all sync.WaitGroup
		for i := range uint64(8) {
			all.Go(func() {
				upTo := durations(2 * i)
				for range 500 {
					time.Sleep(upTo(lookTime))
					ok, _ := c.Wait(func() error {
						time.Sleep(upTo(lookTime))
						found.Add(capturing.Load())
						time.Sleep(upTo(4 * lookTime))
						return nil
					})
					if ok {
						waited.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
			all.Go(func() {
				upTo := durations(2*i + 1)
				for range 500 {
					time.Sleep(upTo(10 * lookTime))
					c.Begin()
					capturing.Add(1)
					time.Sleep(upTo(lookTime / 4))
					capturing.Add(-1)
					c.End()
				}
			})
		}
		all.Wait()
		if found.Load() > 0 || waited.Load() < 100 || refused.Load() < 100 {
			t.Errorf("%d waits, %d refused: the driver found a capture %d times, want none", waited.Load(), refused.Load(), found.Load())
		}
	})
}

// durations returns a function that draws durations below a bound.
func durations(seed uint64) func(bound time.Duration) time.Duration {
	random := rand.New(rand.NewPCG(33, seed))
	return func(bound time.Duration) time.Duration { return time.Duration(random.Int64N(int64(bound))) }
}
