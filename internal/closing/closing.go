package closing

import (
	"errors"
	"sync"
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

// Twice calls close, and calls it again after an error. What was closed in spite of that error returns
// nil then, so left is the error of what is still open.
func Twice(close func() error) (err, left error) {
	if err = close(); err != nil {
		left = close()
	}
	return err, left
}

// Leftovers are what failed calls could not undo, and returned no object for that could be closed.
// It is safe for concurrent use. The zero Leftovers are none.
type Leftovers struct {
	mu  sync.Mutex
	all []func() error
}

// Add adds a task that undoes a call. If the task returns an error, it runs again.
func (l *Leftovers) Add(task func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, task)
}

// Undo runs the tasks, and keeps those that return errors for the next Undo.
func (l *Leftovers) Undo() error {
	l.mu.Lock()
	all := l.all
	l.all = nil
	l.mu.Unlock()
	var failed []error
	for _, task := range all {
		if err := task(); err != nil {
			l.Add(task)
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
