package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const implicitDoc = "Programming Guide: Implicit Synchronization"

// beside makes each call while a kernel runs in a non-blocking stream that is unrelated
// to the call.
func (c *trial) beside(calls ...besideCall) {
	for _, k := range calls {
		g, s := c.behind(cu.StreamNonBlocking)
		g.running(s)
		if k.waits {
			c.mustWait(g, k.name, k.call)
		} else {
			c.mustReturn(g, k.name, k.call)
		}
		g.open()
		c.sync(s)
	}
}

type besideCall struct {
	name  string
	waits bool
	call  func() error
}

// between makes a call between kernels in two non-blocking streams. The call must not let
// the second kernel wait for the first. Up to compute capability 3.0 the second kernel
// waits in any case, because the first stream was queried.
func (c *trial) between(name string, f func() error) {
	m := c.mapped(4)
	storeWord(m.b, 0, 0)
	b := c.stream(cu.StreamNonBlocking)
	g, a := c.behind(cu.StreamNonBlocking)
	g.running(a)
	c.mustReturn(g, name, f)
	c.launch(b, "store", 1, m.dev, uint32(1), uint32(1))
	sync := func() error { return c.d.StreamSynchronize(c.ctx, b) }
	if c.capability() <= 30 {
		c.mustWait(g, "the second stream after a query of the first and "+name, sync)
	} else {
		c.mustReturn(g, "the second stream after "+name, sync)
	}
	c.check(loadWord(m.b, 0) == 1, "%s: the second stream's kernel did not run", name)
	g.open()
	c.sync(a)
}

var implicitChecks = []check{
	{"implicit/new-objects", "streams and events can be created and destroyed while kernels run",
		"Driver API: Stream Management, Event Management", needMapHost, func(c *trial) {
			g, s := c.behind(cu.StreamNonBlocking)
			c.mustReturn(g, "StreamCreate, EventCreate and their destruction", func() error {
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
	{"implicit/queries", "calls that only read properties return while kernels run",
		"Driver API: Unified Addressing, Memory Management", needMapHost, func(c *trial) {
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
	{"implicit/device-memory", "device memory is allocated while unrelated kernels run, but freed only when they are done",
		implicitDoc, needMapHost, func(c *trial) {
			var p cu.DevicePtr
			c.beside(
				besideCall{"MemAlloc", false, func() (err error) { p, err = c.d.MemAlloc(c.ctx, 32<<20); return err }},
				besideCall{"MemFree", true, func() error { return c.d.MemFree(c.ctx, p) }})
		}},
	{"implicit/page-locked-memory", "page-locked memory is allocated while unrelated kernels run, but freed only when they are done",
		implicitDoc, needMapHost, func(c *trial) {
			var p cu.HostPtr
			c.beside(
				besideCall{"MemHostAlloc", false, func() (err error) { p, err = c.d.MemHostAlloc(c.ctx, 1<<20, 0); return err }},
				besideCall{"MemFreeHost", true, func() error { return c.d.MemFreeHost(c.ctx, p) }})
		}},
	{"implicit/registration", "memory is registered while unrelated kernels run, but unregistered only when they are done",
		implicitDoc, needMapHost | needRegister, func(c *trial) {
			b := c.pageable(1 << 20)
			c.beside(
				besideCall{"MemHostRegister", false, func() error { return c.d.MemHostRegister(c.ctx, pointerTo(b), 1<<20, 0) }},
				besideCall{"MemHostUnregister", true, func() error { return c.d.MemHostUnregister(c.ctx, pointerTo(b)) }})
		}},
	{"implicit/managed-memory", "managed memory is allocated while unrelated kernels run, but freed only when they are done",
		implicitDoc, needMapHost | needManaged, func(c *trial) {
			var p cu.DevicePtr
			c.beside(
				besideCall{"MemAllocManaged", false, func() (err error) { p, err = c.d.MemAllocManaged(c.ctx, 1<<20, attachGlobal); return err }},
				besideCall{"MemFree", true, func() error { return c.d.MemFree(c.ctx, p) }})
		}},
	{"implicit/modules", "code is loaded and unloaded only when kernels of other modules are done",
		implicitDoc + "; CUDA_MODULE_LOADING", needMapHost, func(c *trial) {
			const small = ptxHeader + ".visible .entry nothing() { ret; }\n"
			var m cu.Module
			c.beside(
				besideCall{"ModuleLoadData", true, func() (err error) { m, err = c.d.ModuleLoadData(c.ctx, []byte(small)); return err }},
				besideCall{"ModuleUnload", true, func() error { return c.d.ModuleUnload(c.ctx, m) }})
		}},
	{"implicit/contexts", "a context is created while kernels of another context run, but destroyed only when they are done",
		implicitDoc, needMapHost, func(c *trial) {
			var ctx cu.Context
			c.beside(
				besideCall{"CtxCreate", false, func() (err error) { ctx, err = c.d.CtxCreate(0, c.dev); return err }},
				besideCall{"CtxDestroy", true, func() error { return c.d.CtxDestroy(ctx) }})
		}},
	{"implicit/limits", "a limit is raised only when running kernels are done",
		implicitDoc, needMapHost | needOwnContext, func(c *trial) {
			c.beside(besideCall{"CtxSetLimit", true, func() error { return c.d.CtxSetLimit(c.ctx, cu.LimitStackSize, 8192) }})
		}},
	{"implicit/pools", "a pool is trimmed while kernels run",
		implicitDoc, needMapHost | needPools, func(c *trial) {
			p, s := c.pool(), c.stream(0)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, ^uint64(0)), "keep all")
			c.freeAsync(c.fromPool(p, 32<<20, s), s)
			c.sync(s)
			c.beside(besideCall{"MemPoolTrimTo", false, func() error { return c.d.MemPoolTrimTo(p, 0) }})
		}},
	{"implicit/between-streams", "fills, copies and events without a stream do not order the work of two non-blocking streams",
		implicitDoc, needMapHost | needConcurrentKernels, func(c *trial) {
			p := c.device(1 << 16)
			h := c.pinned(1<<16, 0)
			e := c.event(0)
			c.between("MemsetD8", func() error { return c.d.MemsetD8(c.ctx, p, 1, 4096) })
			c.between("MemcpyDtoD", func() error { return c.d.MemcpyDtoD(c.ctx, p, p+4096, 4096) })
			c.between("EventRecord", func() error { return c.d.EventRecord(c.ctx, e, 0) })
			c.between("MemcpyHtoD", func() error { return c.d.MemcpyHtoD(c.ctx, p, h.p, 1<<16) })
		}},
	{"implicit/legacy-copy-beside-non-blocking", "a synchronous copy does not wait for non-blocking streams",
		defaultDoc, needMapHost | needConcurrentKernels, func(c *trial) {
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
