package closing

import (
	"errors"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/forked"
)

// AfterHostFunction runs a task that calls the driver. In a host function the driver refuses
// that. Then a new goroutine runs the task, and AfterHostFunction returns nil. The errors of the
// goroutine are dropped, because the Close that they belong to has returned. In a forked child
// it does not run the task, which could wait for threads that are not there.
func AfterHostFunction(task func() error) error {
	if forked.Child() {
		return forked.New("close")
	}
	err := task()
	if !InHostFunction(err) {
		return err
	}
	go func() { _ = task() }()
	return nil
}

// InHostFunction reports whether the driver refused a call because it came from a host
// function.
func InHostFunction(err error) bool { return errors.Is(err, cu.ErrorNotPermitted) }

// Retry lets the next Close continue a Close whose wait failed. The hardware may still use
// the memory then, so it is not freed. The zero Retry has nothing to continue.
type Retry struct{ failed atomic.Bool }

// Failed records that the wait of a Close failed.
func (r *Retry) Failed() { r.failed.Store(true) }

// Close is the Close of a closed object. If the wait of an earlier Close failed, it runs the
// task that continues it: see AfterHostFunction. Otherwise it does nothing and returns nil.
// Of several goroutines one runs the task.
func (r *Retry) Close(task func() error) error {
	if !r.failed.Load() || !r.failed.CompareAndSwap(true, false) {
		return nil
	}
	return AfterHostFunction(task)
}
