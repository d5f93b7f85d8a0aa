package libcuda

import (
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// The way to C. A pointer becomes a number in the argument list of call3, bound1,
// bound3, bound6 or bound11 and nowhere else. The directive go:uintptrescapes
// makes the compiler move what it points to onto the heap, where nothing moves,
// and keep it until they return. They have a fixed number of arguments because a
// variadic list would be allocated in every call; callers take the smallest that
// is large enough, and C does not see the zeros at the end.

// maxArgs is the most arguments of a function.
const maxArgs = 11

// frame is the arguments of one call: cuCtxSetCurrent, the context, the function
// and its arguments. Frames are reused, so that a call allocates nothing.
type frame [3 + maxArgs]uintptr

var frames = sync.Pool{New: func() any { return new(frame) }}

// call3 calls a function that needs no context.
//
//go:uintptrescapes
func (d *Driver) call3(id procID, a0, a1, a2 uintptr) error {
	if err := refuseInHostFunc(id); err != nil {
		return err
	}
	fn, err := d.proc(id)
	if err != nil {
		return err
	}
	f := frames.Get().(*frame)
	f[0], f[1], f[2] = a0, a1, a2
	r := syscallN(fn, f[:3]...)
	frames.Put(f)
	return result(r)
}

// bound1 calls a function with ctx current.
//
//go:uintptrescapes
func (d *Driver) bound1(id procID, ctx cu.Context, a0 uintptr) error {
	f := frames.Get().(*frame)
	f[3] = a0
	return d.invoke(id, ctx, f, 1)
}

//go:uintptrescapes
func (d *Driver) bound3(id procID, ctx cu.Context, a0, a1, a2 uintptr) error {
	f := frames.Get().(*frame)
	f[3], f[4], f[5] = a0, a1, a2
	return d.invoke(id, ctx, f, 3)
}

//go:uintptrescapes
func (d *Driver) bound6(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5 uintptr) error {
	f := frames.Get().(*frame)
	f[3], f[4], f[5], f[6], f[7], f[8] = a0, a1, a2, a3, a4, a5
	return d.invoke(id, ctx, f, 6)
}

//go:uintptrescapes
func (d *Driver) bound11(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10 uintptr) error {
	f := frames.Get().(*frame)
	f[3], f[4], f[5], f[6], f[7], f[8] = a0, a1, a2, a3, a4, a5
	f[9], f[10], f[11], f[12], f[13] = a6, a7, a8, a9, a10
	return d.invoke(id, ctx, f, 11)
}

// invoke calls a function whose n arguments are in f, and gives f back.
func (d *Driver) invoke(id procID, ctx cu.Context, f *frame, n int) error {
	defer frames.Put(f)
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return cu.ErrorInvalidContext
	}
	if err := refuseInHostFunc(id); err != nil {
		return err
	}
	set, err := d.proc(procCtxSetCurrent)
	if err != nil {
		return err
	}
	fn, err := d.proc(id)
	if err != nil {
		return err
	}
	f[0], f[1], f[2] = set, uintptr(ctx), fn
	r := callBound(f, n)
	seeHostFuncs()
	return result(r)
}

// callBoundPlain makes the context current and calls the function, one after the
// other on one thread.
func callBoundPlain(f *frame, n int) uintptr {
	runtime.LockOSThread()
	r := syscallN(f[0], f[1:2]...)
	if cu.Result(uint32(r)) == cu.Success {
		r = syscallN(f[2], f[3:3+n]...)
	}
	runtime.UnlockOSThread()
	return r
}
