package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const poolDoc = "Programming Guide: Stream Ordered Memory Allocator"

// poolAttr reads a setting or counter.
func (c *T) poolAttr(p cu.MemPool, a cu.MemPoolAttribute) uint64 {
	v, err := c.d.MemPoolGetAttribute(p, a)
	c.ok(err, "pool attribute")
	return v
}

// pool makes a pool on the case's device.
func (c *T) pool() cu.MemPool {
	p, err := c.d.MemPoolCreate(&cu.MemPoolProps{
		AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev),
	})
	c.ok(err, "create a pool")
	c.later(func() { c.undo("destroy a pool", c.d.MemPoolDestroy(p)) })
	return p
}

// fromPool allocates from a pool on a stream, and frees there at the end.
func (c *T) fromPool(p cu.MemPool, n int, s cu.Stream) cu.DevicePtr {
	ptr, err := c.d.MemAllocFromPoolAsync(c.ctx, uintptr(n), p, s)
	c.ok(err, "allocate from a pool")
	return ptr
}

func (c *T) freeAsync(ptr cu.DevicePtr, s cu.Stream) {
	c.ok(c.d.MemFreeAsync(c.ctx, ptr, s), "free on a stream")
}

var poolChecks = []check{
	{"pool/without-capability", "a device without pools says so",
		poolDoc + ", Querying for Support", 0, func(c *T) {
			p, err := c.d.MemAllocAsync(c.ctx, page, 0)
			if c.attr(cu.DeviceAttributeMemoryPoolsSupported) != 0 {
				c.ok(err, "allocate")
				c.freeAsync(p, 0)
				c.syncAll()
				return
			}
			c.want(err, "allocate", cu.ErrorNotSupported)
			_, err = c.d.DeviceGetDefaultMemPool(c.dev)
			c.want(err, "default pool", cu.ErrorNotSupported)
		}},
	{"pool/default-is-current", "a device's pool is its default pool until another is set",
		poolDoc + ", Default/Implicit Pools; Driver API: cuDeviceSetMemPool", needPools, func(c *T) {
			def, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			cur, err := c.d.DeviceGetMemPool(c.dev)
			c.ok(err, "current pool")
			c.check(cur == def, "current %#x, default %#x", cur, def)
			p := c.pool()
			c.later(func() { c.undo("set the pool back", c.d.DeviceSetMemPool(c.dev, def)) })
			c.ok(c.d.DeviceSetMemPool(c.dev, p), "set")
			cur, err = c.d.DeviceGetMemPool(c.dev)
			c.ok(err, "current pool")
			c.check(cur == p, "current %#x, want %#x", cur, p)
			s := c.stream(0)
			before := c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent)
			ptr, err := c.d.MemAllocAsync(c.ctx, 1<<20, s)
			c.ok(err, "allocate")
			during := c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent)
			c.check(during >= before+1<<20, "used went from %d to %d: the allocation came from elsewhere", before, during)
			c.freeAsync(ptr, s)
			c.sync(s)
		}},
	{"pool/default-settings", "a pool gives memory back at once and may reuse in every way, unless told otherwise",
		"Driver API: cuMemPoolSetAttribute", needPools, func(c *T) {
			p := c.pool()
			c.check(c.poolAttr(p, cu.MemPoolAttrReleaseThreshold) == 0, "release threshold %d, want 0", c.poolAttr(p, cu.MemPoolAttrReleaseThreshold))
			for _, a := range []cu.MemPoolAttribute{cu.MemPoolAttrReuseFollowEventDependencies, cu.MemPoolAttrReuseAllowOpportunistic, cu.MemPoolAttrReuseAllowInternalDependencies} {
				c.check(c.poolAttr(p, a) == 1, "reuse attribute %d is %d, want 1", a, c.poolAttr(p, a))
				c.ok(c.d.MemPoolSetAttribute(p, a, 0), "clear")
				c.check(c.poolAttr(p, a) == 0, "reuse attribute %d is %d after clearing", a, c.poolAttr(p, a))
			}
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, 123<<20), "set the threshold")
			c.check(c.poolAttr(p, cu.MemPoolAttrReleaseThreshold) == 123<<20, "threshold %d, want %d", c.poolAttr(p, cu.MemPoolAttrReleaseThreshold), 123<<20)
		}},
	{"pool/counters", "a pool counts what is used and reserved, with high-water marks that can be reset",
		poolDoc + ", Resource Usage Statistics", needPools, func(c *T) {
			const n = 8 << 20
			p, s := c.pool(), c.stream(0)
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent) == 0, "a fresh pool uses %d", c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent))
			ptr := c.fromPool(p, n, s)
			c.sync(s)
			used, reserved := c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent), c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent)
			c.observe("pool.used-of-8MiB", used)
			c.observe("pool.reserved-of-8MiB", reserved)
			c.check(used == n && reserved >= used, "used %d, reserved %d, want %d and more", used, reserved, n)
			c.freeAsync(ptr, s)
			c.sync(s)
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent) == 0, "used %d after the free", c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent))
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemHigh) == used, "high-water mark %d, want %d", c.poolAttr(p, cu.MemPoolAttrUsedMemHigh), used)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemHigh, 0), "reset the mark")
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemHigh) == 0, "high-water mark %d after a reset", c.poolAttr(p, cu.MemPoolAttrUsedMemHigh))
		}},
	{"pool/threshold-keeps-memory", "freed memory up to the threshold stays reserved over a synchronisation, the rest is released",
		poolDoc + ", Physical Page Caching Behavior", needPools, func(c *T) {
			const n = 32 << 20
			p, s := c.pool(), c.stream(0)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, ^uint64(0)), "keep all")
			c.freeAsync(c.fromPool(p, n, s), s)
			c.sync(s)
			kept := c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent)
			c.check(kept >= n, "reserved %d, want %d or more", kept, n)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, 0), "keep nothing")
			c.freeAsync(c.fromPool(p, 1<<20, s), s)
			c.sync(s)
			c.observe("pool.reserved-after-threshold-0", c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent))
			c.check(c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent) < kept, "still %d reserved", c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent))
		}},
	{"pool/trim", "trimming gives back what is not used, and no more",
		poolDoc + ", Explicit trim; Driver API: cuMemPoolTrimTo", needPools, func(c *T) {
			const n = 32 << 20
			p, s := c.pool(), c.stream(0)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrReleaseThreshold, ^uint64(0)), "keep all")
			a, b := c.fromPool(p, n, s), c.fromPool(p, n, s)
			c.ok(c.d.MemsetD8Async(c.ctx, b, 0x6b, n, s), "fill")
			c.freeAsync(a, s)
			c.sync(s)
			c.ok(c.d.MemPoolTrimTo(p, 0), "trim")
			left := c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent)
			c.observe("pool.reserved-after-trim-with-32MiB-used", left)
			c.check(left >= n && left < 2*n, "reserved %d with %d in use", left, n)
			c.same("memory in use", c.down(b, page), repeated(0x6b6b6b6b, page/4))
			c.freeAsync(b, s)
			c.sync(s)
			c.ok(c.d.MemPoolTrimTo(p, 0), "trim")
			c.check(c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent) == 0, "reserved %d with nothing in use", c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent))
		}},
	{"pool/attributes-misuse", "counters are not set, marks are reset to 0 only, and unknown attributes are refused",
		"Driver API: cuMemPoolSetAttribute, cuMemPoolGetAttribute", needPools, func(c *T) {
			p := c.pool()
			c.want(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemHigh, 5), "set a mark to 5", cu.ErrorInvalidValue)
			c.want(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemCurrent, 0), "set a counter", cu.ErrorInvalidValue)
			c.want(c.d.MemPoolSetAttribute(p, 99, 0), "set attribute 99", cu.ErrorInvalidValue)
			_, err := c.d.MemPoolGetAttribute(p, 99)
			c.want(err, "get attribute 99", cu.ErrorInvalidValue)
			_, err = c.d.MemPoolGetAttribute(0, cu.MemPoolAttrReleaseThreshold)
			c.want(err, "no pool", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
		}},
	{"pool/create-misuse", "a pool wants page-locked allocations on a device that is there",
		"Driver API: cuMemPoolCreate", needPools, func(c *T) {
			good := cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev)}
			try := func(what string, change func(p *cu.MemPoolProps), codes ...cu.Result) {
				props := good
				change(&props)
				p, err := c.d.MemPoolCreate(&props)
				c.want(err, what, codes...)
				if err == nil {
					_ = c.d.MemPoolDestroy(p)
				}
			}
			try("allocation type 0", func(p *cu.MemPoolProps) { p.AllocType = 0 }, cu.ErrorInvalidValue)
			try("location type 99", func(p *cu.MemPoolProps) { p.LocationType = 99 }, cu.ErrorInvalidValue)
			try("pool.create-on-device-99", func(p *cu.MemPoolProps) { p.LocationID = 99 }, cu.ErrorInvalidValue, cu.ErrorInvalidDevice)
			c.want(c.d.MemPoolDestroy(0), "destroy no pool", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
		}},
	{"pool/default-not-destroyed", "the default pool cannot be destroyed",
		"Driver API: cuMemPoolDestroy", needPools, func(c *T) {
			def, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			c.want(c.d.MemPoolDestroy(def), "pool.destroy-default", cu.ErrorInvalidValue, cu.ErrorNotPermitted, cu.ErrorNotSupported, cu.ErrorInvalidHandle)
			p, err := c.d.MemAllocAsync(c.ctx, page, 0)
			c.ok(err, "allocate")
			c.freeAsync(p, 0)
			c.syncAll()
		}},
	{"pool/max-size", "a pool with a bound refuses more than that",
		"Driver API: cuMemPoolCreate, CUmemPoolProps.maxSize", needPools, func(c *T) {
			if v, _ := c.d.DriverGetVersion(); v < 12020 {
				c.skip("driver %d is older than the bound", v)
			}
			p, err := c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned,
				LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev), MaxSize: 64 << 20})
			c.ok(err, "create")
			c.later(func() { c.undo("destroy", c.d.MemPoolDestroy(p)) })
			s := c.stream(0)
			a := c.fromPool(p, 32<<20, s)
			_, err = c.d.MemAllocFromPoolAsync(c.ctx, 512<<20, p, s)
			c.want(err, "512 MiB of a pool of 64 MiB", cu.ErrorOutOfMemory)
			c.freeAsync(a, s)
			c.sync(s)
		}},
}

