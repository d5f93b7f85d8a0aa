package closing

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestRetry: a Close after a failed wait runs the task once, in one of many goroutines.
func TestRetry(t *testing.T) {
	var r Retry
	failed := errors.New("still busy")
	var runs atomic.Int64
	task := func() error { runs.Add(1); return failed }
	if err := r.Close(task); err != nil || runs.Load() != 0 {
		t.Fatalf("no wait has failed: %v, %d runs", err, runs.Load())
	}
	for round := int64(1); round <= 20; round++ {
		r.Failed()
		var all sync.WaitGroup
		var told atomic.Int64
		for range 8 {
			all.Go(func() {
				if r.Close(task) == failed {
					told.Add(1)
				}
			})
		}
		all.Wait()
		if runs.Load() != round || told.Load() != 1 {
			t.Fatalf("round %d: %d runs and %d errors in this round, want one a round", round, runs.Load(), told.Load())
		}
	}
}

// TestAfterHostFunction: the driver refuses a task in a host function, so another goroutine
// runs it again.
func TestAfterHostFunction(t *testing.T) {
	again := make(chan int)
	first := true
	err := AfterHostFunction(func() error {
		if first {
			first = false
			return fmt.Errorf("free: %w", cu.ErrorNotPermitted)
		}
		again <- 1
		return errors.New("dropped")
	})
	if err != nil {
		t.Error(err)
	}
	<-again
	want := errors.New("told")
	if err := AfterHostFunction(func() error { return want }); err != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

// TestTwice: close is called again only after an error, and left is the second error.
func TestTwice(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, c := range []struct {
		returns   []error
		err, left error
	}{{[]error{nil}, nil, nil}, {[]error{first, nil}, first, nil}, {[]error{first, second}, first, second}} {
		calls := 0
		err, left := Twice(func() error { calls++; return c.returns[calls-1] })
		if err != c.err || left != c.left || calls != len(c.returns) {
			t.Errorf("%v: %v and %v after %d calls, want %v and %v", c.returns, err, left, calls, c.err, c.left)
		}
	}
}
