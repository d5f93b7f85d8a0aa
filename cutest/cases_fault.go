package cutest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

const faultDoc = "Driver API: Error codes, "

// waitForFault waits for a stream in which a kernel fails, and returns the error.
func (c *trial) waitForFault(s cu.Stream) error {
	c.step("a kernel that fails")
	return c.d.StreamSynchronize(c.ctx, s)
}

// launchFaulty launches a kernel that writes to an address. The launch itself succeeds.
func (c *trial) launchFaulty(s cu.Stream, p cu.DevicePtr) {
	c.launch(s, "store", 1, p, uint32(1), uint32(1))
}

// faultChecks have a driver or a process for each case, because a fault makes the device
// unusable: see faultLostChecks.
var faultChecks = []check{
	{"fault/illegal-address", "a kernel that writes to an address without memory ends with an illegal address",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation, func(c *trial) {
			c.launchFaulty(0, 0x10)
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/illegal-address-read", "a kernel that reads from an address without memory ends with an illegal address",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation, func(c *trial) {
			p := c.device(64)
			c.launch(0, "copy", 1, p, cu.DevicePtr(0x7000_0000_0000), uint32(1))
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/misaligned-address", "a kernel that uses an address that is not a multiple of the access ends with a misaligned address",
		faultDoc + "CUDA_ERROR_MISALIGNED_ADDRESS", needIsolation, func(c *trial) {
			c.launchFaulty(0, c.device(64)+2)
			c.want(c.waitForFault(0), "wait", cu.ErrorMisalignedAddress)
		}},
	{"fault/trap", "a kernel that traps ends with a launch failure",
		faultDoc + "CUDA_ERROR_LAUNCH_FAILED; PTX ISA: trap", needIsolation, func(c *trial) {
			c.launch(0, "trapping", 1, uint32(1))
			c.want(c.waitForFault(0), "wait", cu.ErrorLaunchFailed)
		}},
	{"fault/breakpoint", "a kernel that reaches a breakpoint without a debugger ends with a launch failure",
		faultDoc + "CUDA_ERROR_LAUNCH_FAILED; PTX ISA: brkpt", needIsolation, func(c *trial) {
			f := c.function(c.module(ptxBreakpoint), "stopping")
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(0))), "launch that avoids the breakpoint")
			c.syncAll()
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(1))), "launch that reaches the breakpoint")
			c.want(c.waitForFault(0), "wait", cu.ErrorLaunchFailed)
		}},
	{"fault/shared-memory", "a kernel that accesses memory outside its shared memory ends with an illegal instruction, or an illegal address on an emulated device",
		faultDoc + "CUDA_ERROR_LAUNCH_FAILED (accessing out of bounds shared memory)", needIsolation, func(c *trial) {
			// The kernel writes near the end of 2^30 bytes of shared memory. It has none.
			out := c.device(4)
			c.ok(c.d.LaunchKernel(c.ctx, c.kernel("dynamic"), dim(1), dim(1), 0, 0, pack(out, uint32(1<<30))), "launch")
			c.wantOrEmulated(c.waitForFault(0), "wait", cu.ErrorIllegalInstruction, cu.ErrorIllegalAddress)
		}},
	{"fault/assert", "a failed assertion in a kernel is reported as such",
		faultDoc + "CUDA_ERROR_ASSERT; Programming Guide: Assertion", needIsolation, func(c *trial) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(ptxAssert))
			c.ok(err, "load")
			f := c.function(m, "check")
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(0))), "launch with a true assertion")
			c.syncAll()
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(uint32(1))), "launch with a false assertion")
			c.want(c.waitForFault(0), "wait", cu.ErrorAssert)
		}},
	{"fault/pageable-memory", "a kernel that accesses pageable memory faults, unless the device supports that",
		"Programming Guide: Unified Memory, pageableMemoryAccess", needIsolation | needUVA, func(c *trial) {
			b := c.pageable(page)
			c.launchFaulty(0, addressOf(b))
			err := c.waitForFault(0)
			if c.attr(cu.DeviceAttributePageableMemoryAccess) == 0 {
				c.want(err, "wait", cu.ErrorIllegalAddress)
				return
			}
			c.ok(err, "wait")
			c.same("written", b[:4], words(1))
		}},
	{"fault/reported-later", "the launch of a kernel that fails succeeds; later calls report the fault",
		"Programming Guide: Error Checking", needIsolation | needMapHost, func(c *trial) {
			g, s := c.behind(cu.StreamNonBlocking)
			c.launchFaulty(s, 0x10)
			c.busy(s)
			c.ok(c.tryLaunch(c.ctx, s, "noparams", 1), "a launch before the fault")
			g.open()
			c.until("the fault", func() bool { return !isCode(c.d.StreamQuery(c.ctx, s), cu.ErrorNotReady) })
			c.want(c.d.StreamQuery(c.ctx, s), "query", cu.ErrorIllegalAddress)
			c.want(c.d.StreamSynchronize(c.ctx, s), "synchronize", cu.ErrorIllegalAddress)
		}},
	{"fault/sticky", "after a fault every call that uses the context reports it again; calls that only read known facts still answer",
		"Programming Guide: Error Checking; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation, func(c *trial) {
			p, h := c.device(64), c.pinned(64, 0)
			s, e := c.stream(0), c.event(0)
			c.launchFaulty(0, 0x10)
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
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
				{"EventQuery", func() error { return c.d.EventQuery(c.ctx, e) }},
				{"EventCreate", func() error { _, err := c.d.EventCreate(c.ctx, 0); return err }},
				{"MemFree", func() error { return c.d.MemFree(c.ctx, p) }},
				{"MemGetInfo", func() error { _, _, err := c.d.MemGetInfo(c.ctx); return err }},
				{"ModuleLoadData", func() error { _, err := c.d.ModuleLoadData(c.ctx, []byte(suitePTX)); return err }},
			}
			for range 2 {
				for _, k := range calls {
					c.want(k.call(), k.name+" after the fault", cu.ErrorIllegalAddress)
				}
			}
			// These two read known properties of an address and of the context. On hardware
			// they still work; an emulated device may report the fault.
			_, err := c.d.PointerGetAttributes(c.ctx, p)
			c.wantOrEmulated(err, "PointerGetAttributes after the fault", cu.Success, cu.ErrorIllegalAddress)
			_, err = c.d.CtxGetFlags(c.ctx)
			c.wantOrEmulated(err, "CtxGetFlags after the fault", cu.Success, cu.ErrorIllegalAddress)
		}},
	{"fault/ends-what-is-queued", "work queued behind a fault is not done, in any stream of the context",
		"Programming Guide: Error Checking", needIsolation | needMapHost, func(c *trial) {
			m := c.mapped(8)
			storeWord(m.b, 0, 7)
			storeWord(m.b, 4, 7)
			g, s := c.behind(cu.StreamNonBlocking)
			other, e := c.stream(cu.StreamNonBlocking), c.event(cu.EventDisableTiming)
			c.launchFaulty(s, 0x10)
			c.launch(s, "store", 1, m.dev, uint32(1), uint32(1))
			c.ok(c.d.EventRecord(c.ctx, e, s), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, other, e, 0), "wait-event")
			c.launch(other, "store", 1, m.dev+4, uint32(1), uint32(1))
			g.open()
			c.want(c.waitForFault(s), "the stream", cu.ErrorIllegalAddress)
			c.want(c.waitForFault(other), "the other stream", cu.ErrorIllegalAddress)
			c.check(loadWord(m.b, 0) == 7, "work behind the fault was done")
			c.check(loadWord(m.b, 4) == 7, "work of another stream behind the fault was done")
		}},
	{"fault/host-function", "a host function behind a fault is not called",
		hostFuncDoc, needIsolation | needMapHost, func(c *trial) {
			var ran atomic.Bool
			g, s := c.behind(cu.StreamNonBlocking)
			c.launchFaulty(s, 0x10)
			c.hostFunc(s, func() { ran.Store(true) })
			g.open()
			c.want(c.waitForFault(s), "wait", cu.ErrorIllegalAddress)
			time.Sleep(blockedTime)
			c.check(!ran.Load(), "the host function ran")
		}},
	{"fault/tells-where", "an emulated device reports the kernel, thread, line and address of a fault",
		"Ferry: cu.Fault", needIsolation | needEmulated, func(c *trial) {
			if !reopens(c.d) {
				c.skip("a library in C returns codes, not cu.Fault")
			}
			p := c.device(256)
			c.launch(0, "store", 300, p+256-16, uint32(1), uint32(300))
			err := c.waitForFault(0)
			var f *cu.Fault
			if !errors.As(err, &f) {
				c.fatal("the error is %T (%v), want *cu.Fault", err, err)
			}
			c.check(f.Kernel == "store" && f.Line > 0 && f.Bytes == 4 && f.Addr >= p+256 && f.Near != "", "the fault is %+v", f)
		}},
	{"fault/one-byte-too-far", "an emulated device finds the first access beyond an allocation",
		"Ferry: cu.Fault", needIsolation | needEmulated, func(c *trial) {
			p := c.device(1000)
			c.launch(0, "store", 250, p, uint32(1), uint32(250))
			c.ok(c.waitForFault(0), "to the last byte")
			c.launch(0, "store", 251, p, uint32(1), uint32(251))
			c.want(c.waitForFault(0), "one word too far", cu.ErrorIllegalAddress)
		}},
	{"fault/near-miss", "a write a little past a small allocation: hardware protects units of 2 MiB, an emulated device every byte",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS (silent on the granularity)", needIsolation, func(c *trial) {
			c.launchFaulty(0, c.device(4)+512)
			if cu.AsEmulated(c.d) != nil {
				c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
				return
			}
			c.ok(c.waitForFault(0), "wait")
		}},
	{"fault/freed-large-memory", "a kernel that writes to freed memory ends with an illegal address, if nothing else is in its 2 MiB",
		faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 4<<20)
			c.ok(err, "allocate")
			c.launchFaulty(0, p)
			c.ok(c.waitForFault(0), "before the free")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.launchFaulty(0, p)
			c.want(c.waitForFault(0), "after the free", cu.ErrorIllegalAddress)
		}},
	{"fault/freed-memory", "an emulated device finds the use of any freed memory",
		"Ferry: cu.Fault", needIsolation | needEmulated, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 4096)
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.launchFaulty(0, p)
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
}
