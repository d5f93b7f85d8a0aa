package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

var deviceMemoryChecks = []check{
	{"memory/alignment", "device memory is aligned to 256 bytes and allocations do not overlap",
		"Programming Guide: Device Memory Accesses, Size and Alignment Requirement; Driver API: cuMemAlloc", 0, func(c *trial) {
			type span struct{ p, end cu.DevicePtr }
			var all []span
			for _, n := range []int{1, 3, 255, 256, 257, 4097, 100_000, 1 << 21} {
				p := c.device(n)
				c.check(p%256 == 0, "%d bytes at %#x", n, p)
				for _, o := range all {
					c.check(p >= o.end || p+cu.DevicePtr(n) <= o.p, "%#x+%d overlaps %#x", p, n, o.p)
				}
				all = append(all, span{p, p + cu.DevicePtr(n)})
			}
		}},
	{"memory/keeps-bytes", "writes to one allocation do not change another",
		"Programming Guide: Device Memory", 0, func(c *trial) {
			var ps []cu.DevicePtr
			var want [][]byte
			for i := range 12 {
				n := 100 + 333*i
				ps, want = append(ps, c.device(n)), append(want, c.random(n))
			}
			for i := range ps {
				c.up(ps[i], want[i])
			}
			for i := range ps {
				c.same(fmt.Sprintf("allocation %d", i), c.down(ps[i], len(want[i])), want[i])
			}
		}},
	{"memory/info-follows", "free memory decreases by an allocation and increases when it is freed",
		"Driver API: cuMemGetInfo", 0, func(c *trial) {
			const n = 64 << 20
			before, total, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "memory info")
			p, err := c.d.MemAlloc(c.ctx, n)
			c.ok(err, "allocate")
			during, _, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "memory info")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			after, again, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "memory info")
			c.check(during+n <= before, "free memory went from %d to %d after allocating %d", before, during, n)
			c.check(after >= during+n, "free memory went from %d to %d after freeing %d", during, after, n)
			c.check(total == again, "total memory changed from %d to %d", total, again)
		}},
	{"memory/pitch", "pitched memory has rows of at least the width, each well aligned",
		"Driver API: cuMemAllocPitch", 0, func(c *trial) {
			for _, element := range []uint32{4, 8, 16} {
				p, pitch, err := c.d.MemAllocPitch(c.ctx, 1001, 7, element)
				c.ok(err, "allocate")
				c.observe(fmt.Sprintf("pitch.1001.%d", element), pitch)
				c.check(pitch >= 1001 && pitch%32 == 0 && p%256 == 0, "pitch %d at %#x", pitch, p)
				_, size, err := c.d.MemGetAddressRange(c.ctx, p)
				c.ok(err, "range")
				c.check(size >= pitch*6+1001, "%d bytes for 7 rows of pitch %d", size, pitch)
				c.ok(c.d.MemFree(c.ctx, p), "free")
			}
		}},
	{"memory/free-waits", "freeing device memory waits for the work that may use it",
		"Driver API: cuMemFree (cuMemFreeAsync, Note)", needMapHost, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 1<<20)
			c.ok(err, "allocate")
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			c.launch(s, "store", 16, p, uint32(1), uint32(16))
			c.mustWait(g, "MemFree", func() error { return c.d.MemFree(c.ctx, p) })
		}},
}

var deviceMemoryMisuseChecks = []check{
	{"memory/zero-bytes", "zero bytes of device memory are refused",
		"Driver API: cuMemAlloc", 0, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 0)
			c.want(err, "allocate 0 bytes", cu.ErrorInvalidValue)
			c.check(p == 0, "got %#x", p)
		}},
	{"memory/out-of-memory", "a request for more memory than the device has is out of memory, and smaller requests still succeed",
		"Driver API: cuMemAlloc; CUDA_ERROR_OUT_OF_MEMORY", 0, func(c *trial) {
			total, err := c.d.DeviceTotalMem(c.dev)
			c.ok(err, "total memory")
			for _, n := range []uintptr{total + 1<<30, 1 << 45} {
				_, err := c.d.MemAlloc(c.ctx, n)
				c.want(err, fmt.Sprintf("allocate %d bytes", n), cu.ErrorOutOfMemory)
			}
			_, err = c.d.MemAlloc(c.ctx, ^uintptr(0))
			c.want(err, "allocate 2^64-1 bytes", cu.ErrorOutOfMemory)
			p := c.device(4096)
			c.launch(0, "store", 1024, p, uint32(8), uint32(1024))
			c.same("memory after the refusal", c.down(p, 4096), repeated(8, 1024))
		}},
	{"memory/free-misuse", "only the start address of an existing allocation can be freed; address 0 is accepted",
		"Driver API: cuMemFree", 0, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 8<<20)
			c.ok(err, "allocate")
			c.want(c.d.MemFree(c.ctx, p+256), "free inside", cu.ErrorInvalidValue)
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.want(c.d.MemFree(c.ctx, p), "free twice", cu.ErrorInvalidValue)
			c.want(c.d.MemFree(c.ctx, 0xdead_0000), "free an unused address", cu.ErrorInvalidValue)
			c.want(c.d.MemFree(c.ctx, addressOf(c.pageable(page))), "free pageable memory", cu.ErrorInvalidValue)
			c.ok(c.d.MemFree(c.ctx, 0), "free 0")
		}},
	{"memory/pitch-misuse", "pitched memory needs an element size of 4, 8 or 16, a width and a height",
		"Driver API: cuMemAllocPitch", 0, func(c *trial) {
			for _, a := range []struct {
				w, h uintptr
				e    uint32
			}{{100, 10, 3}, {100, 10, 0}, {0, 10, 4}, {100, 0, 4}} {
				p, _, err := c.d.MemAllocPitch(c.ctx, a.w, a.h, a.e)
				c.want(err, fmt.Sprintf("%d x %d of %d", a.w, a.h, a.e), cu.ErrorInvalidValue)
				if err == nil {
					_ = c.d.MemFree(c.ctx, p)
				}
			}
		}},
	{"memory/free-in-another-context", "memory of one context can be freed in another",
		"Driver API: cuMemFree (silent)", 0, func(c *trial) {
			ctx := c.newContext(cu.CtxMapHost)
			p, err := c.d.MemAlloc(c.ctx, 1<<20)
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(ctx, p), "free in the other context")
			c.want(c.d.MemFree(c.ctx, p), "free again in its own", cu.ErrorInvalidValue)
		}},
}
