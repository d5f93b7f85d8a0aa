package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

var contextChecks = []check{
	{"context/zero-is-invalid", "without a context, calls that need one fail with an invalid context",
		"Driver API: Context Management; Error codes, CUDA_ERROR_INVALID_CONTEXT", needNoContext, func(c *trial) {
			_, err := c.d.MemAlloc(0, 16)
			c.want(err, "allocate", cu.ErrorInvalidContext)
			_, err = c.d.MemHostAlloc(0, 16, 0)
			c.want(err, "allocate page-locked memory", cu.ErrorInvalidContext)
			_, err = c.d.StreamCreate(0, 0)
			c.want(err, "create a stream", cu.ErrorInvalidContext)
			_, err = c.d.EventCreate(0, 0)
			c.want(err, "create an event", cu.ErrorInvalidContext)
			c.want(c.d.CtxSynchronize(0), "synchronize", cu.ErrorInvalidContext)
			_, err = c.d.ModuleLoadData(0, []byte(suitePTX))
			c.want(err, "load a module", cu.ErrorInvalidContext)
			_, _, err = c.d.MemGetInfo(0)
			c.want(err, "memory info", cu.ErrorInvalidContext)
			_, err = c.d.CtxGetDevice(0)
			c.want(err, "device", cu.ErrorInvalidContext)
			_, err = c.d.CtxGetFlags(0)
			c.want(err, "flags", cu.ErrorInvalidContext)
		}},
	{"context/destroyed-is-invalid", "a destroyed context is an invalid context",
		"Driver API: cuCtxDestroy", 0, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			c.ok(c.d.CtxDestroy(ctx), "destroy")
			_, err := c.d.MemAlloc(ctx, 16)
			c.want(err, "allocate", cu.ErrorInvalidContext)
			c.want(c.d.CtxSynchronize(ctx), "synchronize", cu.ErrorInvalidContext)
			c.want(c.d.CtxDestroy(ctx), "destroy again", cu.ErrorInvalidContext)
			c.want(c.d.CtxDestroy(0), "destroy context 0", cu.ErrorInvalidContext)
		}},
	{"context/destroy-frees-memory", "destroying a context frees what was created in it",
		"Driver API: cuCtxDestroy", 0, func(c *trial) {
			const bytes = 64 << 20
			ctx := c.newContext(cu.CtxMapHost)
			p, err := c.d.MemAlloc(ctx, bytes)
			c.ok(err, "allocate")
			held, _, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "memory info")
			c.ok(c.d.CtxDestroy(ctx), "destroy")
			after, _, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "memory info after")
			c.check(after >= held+bytes, "free memory went from %d to %d, want %d more", held, after, bytes)
			a, err := c.d.PointerGetAttributes(c.ctx, p)
			c.ok(err, "attributes")
			c.check(a.MemoryType == 0, "memory of the destroyed context is still known: %+v", a)
		}},
	{"context/destroy-waits-for-nothing-else", "destroying a context destroys its streams and events, and does not affect other contexts",
		"Driver API: cuCtxDestroy", 0, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			s, err := c.d.StreamCreate(ctx, 0)
			c.ok(err, "create a stream")
			_, err = c.d.EventCreate(ctx, 0)
			c.ok(err, "create an event")
			c.ok(c.d.StreamSynchronize(ctx, s), "synchronize")
			c.ok(c.d.CtxDestroy(ctx), "destroy")
			p := c.device(64)
			c.launch(0, "store", 16, p, uint32(5), uint32(16))
			c.same("work in another context", c.down(p, 64), repeated(5, 16))
		}},
	{"context/device-of", "a context belongs to the device that it was created on",
		"Driver API: cuCtxGetDevice", 0, func(c *trial) {
			for _, dev := range c.suite.devices[:min(2, len(c.suite.devices))] {
				ctx := c.newContextOn(dev, cu.CtxMapHost)
				got, err := c.d.CtxGetDevice(ctx)
				c.ok(err, "device of a context")
				c.check(got == dev, "got device %d, want %d", got, dev)
			}
		}},
	{"context/flags-read-back", "a context has the flags that it was created with and no others",
		"Driver API: cuCtxCreate, cuCtxGetFlags", 0, func(c *trial) {
			for _, want := range []cu.CtxFlags{cu.CtxSchedSpin, cu.CtxSchedYield | cu.CtxMapHost, cu.CtxSchedBlockingSync | cu.CtxMapHost} {
				ctx := c.newContext(want)
				got, err := c.d.CtxGetFlags(ctx)
				c.ok(err, "flags")
				c.check(got == want, "created with %v, got %v", want, got)
				c.ok(c.d.CtxDestroy(ctx), "destroy")
			}
		}},
	{"context/flags-invalid", "flags that do not exist, or two ways to wait at once, are refused",
		"Driver API: cuCtxCreate", 0, func(c *trial) {
			for _, flags := range []cu.CtxFlags{0x8000_0000, cu.CtxSchedSpin | cu.CtxSchedYield} {
				ctx, err := c.d.CtxCreate(flags, c.dev)
				c.want(err, fmt.Sprintf("create with %#x", uint32(flags)), cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.CtxDestroy(ctx)
				}
			}
		}},
	{"context/two-are-apart", "two contexts of a device have separate handles, and both work",
		"Driver API: Context Management", 0, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			mine, other := c.device(1024), c.deviceIn(ctx, 1024)
			c.check(mine != other, "two contexts got the same address %#x", mine)
			c.ok(c.tryLaunch(ctx, 0, "store", 256, other, uint32(2), uint32(256)), "launch in the second")
			c.launch(0, "store", 256, mine, uint32(1), uint32(256))
			c.same("first", c.down(mine, 1024), repeated(1, 256))
			c.same("second", c.downIn(ctx, other, 1024), repeated(2, 256))
		}},
	{"context/synchronize-waits-for-all", "synchronizing a context waits for all its streams",
		"Driver API: cuCtxSynchronize", needConcurrentKernels, func(c *trial) {
			m := c.mapped(8)
			a, b := c.stream(cu.StreamNonBlocking), c.stream(0)
			g := c.gate()
			g.hold(a)
			c.launch(a, "store", 1, m.dev, uint32(1), uint32(1))
			c.launch(b, "store", 1, m.dev+4, uint32(2), uint32(1))
			c.mustWait(g, "CtxSynchronize", func() error { return c.d.CtxSynchronize(c.ctx) })
			c.same("work of both streams", m.b, words(1, 2))
		}},
}

