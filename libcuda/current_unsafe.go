package libcuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes. So the memory stays alive and in place until C returns, and C keeps
// none of them.

var _ cu.ThreadBinder = (*Driver)(nil)

// boundThreads are the threads between BindThread and its unbind. A call in such a thread leaves
// the current context as it was. Other calls need not know which context is current.
var boundThreads struct {
	// list has a thread once for each BindThread without an unbind. It is never changed, only
	// replaced, and nil while it would be empty. Every call that sets a context reads it.
	list atomic.Pointer[[]int]
	mu   sync.Mutex // for those that replace list
}

// inBoundThread reports whether the calling thread is bound. While any thread is, it makes a
// system call for the number of the calling one.
func inBoundThread() bool {
	list := boundThreads.list.Load()
	return list != nil && slices.Contains(*list, threadID())
}

// addBound adds the calling thread to the list.
func addBound() {
	id := threadID()
	replaceBound(func(list []int) []int { return append(list, id) })
}

// dropBound takes the calling thread off the list, once.
func dropBound() {
	id := threadID()
	replaceBound(func(list []int) []int {
		if i := slices.Index(list, id); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		return list
	})
}

// replaceBound replaces the list by what change makes of a copy.
func replaceBound(change func(list []int) []int) {
	boundThreads.mu.Lock()
	defer boundThreads.mu.Unlock()
	var next []int
	if old := boundThreads.list.Load(); old != nil {
		next = slices.Clone(*old)
	}
	if next = change(next); len(next) == 0 {
		boundThreads.list.Store(nil)
		return
	}
	boundThreads.list.Store(&next)
}

// BindThread implements cu.ThreadBinder (cuCtxGetCurrent, cuCtxPushCurrent, cuCtxPopCurrent).
func (d *Driver) BindThread(ctx cu.Context) (unbind func() error, err error) {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return nil, cu.ErrorInvalidContext
	}
	before, err := d.currentContext()
	if err == nil {
		err = d.pushCurrent(ctx)
	}
	if err != nil {
		return nil, err
	}
	addBound()
	return func() error {
		dropBound()
		return d.restore(ctx, before)
	}, nil
}

// maxLeft is how many contexts unbind pops at most.
const maxLeft = 1000

// restore pops the context that BindThread has pushed, and those that other code has pushed on it
// and left. It stops when the context from before is the uppermost of the thread's stack, and gives
// that one to no function, because it may be gone.
func (d *Driver) restore(ctx, before cu.Context) error {
	var popped []cu.Context // the uppermost first
	for len(popped) < maxLeft {
		top, now, err := d.popToSee()
		if top != 0 {
			popped = append(popped, top)
		}
		switch {
		case err != nil && !isGone(err):
			return err
		case err == nil && now == before:
			return nil
		case err != nil || now == 0:
			return d.pushBack(popped, ctx, before)
		}
	}
	return fmt.Errorf("%d contexts were left on the one that was current: %w", len(popped), cu.ErrorInvalidContext)
}

// popToSee pops a context and returns it, and the one that is current then. If the stack is empty,
// the error is cu.ErrorInvalidContext.
func (d *Driver) popToSee() (top, now cu.Context, err error) {
	if top, err = d.popCurrent(); err == nil {
		now, err = d.currentContext()
	}
	return top, now, err
}

// pushBack pushes all popped contexts again if other code had popped ctx. Then they were on the
// stack before BindThread. Those that are gone stay away.
func (d *Driver) pushBack(popped []cu.Context, ctx, before cu.Context) (err error) {
	if slices.Contains(popped, ctx) && popped[0] != before {
		return nil
	}
	for _, x := range slices.Backward(popped) {
		if d.contexts.destroyed(x) {
			continue
		}
		if failed := d.pushCurrent(x); failed != nil && !isGone(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// isGone reports whether an error says that there is no such context any more.
func isGone(err error) bool {
	return errors.Is(err, cu.ErrorInvalidContext) || errors.Is(err, cu.ErrorContextIsDestroyed)
}

func (d *Driver) currentContext() (ctx cu.Context, err error) {
	err = d.call3(procCtxGetCurrent, uintptr(unsafe.Pointer(&ctx)), 0, 0)
	return ctx, err
}

func (d *Driver) pushCurrent(ctx cu.Context) error {
	return d.call3(procCtxPushCurrent, uintptr(ctx), 0, 0)
}

func (d *Driver) popCurrent() (ctx cu.Context, err error) {
	err = d.call3(procCtxPopCurrent, uintptr(unsafe.Pointer(&ctx)), 0, 0)
	return ctx, err
}

// WithContext implements cu.ThreadBinder (cuCtxGetCurrent, cuCtxSetCurrent). To push and pop the
// context each time makes a call of NCCL 1 to 3 us slower (two H200s, 4 KiB: 12.3 and 10.9 us beside
// 8.3 and 10.4).
func (d *Driver) WithContext(ctx cu.Context, f func() error) error {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return cu.ErrorInvalidContext
	}
	if inBoundThread() {
		return d.between(ctx, f)
	}
	if err := d.makeCurrent(ctx); err != nil {
		return err
	}
	return f()
}

// makeCurrent makes a context current, if it is not.
func (d *Driver) makeCurrent(ctx cu.Context) error {
	now := contexts.Get().(*cu.Context)
	defer contexts.Put(now)
	if err := d.call3(procCtxGetCurrent, uintptr(unsafe.Pointer(now)), 0, 0); err == nil && *now == ctx {
		return nil
	}
	return d.call3(procCtxSetCurrent, uintptr(ctx), 0, 0)
}

// between makes a call in a bound thread with ctx current, and leaves the stack of contexts as it
// was.
func (d *Driver) between(ctx cu.Context, call func() error) error {
	if err := d.pushCurrent(ctx); err != nil {
		return err
	}
	err := call()
	seeHostFuncs()
	if failed := d.dropCurrent(); err == nil {
		err = failed
	}
	return err
}

// contexts has out-parameters, so that a call allocates none.
var contexts = sync.Pool{New: func() any { return new(cu.Context) }}

// dropCurrent pops a context and forgets it.
func (d *Driver) dropCurrent() error {
	ctx := contexts.Get().(*cu.Context)
	defer contexts.Put(ctx)
	return d.call3(procCtxPopCurrent, uintptr(unsafe.Pointer(ctx)), 0, 0)
}
