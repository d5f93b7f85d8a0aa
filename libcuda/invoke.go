package libcuda

import "github.com/ferrygpu/ferry/cu"

// The way to C. A pointer becomes a number in the argument list of call3, bound1,
// bound3, bound6, bound11, named or launch and nowhere else. The directive go:uintptrescapes
// makes the compiler move what it points to onto the heap, where nothing moves,
// and keep it until they return. They have a fixed number of arguments because a
// variadic list would be allocated in every call; callers take the smallest that
// is large enough, and C does not see the zeros at the end. Arguments go to their
// places one by one: what is copied as a whole, just after it was written in parts,
// must wait for that.

// call3 calls a function that needs no context.
//
//go:uintptrescapes
func (d *Driver) call3(id procID, a0, a1, a2 uintptr) error {
	var c call
	s := &c.step
	s[1], s[2], s[3] = a0, a1, a2
	if err := d.prepare(&c.step, id); err != nil {
		return err
	}
	return result(c.make())
}

// bound1 calls a function with ctx current.
//
//go:uintptrescapes
func (d *Driver) bound1(id procID, ctx cu.Context, a0 uintptr) error {
	var c call
	c.step[1] = a0
	return d.invoke(id, ctx, &c)
}

//go:uintptrescapes
func (d *Driver) bound3(id procID, ctx cu.Context, a0, a1, a2 uintptr) error {
	var c call
	s := &c.step
	s[1], s[2], s[3] = a0, a1, a2
	return d.invoke(id, ctx, &c)
}

//go:uintptrescapes
func (d *Driver) bound6(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5 uintptr) error {
	var c call
	s := &c.step
	s[1], s[2], s[3], s[4], s[5], s[6] = a0, a1, a2, a3, a4, a5
	return d.invoke(id, ctx, &c)
}

//go:uintptrescapes
func (d *Driver) bound11(id procID, ctx cu.Context, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10 uintptr) error {
	var c call
	s := &c.step
	s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11] = a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
	return d.invoke(id, ctx, &c)
}

// named calls a function that goes by the context of a stream or an event: handle.
//
//go:uintptrescapes
func (d *Driver) named(id procID, ctx cu.Context, handle, a0, a1, a2, a3 uintptr) error {
	var c shortCall
	c.fn, c.a0, c.a1, c.a2, c.a3 = d.byHandle(id, ctx, handle), a0, a1, a2, a3
	if c.fn == 0 {
		return d.withContext(id, ctx, &c)
	}
	r := c.make()
	if seeHostFuncs(); r == cu.Success {
		return nil
	}
	return d.again(r, id, ctx, &c)
}

// again is for a call without its context that failed.
func (d *Driver) again(r cu.Result, id procID, ctx cu.Context, c *shortCall) error {
	if wantsContext(r) {
		return d.withContext(id, ctx, c)
	}
	return result(r)
}

// withContext makes a short call with ctx current.
func (d *Driver) withContext(id procID, ctx cu.Context, short *shortCall) error {
	var c call
	s := &c.step
	s[1], s[2], s[3], s[4] = short.a0, short.a1, short.a2, short.a3
	return d.invoke(id, ctx, &c)
}

// launch makes a launch, but for its parameters laid out in c.
//
//go:uintptrescapes
func (d *Driver) launch(ctx cu.Context, stream cu.Stream, c *call, params, bytes uintptr) error {
	c.params, c.bytes = params, bytes
	if c.step[0] = d.byHandle(procLaunchKernel, ctx, uintptr(stream)); c.step[0] == 0 {
		return d.invoke(procLaunchKernel, ctx, c)
	}
	r := c.make()
	if seeHostFuncs(); r == cu.Success {
		return nil
	}
	if wantsContext(r) {
		return d.invoke(procLaunchKernel, ctx, c)
	}
	return result(r)
}

// invoke makes a call whose arguments are laid out. After a call of the driver all
// code is cold, so what nearly always holds is seen here.
func (d *Driver) invoke(id procID, ctx cu.Context, c *call) error {
	c.step[0], c.set, c.ctx = d.procs[id].Load(), d.procs[procCtxSetCurrent].Load(), uintptr(ctx)
	inside, dead := hostThreadCount.Load(), d.contexts.dead.Load()
	if c.step[0] == 0 || c.set == 0 || ctx == 0 || inside != 0 || dead != nil {
		if err := d.prepareBound(c, id, ctx); err != nil {
			return err
		}
	}
	r := c.make()
	seeHostFuncs()
	if r == cu.Success {
		return nil
	}
	return result(r)
}

// goesByHandle is the first version of drivers that take the context of an operation
// from the stream or the event that it names, whatever context is current: seen of
// driver 580 (docs/SEMANTICS.md). To make it current costs 19 ns.
const goesByHandle = 13000

// byHandle is a function that can be called without its context, because handle is
// one context's alone; else 0.
func (d *Driver) byHandle(id procID, ctx cu.Context, handle uintptr) uintptr {
	fn, inside, dead := d.procs[id].Load(), hostThreadCount.Load(), d.contexts.dead.Load()
	if ctx == 0 || handle <= uintptr(cu.StreamPerThread) || d.version < goesByHandle || inside != 0 || dead != nil {
		return 0
	}
	return fn
}

// wantsContext says whether an answer may be that of a driver that wants the context
// current all the same. It has done nothing.
func wantsContext(r cu.Result) bool {
	switch r {
	case cu.ErrorInvalidContext, cu.ErrorContextIsDestroyed, cu.ErrorInvalidHandle, cu.ErrorInvalidValue:
		return true
	}
	return false
}

// prepareBound is prepare and bind.
func (d *Driver) prepareBound(c *call, id procID, ctx cu.Context) error {
	if err := d.prepare(&c.step, id); err != nil {
		return err
	}
	return d.bind(&c.binding, ctx)
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
