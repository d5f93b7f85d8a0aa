package libcuda

import "github.com/ferrygpu/ferry/cu"

// The way to C. A pointer becomes a number in the argument list of call3, bound1,
// bound3, bound6, bound11 or launch and nowhere else. The directive go:uintptrescapes
// makes the compiler move what it points to onto the heap, where nothing moves,
// and keep it until they return. They have a fixed number of arguments because a
// variadic list would be allocated in every call; callers take the smallest that
// is large enough, and C does not see the zeros at the end.

// call3 calls a function that needs no context.
//
//go:uintptrescapes
func (d *Driver) call3(id procID, a0, a1, a2 uintptr) error {
	c := call{step: step{1: a0, a1, a2}}
	if err := d.prepare(&c.step, id); err != nil {
		return err
	}
	return result(c.make())
}

// bound1 calls a function with ctx current.
//
//go:uintptrescapes
func (d *Driver) bound1(id procID, ctx cu.Context, a0 uintptr) error {
	c := call{step: step{1: a0}}
	return d.invoke(id, ctx, &c)
}

//go:uintptrescapes
func (d *Driver) bound3(id procID, ctx cu.Context, a0, a1, a2 uintptr) error {
	c := call{step: step{1: a0, a1, a2}}
	return d.invoke(id, ctx, &c)
}

//go:uintptrescapes
func (d *Driver) bound6(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5 uintptr) error {
	c := call{step: step{1: a0, a1, a2, a3, a4, a5}}
	return d.invoke(id, ctx, &c)
}

//go:uintptrescapes
func (d *Driver) bound11(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10 uintptr) error {
	c := call{step: step{1: a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10}}
	return d.invoke(id, ctx, &c)
}

// launch makes a launch, but for its parameters laid out in c.
//
//go:uintptrescapes
func (d *Driver) launch(ctx cu.Context, c *call, params, bytes uintptr) error {
	c.params, c.bytes = params, bytes
	return d.invoke(procLaunchKernel, ctx, c)
}

// invoke makes a call whose arguments are laid out.
func (d *Driver) invoke(id procID, ctx cu.Context, c *call) error {
	err := d.prepare(&c.step, id)
	if err == nil {
		err = d.bind(&c.binding, ctx)
	}
	if err != nil {
		return err
	}
	r := c.make()
	seeHostFuncs()
	return result(r)
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

// bind says which context is to be current.
func (d *Driver) bind(b *binding, ctx cu.Context) error {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return cu.ErrorInvalidContext
	}
	set, err := d.proc(procCtxSetCurrent)
	b.set, b.ctx = set, uintptr(ctx)
	return err
}
