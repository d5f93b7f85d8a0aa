package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const poolDoc = "Programming Guide: Stream Ordered Memory Allocator"

// poolAttr reads a setting or counter of a pool.
func (c *trial) poolAttr(p cu.MemPool, a cu.MemPoolAttribute) uint64 {
	v, err := c.d.MemPoolGetAttribute(p, a)
	c.ok(err, "pool attribute")
	return v
}

// pool creates a pool on the case's device.
func (c *trial) pool() cu.MemPool {
	p, err := c.d.MemPoolCreate(&cu.MemPoolProps{
		AllocType: cu.MemAllocationTypePinned, LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev),
	})
	c.ok(err, "create a pool")
	c.cleanup(func() { c.cleanupError("destroy a pool", c.d.MemPoolDestroy(p)) })
	return p
}

// fromPool allocates from a pool in a stream, and frees in the same stream at the end.
func (c *trial) fromPool(p cu.MemPool, n int, s cu.Stream) cu.DevicePtr {
	ptr, err := c.d.MemAllocFromPoolAsync(c.ctx, uintptr(n), p, s)
	c.ok(err, "allocate from a pool")
	return ptr
}

func (c *trial) freeAsync(ptr cu.DevicePtr, s cu.Stream) {
	c.ok(c.d.MemFreeAsync(c.ctx, ptr, s), "free on a stream")
}

var poolChecks = []check{
	{"pool/without-capability", "a device without memory pools reports that they are not supported",
		poolDoc + ", Querying for Support", 0, func(c *trial) {
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
		poolDoc + ", Default/Implicit Pools; Driver API: cuDeviceSetMemPool", needPools, func(c *trial) {
			def, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			cur, err := c.d.DeviceGetMemPool(c.dev)
			c.ok(err, "current pool")
			c.check(cur == def, "current %#x, default %#x", cur, def)
			p := c.pool()
			c.cleanup(func() { c.cleanupError("set the pool back", c.d.DeviceSetMemPool(c.dev, def)) })
			c.ok(c.d.DeviceSetMemPool(c.dev, p), "set")
			cur, err = c.d.DeviceGetMemPool(c.dev)
			c.ok(err, "current pool")
			c.check(cur == p, "current %#x, want %#x", cur, p)
			s := c.stream(0)
			before := c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent)
			ptr, err := c.d.MemAllocAsync(c.ctx, 1<<20, s)
			c.ok(err, "allocate")
			during := c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent)
			c.check(during >= before+1<<20, "used went from %d to %d: the allocation is not from the pool", before, during)
			c.freeAsync(ptr, s)
			c.sync(s)
		}},
	{"pool/default-settings", "by default a pool releases memory at once and allows every kind of reuse",
		"Driver API: cuMemPoolSetAttribute", needPools, func(c *trial) {
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
		poolDoc + ", Resource Usage Statistics", needPools, func(c *trial) {
			const n = 8 << 20
			p, s := c.pool(), c.stream(0)
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent) == 0, "a fresh pool uses %d", c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent))
			ptr := c.fromPool(p, n, s)
			c.sync(s)
			used, reserved := c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent), c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent)
			c.observe("pool.reserved-of-8MiB", reserved)
			c.check(used == n && reserved >= used, "used %d, reserved %d, want %d and more", used, reserved, n)
			c.freeAsync(ptr, s)
			c.sync(s)
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent) == 0, "used %d after the free", c.poolAttr(p, cu.MemPoolAttrUsedMemCurrent))
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemHigh) == used, "high-water mark %d, want %d", c.poolAttr(p, cu.MemPoolAttrUsedMemHigh), used)
			c.ok(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemHigh, 0), "reset the mark")
			c.check(c.poolAttr(p, cu.MemPoolAttrUsedMemHigh) == 0, "high-water mark %d after a reset", c.poolAttr(p, cu.MemPoolAttrUsedMemHigh))
		}},
	{"pool/threshold-keeps-memory", "at a synchronization freed memory up to the threshold stays reserved, and the rest is released",
		poolDoc + ", Physical Page Caching Behavior", needPools, func(c *trial) {
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
			left := c.poolAttr(p, cu.MemPoolAttrReservedMemCurrent)
			c.check(left == 0, "still %d reserved of %d", left, kept)
		}},
	{"pool/trim", "trimming releases unused memory and nothing else",
		poolDoc + ", Explicit trim; Driver API: cuMemPoolTrimTo", needPools, func(c *trial) {
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
	{"pool/attributes-misuse", "counters cannot be set, high-water marks only to 0, and unknown attributes are refused",
		"Driver API: cuMemPoolSetAttribute, cuMemPoolGetAttribute", needPools, func(c *trial) {
			p := c.pool()
			c.want(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemHigh, 5), "set a mark to 5", cu.ErrorInvalidValue)
			c.want(c.d.MemPoolSetAttribute(p, cu.MemPoolAttrUsedMemCurrent, 0), "set a counter", cu.ErrorInvalidValue)
			c.want(c.d.MemPoolSetAttribute(p, 99, 0), "set attribute 99", cu.ErrorInvalidValue)
			_, err := c.d.MemPoolGetAttribute(p, 99)
			c.want(err, "get attribute 99", cu.ErrorInvalidValue)
			_, err = c.d.MemPoolGetAttribute(0, cu.MemPoolAttrReleaseThreshold)
			c.want(err, "pool 0", cu.ErrorInvalidValue)
		}},
	{"pool/create-misuse", "a pool needs pinned allocations on a device that exists",
		"Driver API: cuMemPoolCreate", needPools, func(c *trial) {
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
			try("on device 99", func(p *cu.MemPoolProps) { p.LocationID = 99 }, cu.ErrorInvalidValue)
			c.want(c.d.MemPoolDestroy(0), "destroy pool 0", cu.ErrorInvalidValue)
		}},
	{"pool/default-not-destroyed", "the default pool cannot be destroyed",
		"Driver API: cuMemPoolDestroy", needPools, func(c *trial) {
			def, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			c.want(c.d.MemPoolDestroy(def), "destroy the default pool", cu.ErrorInvalidValue)
			p, err := c.d.MemAllocAsync(c.ctx, page, 0)
			c.ok(err, "allocate")
			c.freeAsync(p, 0)
			c.syncAll()
		}},
	{"pool/max-size", "a pool with a maximum size refuses more than that",
		"Driver API: cuMemPoolCreate, CUmemPoolProps.maxSize", needPools, func(c *trial) {
			if v, _ := c.d.DriverGetVersion(); v < 12020 {
				c.skip("driver %d is older than the maximum size", v)
			}
			p, err := c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned,
				LocationType: cu.MemLocationTypeDevice, LocationID: int32(c.dev), MaxSize: 64 << 20})
			c.ok(err, "create")
			c.cleanup(func() { c.cleanupError("destroy", c.d.MemPoolDestroy(p)) })
			s := c.stream(0)
			a := c.fromPool(p, 32<<20, s)
			_, err = c.d.MemAllocFromPoolAsync(c.ctx, 512<<20, p, s)
			c.want(err, "512 MiB of a pool of 64 MiB", cu.ErrorOutOfMemory)
			c.freeAsync(a, s)
			c.sync(s)
		}},
}
