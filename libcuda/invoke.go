package libcuda

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/forked"
)

// These functions make the calls of C functions.
//
// A pointer becomes a number in the argument list of call3, bound1, bound3, bound6,
// bound11, named or launch, and nowhere else. The directive go:uintptrescapes makes the
// compiler move what the pointer points to onto the heap, where nothing moves. It stays
// there until the function returns.
//
// The functions have a fixed number of arguments because a variadic list would be
// allocated in every call. Callers take the smallest that is large enough; C does
// not see the zeros at the end. Arguments are stored one by one. A copy of the whole
// list right after the single stores would have to wait for them.

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
	return d.failed(id, c.make())
}

//go:uintptrescapes
func (d *Driver) call6(id procID, a0, a1, a2, a3, a4, a5 uintptr) error {
	var c call
	s := &c.step
	s[1], s[2], s[3], s[4], s[5], s[6] = a0, a1, a2, a3, a4, a5
	if err := d.prepare(&c.step, id); err != nil {
		return err
	}
	return d.failed(id, c.make())
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

// named calls a function that uses the context of a stream or an event: handle.
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
	return d.retry(r, id, ctx, &c)
}

// retry handles a call that failed without a current context. It makes the call
// again with the context if the driver may want one.
func (d *Driver) retry(r cu.Result, id procID, ctx cu.Context, c *shortCall) error {
	if wantsContext(r) {
		return d.withContext(id, ctx, c)
	}
	return d.failed(id, r)
}

// withContext makes a short call with ctx current.
func (d *Driver) withContext(id procID, ctx cu.Context, short *shortCall) error {
	var c call
	s := &c.step
	s[1], s[2], s[3], s[4] = short.a0, short.a1, short.a2, short.a3
	return d.invoke(id, ctx, &c)
}

// launch calls cuLaunchKernel. c has all arguments but the kernel's parameters.
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
	return d.failed(procLaunchKernel, r)
}

// invoke makes a call whose arguments are in c. It checks the usual case itself, in code that
// the compiler inlines, because the driver evicts our code from the CPU caches.
func (d *Driver) invoke(id procID, ctx cu.Context, c *call) error {
	c.step[0], c.set, c.ctx = d.procs[id].Load(), d.procs[procCtxSetCurrent].Load(), uintptr(ctx)
	if d.mayRefuse(ctx) || c.step[0] == 0 || c.set == 0 || boundThreads.list.Load() != nil {
		if err := d.prepareBound(c, id, ctx); err != nil {
			return err
		}
		if inBoundThread() {
			c.set = 0
			return d.between(ctx, func() error { return d.failed(id, c.make()) })
		}
	}
	r := c.make()
	seeHostFuncs()
	if r == cu.Success {
		return nil
	}
	return d.failed(id, r)
}

// mayRefuse reports whether a call with ctx may have to be refused before it reaches
// the driver. The reasons are that ctx is zero, that a context has been destroyed,
// that a host function runs, or that this process may be a forked child. It is inlined and
// comes first in a condition; elsewhere the compiler adds instructions.
func (d *Driver) mayRefuse(ctx cu.Context) bool {
	inside, dead := hostThreadCount.Load(), d.contexts.dead.Load()
	return ctx == 0 || inside != 0 || dead != nil || forked.MayBeChild()
}

// minByHandle is the first CUDA version whose drivers take the context of an operation
// from the stream or event that it names, whichever context is current. Driver 580
// was seen to do so (docs/SEMANTICS.md). Making a context current costs 19 ns.
const minByHandle = 13000

// byHandle returns the address of a function that can be called without a current
// context, because handle belongs to one context. It returns 0 if that is not so.
func (d *Driver) byHandle(id procID, ctx cu.Context, handle uintptr) uintptr {
	fn := d.procs[id].Load()
	if d.mayRefuse(ctx) || handle <= uintptr(cu.StreamPerThread) || d.version < minByHandle {
		return 0
	}
	return fn
}

// wantsContext reports whether r can mean that the driver needs a current context for the
// call. A call with such a result has done nothing.
func wantsContext(r cu.Result) bool {
	switch r {
	case cu.ErrorInvalidContext, cu.ErrorContextIsDestroyed, cu.ErrorInvalidHandle, cu.ErrorInvalidValue:
		return true
	}
	return false
}

// prepareBound sets the function of a call and the context to make current.
func (d *Driver) prepareBound(c *call, id procID, ctx cu.Context) error {
	if err := d.prepare(&c.step, id); err != nil {
		return err
	}
	return d.bind(&c.binding, ctx)
}

// prepare sets the function of a step.
func (d *Driver) prepare(s *step, id procID) error {
	if err := refuseInHostFunc(id); err != nil {
		return err
	}
	fn, err := d.proc(id)
	s[0] = fn
	return err
}

// bind sets which context becomes current.
func (d *Driver) bind(b *binding, ctx cu.Context) error {
	if ctx == 0 || d.contexts.destroyed(ctx) {
		return cu.ErrorInvalidContext
	}
	set, err := d.proc(procCtxSetCurrent)
	b.set, b.ctx = set, uintptr(ctx)
	return err
}