var limitChecks = []check{
	{"context/limit-stack", "the stack limit can be raised and reads back at least as large",
		"Driver API: cuCtxSetLimit, CU_LIMIT_STACK_SIZE", needOwnContext, func(c *trial) {
			was, err := c.d.CtxGetLimit(c.ctx, cu.LimitStackSize)
			c.ok(err, "get")
			c.observe("limit.stack.default", was)
			c.ok(c.d.CtxSetLimit(c.ctx, cu.LimitStackSize, 4096), "set")
			is, err := c.d.CtxGetLimit(c.ctx, cu.LimitStackSize)
			c.ok(err, "get again")
			c.check(is >= 4096 && is < 8192, "set 4096, got %d", is)
		}},
	{"context/limit-printf-and-heap", "the printf buffer and the heap have limits that can be set before use",
		"Driver API: cuCtxSetLimit, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE", needOwnContext, func(c *trial) {
			for _, l := range []struct {
				limit cu.Limit
				name  string
			}{{cu.LimitPrintfFIFOSize, "printf"}, {cu.LimitMallocHeapSize, "heap"}} {
				was, err := c.d.CtxGetLimit(c.ctx, l.limit)
				c.ok(err, l.name)
				c.observe("limit."+l.name+".default", was)
				c.ok(c.d.CtxSetLimit(c.ctx, l.limit, was*2), "double "+l.name)
				is, err := c.d.CtxGetLimit(c.ctx, l.limit)
				c.ok(err, l.name)
				c.check(is >= was*2, "%s: set %d, got %d", l.name, was*2, is)
			}
		}},
	{"context/limit-unknown", "a limit that does not exist is refused",
		"Driver API: cuCtxGetLimit", 0, func(c *trial) {
			_, err := c.d.CtxGetLimit(c.ctx, 999)
			c.want(err, "get", cu.ErrorInvalidValue)
			c.want(c.d.CtxSetLimit(c.ctx, 999, 1), "set", cu.ErrorInvalidValue)
		}},
}
