package libcuda

import (
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
	some  atomic.Int32 // how many BindThread have no unbind yet; every call that sets a context reads it
	mu    sync.Mutex
	depth map[int]int // by thread: how many BindThread have no unbind yet
}

// inBoundThread reports whether the calling thread is bound.
func inBoundThread() bool {
	if boundThreads.some.Load() == 0 {
		return false
	}
	boundThreads.mu.Lock()
	defer boundThreads.mu.Unlock()
	return boundThreads.depth[threadID()] > 0
}

// countBound adds n to the depth of the calling thread.
func countBound(n int) {
	id := threadID()
	boundThreads.mu.Lock()
	defer boundThreads.mu.Unlock()
	boundThreads.some.Add(int32(n))
	if boundThreads.depth == nil {
		boundThreads.depth = make(map[int]int)
	}
	if boundThreads.depth[id] += n; boundThreads.depth[id] == 0 {
		delete(boundThreads.depth, id)
	}
}

// BindThread implements cu.ThreadBinder (cuCtxGetCurrent, cuCtxSetCurrent).
func (d *Driver) BindThread(ctx cu.Context) (unbind func() error, err error) {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return nil, cu.ErrorInvalidContext
	}
	before, err := d.currentContext()
	if err == nil {
		err = d.setCurrent(ctx)
	}
	if err != nil {
		return nil, err
	}
	countBound(1)
	return func() error {
		countBound(-1)
		return d.restore(before)
	}, nil
}

// restore makes the context current that was so before BindThread, or none if it is gone.
func (d *Driver) restore(before cu.Context) error {
	if before != 0 && !d.contexts.destroyed(before) && d.setCurrent(before) == nil {
		return nil
	}
	// Setting no context removes the uppermost of the thread's stack. There are more if code in
	// between has pushed contexts and not popped them.
	for range 100 {
		if err := d.setCurrent(0); err != nil {
			return err
		}
		if now, err := d.currentContext(); err != nil || now == 0 {
			return err
		}
	}
	return nil
}

func (d *Driver) currentContext() (ctx cu.Context, err error) {
	err = d.call3(procCtxGetCurrent, uintptr(unsafe.Pointer(&ctx)), 0, 0)
	return ctx, err
}

func (d *Driver) setCurrent(ctx cu.Context) error {
	return d.call3(procCtxSetCurrent, uintptr(ctx), 0, 0)
}

// between makes a call in a bound thread with ctx current, and leaves the stack of contexts as it
// was (cuCtxPushCurrent, cuCtxPopCurrent).
func (d *Driver) between(ctx cu.Context, call func() error) error {
	if err := d.call3(procCtxPushCurrent, uintptr(ctx), 0, 0); err != nil {
		return err
	}
	err := call()
	seeHostFuncs()
	var popped cu.Context
	if failed := d.call3(procCtxPopCurrent, uintptr(unsafe.Pointer(&popped)), 0, 0); err == nil {
		err = failed
	}
	return err
}
