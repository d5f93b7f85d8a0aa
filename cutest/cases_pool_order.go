package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

var poolOrderChecks = []check{
	{"pool/use-in-stream", "memory is usable in its stream from the allocation to the free",
		poolDoc, needPools, func(c *trial) {
			const n = 10_000
			s := c.stream(cu.StreamNonBlocking)
			out := c.pinned(4*n, 0)
			for i := range uint32(20) {
				p, err := c.d.MemAllocAsync(c.ctx, 4*n, s)
				c.ok(err, "allocate")
				c.check(p%256 == 0, "memory at %#x", p)
				c.launch(s, "store", n, p, i, uint32(n))
				c.launch(s, "inc", n, p, i, uint32(n))
				c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, 4*n, s), "copy")
				c.freeAsync(p, s)
				if i%4 == 3 {
					c.sync(s)
					c.same("copied out", out.b, repeated(2*i, n))
				}
			}
		}},
	{"pool/reuse-in-stream", "memory freed in a stream can be allocated again in that stream at once, without a conflict of contents",
		poolDoc + ", Reuse", needPools | needMapHost, func(c *trial) {
			const n = 1 << 20
			p, s := c.pool(), c.stream(cu.StreamNonBlocking)
			out := c.pinned(8, 0)
			g := c.gate()
			g.hold(s)
			a := c.fromPool(p, n, s)
			c.ok(c.d.MemsetD32Async(c.ctx, a, 1, n/4, s), "fill the first")
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, a, 4, s), "copy from the first")
			c.freeAsync(a, s)
			b := c.fromPool(p, n, s)
			c.check(a == b, "the stream freed %#x and then got %#x", a, b)
			c.ok(c.d.MemsetD32Async(c.ctx, b, 2, n/4, s), "fill the second")
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, offsetPointer(out.p, 4), b, 4, s), "copy from the second")
			c.freeAsync(b, s)
			c.busy(s)
			g.open()
			c.sync(s)
			c.same("copied out", out.b, words(1, 2))
		}},
	{"pool/allocation-returns", "allocating and freeing on a stream do not wait for its work",
		poolDoc + "; Driver API: cuMemAllocAsync", needPools | needMapHost, func(c *trial) {
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			var p cu.DevicePtr
			c.mustReturn(g, "MemAllocAsync", func() (err error) { p, err = c.d.MemAllocAsync(c.ctx, 4<<20, s); return err })
			c.mustReturn(g, "MemFreeAsync", func() error { return c.d.MemFreeAsync(c.ctx, p, s) })
			c.busy(s)
		}},
	{"pool/across-streams", "another stream uses memory after it waited for the allocation",
		poolDoc, needPools, func(c *trial) {
			const n = 2000
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			ready, done := c.event(cu.EventDisableTiming), c.event(cu.EventDisableTiming)
			out := c.pinned(4*n, 0)
			p, err := c.d.MemAllocAsync(c.ctx, 4*n, a)
			c.ok(err, "allocate")
			c.ok(c.d.EventRecord(c.ctx, ready, a), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, b, ready, 0), "wait")
			c.launch(b, "store", n, p, uint32(0xbead), uint32(n))
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, p, 4*n, b), "copy")
			c.ok(c.d.EventRecord(c.ctx, done, b), "record")
			c.ok(c.d.StreamWaitEvent(c.ctx, a, done, 0), "wait")
			c.freeAsync(p, a)
			c.sync(a)
			c.same("copied out", out.b, repeated(0xbead, n))
		}},
	{"pool/other-stream-busy", "memory freed behind unfinished work is not allocated to a stream that does not wait for the work",
		poolDoc + ", Memory Reuse Policies", needPools | needMapHost | needConcurrentKernels, func(c *trial) {
			const n = 1 << 20
			p := c.pool()
			for _, a := range []cu.MemPoolAttribute{cu.MemPoolAttrReuseAllowInternalDependencies} {
				c.ok(c.d.MemPoolSetAttribute(p, a, 0), "no internal dependencies")
			}
			a, b := c.stream(cu.StreamNonBlocking), c.stream(cu.StreamNonBlocking)
			x := c.fromPool(p, n, a)
			g := c.gate()
			g.hold(a)
			c.ok(c.d.MemsetD8Async(c.ctx, x, 0xee, n, a), "late fill of the freed memory")
			c.freeAsync(x, a)
			y := c.fromPool(p, n, b)
			c.check(x != y, "the other stream got memory that is still in use")
			c.ok(c.d.MemsetD8Async(c.ctx, y, 0x11, n, b), "fill of the new memory")
			c.mustReturn(g, "the free stream", func() error { return c.d.StreamSynchronize(c.ctx, b) })
			g.open()
			c.sync(a)
			c.same("the new memory", c.down(y, 4096), repeated(0x11111111, 1024))
			c.freeAsync(y, b)
			c.sync(b)
		}},
	{"pool/free-by-plain-free", "memory of a pool can be freed without a stream, which waits for its work",
		poolDoc + ", cudaFree", needPools, func(c *trial) {
			p, err := c.d.MemAllocAsync(c.ctx, 1<<20, 0)
			c.ok(err, "allocate")
			c.ok(c.d.MemsetD8Async(c.ctx, p, 1, 1<<20, 0), "fill")
			c.syncAll()
			c.ok(c.d.MemFree(c.ctx, p), "MemFree")
			c.want(c.d.MemFree(c.ctx, p), "MemFree twice", cu.ErrorInvalidValue)
		}},
	{"pool/free-of-plain-memory", "a stream can also free memory of cuMemAlloc",
		"Driver API: cuMemFreeAsync", needPools, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 1<<20)
			c.ok(err, "allocate")
			c.freeAsync(p, 0)
			c.syncAll()
			c.want(c.d.MemFree(c.ctx, p), "free again", cu.ErrorInvalidValue)
		}},
	{"pool/misuse", "an allocation needs an existing pool and no more bytes than the device has, and is freed once; zero bytes are no error",
		"Driver API: cuMemAllocAsync, cuMemFreeAsync", needPools, func(c *trial) {
			_, err := c.d.MemAllocAsync(c.ctx, 0, 0)
			c.ok(err, "0 bytes")
			_, err = c.d.MemAllocAsync(c.ctx, 1<<45, 0)
			c.want(err, "32 TiB", cu.ErrorOutOfMemory)
			_, err = c.d.MemAllocFromPoolAsync(c.ctx, page, 0, 0)
			c.want(err, "from pool 0", cu.ErrorInvalidValue)
			c.want(c.d.MemFreeAsync(c.ctx, 0xdead_0000, 0), "free an unused address", cu.ErrorInvalidValue)
			p, err := c.d.MemAllocAsync(c.ctx, 1<<20, 0)
			c.ok(err, "allocate")
			c.freeAsync(p, 0)
			c.syncAll()
			c.want(c.d.MemFreeAsync(c.ctx, p, 0), "free twice", cu.ErrorInvalidValue)
		}},
	{"pool/destroy-in-use", "a pool can be destroyed at once, and memory allocated from it stays valid",
		"Driver API: cuMemPoolDestroy", needPools, func(c *trial) {
			p, err := c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned,
				LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev)})
			c.ok(err, "create")
			s := c.stream(0)
			ptr := c.fromPool(p, 4096, s)
			c.ok(c.d.MemPoolDestroy(p), "destroy")
			c.launch(s, "store", 1024, ptr, uint32(4), uint32(1024))
			c.same("memory of the destroyed pool", c.down(ptr, 4096), repeated(4, 1024))
			c.freeAsync(ptr, s)
			c.sync(s)
		}},
	{"pool/pointer-attributes", "memory of a pool is device memory of its exact size that belongs to no context",
		"Driver API: cuPointerGetAttributes", needPools | needUVA, func(c *trial) {
			p, err := c.d.MemAllocAsync(c.ctx, 3<<20, 0)
			c.ok(err, "allocate")
			c.syncAll()
			a := c.attributes(p)
			c.check(a.MemoryType == cu.MemoryTypeDevice && a.DevicePointer == p && a.Device == c.dev && !a.IsManaged, "attributes %+v", a)
			c.check(a.Context != c.ctx, "it is reported to belong to the context")
			c.inRange(a, p, 3<<20)
			c.freeAsync(p, 0)
			c.syncAll()
		}},
}
