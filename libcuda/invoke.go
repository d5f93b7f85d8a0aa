package libcuda

import (
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// The way to C. A pointer becomes a number in the argument list of call3, bound1,
// bound3, bound6 or bound11 and nowhere else. The directive go:uintptrescapes
// makes the compiler move what it points to onto the heap, where nothing moves,
// and keep it until they return. They have a fixed number of arguments because a
// variadic list would be allocated in every call; callers take the smallest that
// is large enough, and C does not see the zeros at the end.

// frame is a crossing with one step. Frames are reused, so that a call allocates
// nothing.
type frame struct {
	crossing
	step step
}

var frames = sync.Pool{New: func() any {
	f := new(frame)
	f.steps, f.n = &f.step, 1
	return f
}}

// args is room for the arguments of the one step.
func (f *frame) args() *[maxArgs]uintptr { return (*[maxArgs]uintptr)(f.step[1:]) }

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
	a := f.args()
	a[0], a[1], a[2] = a0, a1, a2
	r := syscallN(fn, a[:3]...)
	frames.Put(f)
	return result(r)
}

// bound1 calls a function with ctx current.
//
//go:uintptrescapes
func (d *Driver) bound1(id procID, ctx cu.Context, a0 uintptr) error {
	f := frames.Get().(*frame)
	f.args()[0] = a0
	return d.invoke(id, ctx, f)
}

//go:uintptrescapes
func (d *Driver) bound3(id procID, ctx cu.Context, a0, a1, a2 uintptr) error {
	f := frames.Get().(*frame)
	a := f.args()
	a[0], a[1], a[2] = a0, a1, a2
	return d.invoke(id, ctx, f)
}

//go:uintptrescapes
func (d *Driver) bound6(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5 uintptr) error {
	f := frames.Get().(*frame)
	a := f.args()
	a[0], a[1], a[2], a[3], a[4], a[5] = a0, a1, a2, a3, a4, a5
	return d.invoke(id, ctx, f)
}

//go:uintptrescapes
func (d *Driver) bound11(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10 uintptr) error {
	f := frames.Get().(*frame)
	*f.args() = [maxArgs]uintptr{a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10}
	return d.invoke(id, ctx, f)
}

// invoke calls a function whose arguments are in f, and gives f back.
func (d *Driver) invoke(id procID, ctx cu.Context, f *frame) error {
	err := d.prepare(&f.step, id)
	if err == nil {
		err = d.cross(ctx, &f.crossing)
	}
	frames.Put(f)
	return err
}

// prepare names the function of a step.
func (d *Driver) prepare(s *step, id procID) error {
	if err := refuseInHostFunc(id); err != nil {
		return err
	}
	fn, err := d.proc(id)
	s[0] = fn
	return err
}

// cross makes the calls of c with ctx current.
func (d *Driver) cross(ctx cu.Context, c *crossing) error {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return cu.ErrorInvalidContext
	}
	set, err := d.proc(procCtxSetCurrent)
	if err != nil {
		return err
	}
	c.set, c.ctx, c.done = set, uintptr(ctx), 0
	cross(c)
	seeHostFuncs()
	return c.err()
}
