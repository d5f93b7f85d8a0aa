package cutest

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const implicitDoc = "Programming Guide: Implicit Synchronization"

// beside observes whether a call returns while a kernel runs that has nothing to
// do with it, on a non-blocking stream. f may be called once only.
func (c *T) beside(name string, limit time.Duration, f func() error) {
	g, s := c.behind(cu.StreamNonBlocking)
	g.running(s)
	returned, err := c.returns(g, name, limit, f)
	c.ok(err, name)
	c.observe("implicit."+name+".returns-beside-a-kernel", returned)
	g.open()
	c.sync(s)
}

// between observes whether an operation between kernels on two streams keeps
// the second from running until the first is done.
func (c *T) between(name string, f func() error) {
	m := c.mapped(4)
	storeWord(m.b, 0, 0)
	b := c.stream(cu.StreamNonBlocking)
	g, a := c.behind(cu.StreamNonBlocking)
	g.running(a)
	waited := false
	if returned, err := c.returns(g, name, look, f); err != nil {
		c.fail("%s: %v", name, err)
	} else if !returned {
		waited = true
	}
	c.launch(b, "store", 1, m.dev, uint32(1), uint32(1))
	if !waited {
		returned, err := c.returns(g, "the second stream", look, func() error { return c.d.StreamSynchronize(c.ctx, b) })
		c.ok(err, "the second stream")
		waited = !returned
	}
	c.observe("implicit."+name+".keeps-streams-apart", waited)
	g.open()
	c.sync(a)
}

