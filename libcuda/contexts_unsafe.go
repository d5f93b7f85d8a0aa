package libcuda

import (
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// contextTable records which created contexts have been destroyed, because the
// driver can crash on such a handle. The driver uses handles again: a new context
// can be at the address of an old one.
type contextTable struct {
	dead    atomic.Pointer[map[cu.Context]bool] // never changed, only replaced; nil while there is none
	mu      sync.Mutex
	created map[cu.Context]bool
}

// destroyed reports whether ctx was created and destroyed.
func (t *contextTable) destroyed(ctx cu.Context) bool {
	dead := t.dead.Load()
	return dead != nil && (*dead)[ctx]
}

// add records a new context.
func (t *contextTable) add(ctx cu.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.created == nil {
		t.created = make(map[cu.Context]bool)
	}
	t.created[ctx] = true
	t.mark(ctx, false)
}

// remove records that a context is about to be destroyed. It returns false if the
// context was not added. Call it before the driver's function, after which a new
// context can have the same handle.
func (t *contextTable) remove(ctx cu.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.created[ctx] {
		return false
	}
	delete(t.created, ctx)
	t.mark(ctx, true)
	return true
}

// mark replaces dead by a copy; the caller holds mu.
func (t *contextTable) mark(ctx cu.Context, dead bool) {
	if t.destroyed(ctx) == dead {
		return
	}
	next := make(map[cu.Context]bool)
	if old := t.dead.Load(); old != nil {
		maps.Copy(next, *old)
	}
	if dead {
		next[ctx] = true
	} else {
		delete(next, ctx)
	}
	if len(next) == 0 {
		t.dead.Store(nil)
		return
	}
	t.dead.Store(&next)
}

// CtxCreate calls cuCtxCreate, which makes the new context current, and then
// cuCtxPopCurrent, which undoes that; see [cu.Contexts].
func (d *Driver) CtxCreate(flags cu.CtxFlags, dev cu.Device) (ctx cu.Context, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := d.call3(procCtxCreate, uintptr(unsafe.Pointer(&ctx)), uintptr(flags), uintptr(dev)); err != nil {
		return 0, err
	}
	d.contexts.add(ctx)
	if _, err := d.popCurrent(); err != nil {
		return 0, err
	}
	return ctx, nil
}

// CtxDestroy calls cuCtxDestroy; see [cu.Contexts]. It is the last call that reports
// panics of the context's host functions: see [cu.HostPanic].
func (d *Driver) CtxDestroy(ctx cu.Context) error {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return cu.ErrorInvalidContext
	}
	added := d.contexts.remove(ctx)
	err := d.call3(procCtxDestroy, uintptr(ctx), 0, 0)
	if err != nil {
		if added {
			d.contexts.add(ctx)
		}
		return err
	}
	err = d.panics.report(nil, ctx, allStreams)
	d.panics.drop(ctx)
	return err
}

// CtxSynchronize calls cuCtxSynchronize; see [cu.Contexts]. It reports panics of the
// context's host functions: see [cu.HostPanic].
func (d *Driver) CtxSynchronize(ctx cu.Context) error {
	return d.panics.report(d.bound1(procCtxSynchronize, ctx, 0), ctx, allStreams)
}
