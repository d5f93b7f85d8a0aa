package cutest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const faultDoc = "Driver API: Error codes, "

// stuck waits until a kernel's fault shows on a stream, and is what shows.
func (c *T) stuck(s cu.Stream) error {
	c.step("a kernel that goes wrong")
	return c.d.StreamSynchronize(c.ctx, s)
}

// faulty launches a kernel that writes to an address; the launch itself succeeds.
func (c *T) faulty(s cu.Stream, p cu.DevicePtr) {
	c.launch(s, "store", 1, p, uint32(1), uint32(1))
}

// faultChecks each have a context of their own, as it is lost. Nothing comes
// after them.
var faultChecks = []check{
	{"fault/illegal-address", "a kernel that writes where nothing is ends in an illegal address",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needOwnContext, func(c *T) {
			c.faulty(0, 0x10)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/illegal-address-read", "a kernel that reads where nothing is ends in an illegal address",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needOwnContext, func(c *T) {
			p := c.device(64)
			c.launch(0, "copy", 1, p, cu.DevicePtr(0x7000_0000_0000), uint32(1))
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/misaligned-address", "a kernel that uses an address that is no multiple of the access ends in a misaligned address",
		faultDoc + "CUDA_ERROR_MISALIGNED_ADDRESS", needOwnContext, func(c *T) {
			c.faulty(0, c.device(64)+2)
			c.want(c.stuck(0), "wait", cu.ErrorMisalignedAddress)
		}},
	{"fault/trap", "a kernel that traps ends in a launch failure",
		faultDoc + "CUDA_ERROR_LAUNCH_FAILED; PTX ISA: trap", needOwnContext, func(c *T) {
			c.launch(0, "trapping", 1, uint32(1))
			c.want(c.stuck(0), "wait", cu.ErrorLaunchFailed, cu.ErrorIllegalInstruction)
		}},
	{"fault/assert", "a failed assertion in a kernel is reported as such",
		faultDoc + "CUDA_ERROR_ASSERT; Programming Guide: Assertion", needOwnContext, func(c *T) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(ptxAssert))
			c.ok(err, "load")
			f := c.function(m, "check")
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(0))), "launch with a true assertion")
			c.syncAll()
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(1))), "launch with a false assertion")
			c.want(c.stuck(0), "wait", cu.ErrorAssert)
		}},
	{"fault/pageable-memory", "a kernel that touches pageable memory faults, unless the device can",
		"Programming Guide: Unified Memory, pageableMemoryAccess", needOwnContext | needUVA, func(c *T) {
			b := c.pageable(page)
			c.faulty(0, addressOf(b))
			err := c.stuck(0)
			if c.attr(cu.DeviceAttributePageableMemoryAccess) == 0 {
				c.want(err, "wait", cu.ErrorIllegalAddress)
				return
			}
			c.ok(err, "wait")
			c.same("written", b[:4], words(1))
		}},
	{"fault/reported-later", "the launch of a kernel that goes wrong succeeds; later calls report it",
		"Programming Guide: Error Checking", needOwnContext | needMapHost, func(c *T) {
			g, s := c.behind(cu.StreamNonBlocking)
			c.faulty(s, 0x10)
			c.busy(s)
			c.ok(c.tryLaunch(c.ctx, s, "noparams", 1), "a launch before the fault")
			g.open()
			c.until("the fault", func() bool { return !isCode(c.d.StreamQuery(c.ctx, s), cu.ErrorNotReady) })
			c.want(c.d.StreamQuery(c.ctx, s), "query", cu.ErrorIllegalAddress)
			c.want(c.d.StreamSynchronize(c.ctx, s), "synchronize", cu.ErrorIllegalAddress)
		}},
	{"fault/sticky", "after a fault every call that uses the context reports it again",
		"Programming Guide: Error Checking; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needOwnContext, func(c *T) {
			p, h := c.device(64), c.pinned(64, 0)
			s, e := c.stream(0), c.event(0)
			c.faulty(0, 0x10)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
			calls := []struct {
				name string
				call func() error
			}{
				{"CtxSynchronize", func() error { return c.d.CtxSynchronize(c.ctx) }},
				{"MemAlloc", func() error { _, err := c.d.MemAlloc(c.ctx, 64); return err }},
				{"MemcpyHtoD", func() error { return c.d.MemcpyHtoD(c.ctx, p, h.p, 64) }},
				{"MemcpyDtoH", func() error { return c.d.MemcpyDtoH(c.ctx, h.p, p, 64) }},
				{"MemcpyHtoDAsync", func() error { return c.d.MemcpyHtoDAsync(c.ctx, p, h.p, 64, s) }},
				{"MemsetD8Async", func() error { return c.d.MemsetD8Async(c.ctx, p, 1, 64, s) }},
				{"LaunchKernel", func() error { return c.tryLaunch(c.ctx, s, "noparams", 1) }},
				{"StreamSynchronize", func() error { return c.d.StreamSynchronize(c.ctx, s) }},
				{"StreamQuery", func() error { return c.d.StreamQuery(c.ctx, s) }},
				{"EventRecord", func() error { return c.d.EventRecord(c.ctx, e, s) }},
				{"StreamCreate", func() error { _, err := c.d.StreamCreate(c.ctx, 0); return err }},
				{"MemHostAlloc", func() error { _, err := c.d.MemHostAlloc(c.ctx, 64, 0); return err }},
			}
			for range 2 {
				for _, k := range calls {
					c.want(k.call(), k.name+" after the fault", cu.ErrorIllegalAddress)
				}
			}
			for _, k := range []struct {
				name string
				call func() error
			}{
				{"EventQuery", func() error { return c.d.EventQuery(c.ctx, e) }},
				{"EventCreate", func() error { _, err := c.d.EventCreate(c.ctx, 0); return err }},
				{"MemFree", func() error { return c.d.MemFree(c.ctx, p) }},
				{"MemGetInfo", func() error { _, _, err := c.d.MemGetInfo(c.ctx); return err }},
				{"PointerGetAttributes", func() error { _, err := c.d.PointerGetAttributes(c.ctx, p); return err }},
				{"ModuleLoadData", func() error { _, err := c.d.ModuleLoadData(c.ctx, []byte(suitePTX)); return err }},
				{"CtxGetFlags", func() error { _, err := c.d.CtxGetFlags(c.ctx); return err }},
			} {
				c.observeError("fault."+k.name+"-after-a-fault", k.call())
			}
		}},
	{"fault/ends-what-is-queued", "work queued behind a fault is not done, on any stream of the context",
		"Programming Guide: Error Checking", needOwnContext | needMapHost, func(c *T) {
			m := c.mapped(8)
			storeWord(m.b, 0, 7)
			storeWord(m.b, 4, 7)
			g, s := c.behind(cu.StreamNonBlocking)
			other, e := c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.faulty(s, 0x10)
			c.launch(s, "store", 1, m.dev, uint32(1), uint32(1))
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, other, e, 0), "wait-event")
			c.launch(other, "store", 1, m.dev+4, uint32(1), uint32(1))
			g.open()
			c.want(c.stuck(s), "the stream", cu.ErrorIllegalAddress)
			c.want(c.stuck(other), "the other stream", cu.ErrorIllegalAddress)
			c.check(loadWord(m.b, 0) == 7, "work behind the fault was done")
			c.check(loadWord(m.b, 4) == 7, "work of another stream behind the fault was done")
		}},
	{"fault/host-function", "a host function behind a fault is not called",
		hostFuncDoc, needOwnContext | needMapHost, func(c *T) {
			var ran atomic.Bool
			g, s := c.behind(cu.StreamNonBlocking)
			c.faulty(s, 0x10)
			c.hostFunc(s, func() { ran.Store(true) })
			g.open()
			c.want(c.stuck(s), "wait", cu.ErrorIllegalAddress)
			time.Sleep(glimpse)
			c.observe("fault.host-function-behind-a-fault-ran", ran.Load())
			c.check(!ran.Load(), "the host function ran")
		}},
	{"fault/tells-where", "an emulated device says which kernel, thread, line and address went wrong",
		"Ferry: cu.Fault", needOwnContext | needEmulated, func(c *T) {
			p := c.device(256)
			c.launch(0, "store", 300, p+256-16, uint32(1), uint32(300))
			err := c.stuck(0)
			var f *cu.Fault
			if !errors.As(err, &f) {
				c.fatal("the error is %T (%v), want *cu.Fault", err, err)
			}
			c.check(f.Kernel == "store" && f.Line > 0 && f.Bytes == 4 && f.Addr >= p+256 && f.Near != "", "the fault says %+v", f)
		}},
	{"fault/one-byte-too-far", "an emulated device finds the first access beyond an allocation",
		"Ferry: cu.Fault", needOwnContext | needEmulated, func(c *T) {
			p := c.device(1000)
			c.launch(0, "store", 250, p, uint32(1), uint32(250))
			c.ok(c.stuck(0), "to the last byte")
			c.launch(0, "store", 251, p, uint32(1), uint32(251))
			c.want(c.stuck(0), "one word further", cu.ErrorIllegalAddress)
		}},
	{"fault/freed-memory", "an emulated device finds the use of freed memory",
		"Ferry: cu.Fault", needOwnContext | needEmulated, func(c *T) {
			p, err := c.d.MemAlloc(c.ctx, 4096)
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.faulty(0, p)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/other-contexts", "a context made before a fault in another, and one made after it, are observed to work",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needOwnContext, func(c *T) {
			o := c.stranger(c.dev)
			p := c.deviceIn(o.ctx, 4)
			c.faulty(0, 0x10)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
			err := c.tryLaunch(o.ctx, o.stream, "store", 1, p, uint32(4), uint32(1))
			if err == nil {
				err = c.d.StreamSynchronize(o.ctx, o.stream)
			}
			c.observeError("fault.older-context-works", err)
			if err == nil {
				c.same("stored", c.downIn(o.ctx, p, 4), words(4))
			}
			fresh, err := c.d.CtxCreate(cu.CtxMapHost, c.dev)
			c.observeError("fault.create-a-context", err)
			if err == nil {
				_, err = c.d.MemAlloc(fresh, 64)
				c.observeError("fault.new-context-works", err)
				c.observeError("fault.destroy-the-new-context", c.d.CtxDestroy(fresh))
			}
		}},
	{"fault/destroy-and-go-on", "a faulted context can be destroyed, and a new one be made",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS; cuCtxDestroy", needOwnContext, func(c *T) {
			c.faulty(0, 0x10)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
			err := c.d.CtxDestroy(c.ctx)
			c.observeError("fault.CtxDestroy", err)
			c.check(err == nil || stickyError(err), "destroying a faulted context: %v", err)
			delete(c.suite.programs, c.ctx)
			c.ctx = 0
			fresh, err := c.d.CtxCreate(cu.CtxMapHost, c.dev)
			c.observeError("fault.CtxCreate-after-destroy", err)
			if err != nil {
				return
			}
			c.later(func() { delete(c.suite.programs, fresh); _ = c.d.CtxDestroy(fresh) })
			c.ctx = fresh
			p := c.device(64)
			c.launch(0, "store", 16, p, uint32(6), uint32(16))
			c.same("work in the new context", c.down(p, 64), repeated(6, 16))
		}},
	{"fault/primary-reset", "resetting the primary context is the way out of a fault in it",
		"Driver API: cuDevicePrimaryCtxReset", 0, func(c *T) {
			c.faulty(0, 0x10)
			c.want(c.stuck(0), "wait", cu.ErrorIllegalAddress)
			_, err := c.d.MemAlloc(c.ctx, 64)
			c.want(err, "MemAlloc after the fault", cu.ErrorIllegalAddress)
			err = c.d.DevicePrimaryCtxReset(c.dev)
			c.observeError("fault.primary-reset", err)
			c.suite.forget(c.dev)
			c.ctx = 0
			fresh, err := c.suite.context(c.dev)
			c.observeError("fault.retain-after-reset", err)
			if err != nil {
				return
			}
			c.ctx = fresh
			_, err = c.d.MemAlloc(c.ctx, 64)
			c.observeError("fault.MemAlloc-after-reset", err)
			if err != nil {
				c.suite.forget(c.dev)
				c.ctx = 0
				c.check(cu.AsEmulated(c.d) == nil, "the emulated device did not recover: %v", err)
				return
			}
			p := c.device(64)
			c.launch(0, "store", 16, p, uint32(7), uint32(16))
			c.same("work after the reset", c.down(p, 64), repeated(7, 16))
		}},
}