var poolOrderChecks = []check{
	{"pool/use-in-stream", "memory is usable in its stream from the allocation to the free",
		poolDoc, needPools, func(c *T) {
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
	{"pool/reuse-in-stream", "memory freed in a stream can be had again in that stream at once, and contents stay apart",
		poolDoc + ", Reuse", needPools | needMapHost, func(c *T) {
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
			c.observe("pool.same-stream-reuses-address", a == b)
			c.ok(c.d.MemsetD32Async(c.ctx, b, 2, n/4, s), "fill the second")
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, offsetPointer(out.p, 4), b, 4, s), "copy from the second")
			c.freeAsync(b, s)
			c.busy(s)
			g.open()
			c.sync(s)
			c.same("copied out", out.b, words(1, 2))
		}},
	{"pool/allocation-returns", "allocating and freeing on a stream do not wait for its work",
		poolDoc + "; Driver API: cuMemAllocAsync", needPools | needMapHost, func(c *T) {
			s := c.stream(cu.StreamNonBlocking)
			g := c.gate()
			g.hold(s)
			var p cu.DevicePtr
			c.mustReturn(g, "MemAllocAsync", func() (err error) { p, err = c.d.MemAllocAsync(c.ctx, 4<<20, s); return err })
			c.mustReturn(g, "MemFreeAsync", func() error { return c.d.MemFreeAsync(c.ctx, p, s) })
			c.busy(s)
		}},
	{"pool/across-streams", "another stream uses memory after it waited for the allocation",
		poolDoc, needPools, func(c *T) {
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
	{"pool/other-stream-busy", "memory freed behind unfinished work is not handed to a stream that does not wait for it",
		poolDoc + ", Memory Reuse Policies", needPools | needMapHost | needConcurrentKernels, func(c *T) {
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
		poolDoc + ", cudaFree", needPools, func(c *T) {
			p, err := c.d.MemAllocAsync(c.ctx, 1<<20, 0)
			c.ok(err, "allocate")
			c.ok(c.d.MemsetD8Async(c.ctx, p, 1, 1<<20, 0), "fill")
			c.syncAll()
			c.ok(c.d.MemFree(c.ctx, p), "MemFree")
			c.want(c.d.MemFree(c.ctx, p), "MemFree twice", cu.ErrorInvalidValue)
		}},
	{"pool/free-of-plain-memory", "whether a stream frees plain device memory is observed",
		"Driver API: cuMemFreeAsync", needPools, func(c *T) {
			p, err := c.d.MemAlloc(c.ctx, 1<<20)
			c.ok(err, "allocate")
			err = c.d.MemFreeAsync(c.ctx, p, 0)
			c.want(err, "pool.free-async-of-plain-memory", cu.Success, cu.ErrorInvalidValue)
			c.syncAll()
			if err != nil {
				c.ok(c.d.MemFree(c.ctx, p), "free")
			}
		}},
	{"pool/misuse", "nothing is allocated from nothing, and memory is freed once",
		"Driver API: cuMemAllocAsync, cuMemFreeAsync", needPools, func(c *T) {
			_, err := c.d.MemAllocAsync(c.ctx, 0, 0)
			c.want(err, "pool.zero-bytes", cu.ErrorInvalidValue, cu.Success)
			_, err = c.d.MemAllocAsync(c.ctx, 1<<45, 0)
			c.want(err, "32 TiB", cu.ErrorOutOfMemory)
			_, err = c.d.MemAllocFromPoolAsync(c.ctx, page, 0, 0)
			c.want(err, "from no pool", cu.ErrorInvalidValue, cu.ErrorInvalidHandle)
			c.want(c.d.MemFreeAsync(c.ctx, 0xdead_0000, 0), "free a wild address", cu.ErrorInvalidValue)
			p, err := c.d.MemAllocAsync(c.ctx, 1<<20, 0)
			c.ok(err, "allocate")
			c.freeAsync(p, 0)
			c.syncAll()
			c.want(c.d.MemFreeAsync(c.ctx, p, 0), "free twice", cu.ErrorInvalidValue)
		}},
	{"pool/destroy-in-use", "a pool is destroyed at once and lives on for what was allocated from it",
		"Driver API: cuMemPoolDestroy", needPools, func(c *T) {
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
	{"pool/pointer-attributes", "memory of a pool is device memory",
		"Driver API: cuPointerGetAttributes", needPools | needUVA, func(c *T) {
			p, err := c.d.MemAllocAsync(c.ctx, 3<<20, 0)
			c.ok(err, "allocate")
			c.syncAll()
			a := c.attributes(p)
			c.check(a.MemoryType == cu.MemoryTypeDevice && a.DevicePointer == p && a.Device == c.dev && !a.IsManaged, "attributes %+v", a)
			c.observe("pool.pointer.context", a.Context == c.ctx)
			c.observe("pool.pointer.range-size-of-3MiB", a.RangeSize)
			c.freeAsync(p, 0)
			c.syncAll()
		}},
}