var implicitChecks = []check{
	{"implicit/new-objects", "streams and events are made and ended while kernels run",
		"Driver API: Stream Management, Event Management", needMapHost, func(c *T) {
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "StreamCreate, EventCreate and their ends", func() error {
				t, err := c.d.StreamCreate(c.ctx, cu.StreamNonBlocking)
				if err != nil {
					return err
				}
				e, err := c.d.EventCreate(c.ctx, 0)
				if err != nil {
					return err
				}
				if err := c.d.EventDestroy(c.ctx, e); err != nil {
					return err
				}
				return c.d.StreamDestroy(c.ctx, t)
			})
			c.busy(s)
		}},
	{"implicit/queries", "questions are answered while kernels run",
		"Driver API: Unified Addressing, Memory Management", needMapHost, func(c *T) {
			p, m := c.device(64), c.mapped(64)
			f := c.kernel("store")
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "queries", func() error {
				if _, err := c.d.PointerGetAttributes(c.ctx, p); err != nil {
					return err
				}
				if _, _, err := c.d.MemGetInfo(c.ctx); err != nil {
					return err
				}
				if _, err := c.d.MemHostGetDevicePointer(c.ctx, m.p, 0); err != nil {
					return err
				}
				if _, _, err := c.d.MemGetAddressRange(c.ctx, p); err != nil {
					return err
				}
				_, err := c.d.FuncGetAttribute(c.ctx, cu.FuncAttributeNumRegs, f)
				return err
			})
			c.busy(s)
		}},
	{"implicit/device-memory", "whether taking and freeing device memory waits for kernels that do not use it is observed",
		implicitDoc, needMapHost, func(c *T) {
			var p cu.DevicePtr
			c.beside("MemAlloc", look, func() (err error) { p, err = c.d.MemAlloc(c.ctx, 32<<20); return err })
			c.beside("MemFree", look, func() error { return c.d.MemFree(c.ctx, p) })
		}},
	{"implicit/page-locked-memory", "whether taking and freeing page-locked memory waits for kernels that do not use it is observed",
		implicitDoc, needMapHost, func(c *T) {
			var p cu.HostPtr
			c.beside("MemHostAlloc", look, func() (err error) { p, err = c.d.MemHostAlloc(c.ctx, 1<<20, 0); return err })
			c.beside("MemFreeHost", look, func() error { return c.d.MemFreeHost(c.ctx, p) })
		}},
	{"implicit/registration", "whether registering and unregistering waits for kernels that do not use the memory is observed",
		implicitDoc, needMapHost | needRegister, func(c *T) {
			b := c.pageable(1 << 20)
			c.beside("MemHostRegister", look, func() error { return c.d.MemHostRegister(c.ctx, pointerTo(b), 1<<20, 0) })
			c.beside("MemHostUnregister", look, func() error { return c.d.MemHostUnregister(c.ctx, pointerTo(b)) })
		}},
	{"implicit/managed-memory", "whether taking and freeing managed memory waits for kernels that do not use it is observed",
		implicitDoc, needMapHost | needManaged, func(c *T) {
			var p cu.DevicePtr
			c.beside("MemAllocManaged", look, func() (err error) { p, err = c.d.MemAllocManaged(c.ctx, 1<<20, attachGlobal); return err })
			c.beside("MemFree-managed", look, func() error { return c.d.MemFree(c.ctx, p) })
		}},
	{"implicit/modules", "whether loading and unloading code waits for kernels of other code is observed",
		implicitDoc, needMapHost, func(c *T) {
			const small = ptxHeader + ".visible .entry nothing() { ret; }\n"
			var m cu.Module
			c.beside("ModuleLoadData", time.Second, func() (err error) { m, err = c.d.ModuleLoadData(c.ctx, []byte(small)); return err })
			c.beside("ModuleUnload", look, func() error { return c.d.ModuleUnload(c.ctx, m) })
		}},
	{"implicit/contexts", "whether contexts are made and ended while kernels of another run is observed",
		implicitDoc, needMapHost, func(c *T) {
			var ctx cu.Context
			c.beside("CtxCreate", 2*time.Second, func() (err error) { ctx, err = c.d.CtxCreate(0, c.dev); return err })
			c.beside("CtxDestroy", 2*time.Second, func() error { return c.d.CtxDestroy(ctx) })
		}},
	{"implicit/limits", "whether raising a limit waits for running kernels is observed",
		implicitDoc, needMapHost | needOwnContext, func(c *T) {
			c.beside("CtxSetLimit", look, func() error { return c.d.CtxSetLimit(c.ctx, cu.LimitStackSize, 8192) })
		}},
	{"implicit/pools", "whether trimming a pool waits for running kernels is observed",
		implicitDoc, needMapHost | needPools, func(c *T) {
			p, s := c.pool(), c.stream(0)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, ^uint64(0)), "keep all")
			c.freeAsync(c.fromPool(p, 32<<20, s), s)
			c.sync(s)
			c.beside("MemPoolTrimTo", look, func() error { return c.d.MemPoolTrimTo(p, 0) })
		}},
	{"implicit/between-streams", "which calls keep work of two streams apart when they come between is observed",
		implicitDoc, needMapHost | needConcurrentKernels, func(c *T) {
			p := c.device(1 << 16)
			h := c.pinned(1<<16, 0)
			c.between("nothing", func() error { return nil })
			c.between("MemsetD8", func() error { return c.d.MemsetD8(c.ctx, p, 1, 4096) })
			c.between("MemcpyDtoD", func() error { return c.d.MemcpyDtoD(c.ctx, p, p+4096, 4096) })
			e := c.event(0)
			c.between("EventRecord-on-legacy", func() error { return c.d.EventRecord(c.ctx, e, 0) })
			c.between("MemcpyHtoD", func() error { return c.d.MemcpyHtoD(c.ctx, p, h.p, 1<<16) })
		}},
	{"implicit/legacy-copy-beside-non-blocking", "a synchronous copy does not wait for non-blocking streams",
		defaultDoc, needMapHost | needConcurrentKernels, func(c *T) {
			const n = 1 << 20
			p, h := c.device(n), c.pinned(n, 0)
			want := c.down(p, n)
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "MemcpyDtoH", func() error { return c.d.MemcpyDtoH(c.ctx, h.p, p, n) })
			c.same("copied", h.b, want)
			c.mustReturn(g, "MemcpyHtoD", func() error { return c.d.MemcpyHtoD(c.ctx, p, h.p, n) })
			c.busy(s)
		}},
}
