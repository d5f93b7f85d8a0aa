package cutest

import (
	"bytes"

	"github.com/ferrygpu/ferry/cu"
)

const virtualDoc = "Driver API: Virtual Memory Management, "

// properties describe memory of a device that can be shared in the given ways.
func (c *trial) properties(dev cu.Device, types cu.MemAllocationHandleType) *cu.MemAllocationProp {
	return &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, RequestedHandleTypes: types, Location: location(dev)}
}

// granule returns the smallest granularity of memory of the case's device.
func (c *trial) granule() uintptr {
	n, err := c.d.MemGetAllocationGranularity(c.ctx, c.properties(c.dev, 0), cu.MemAllocGranularityMinimum)
	c.ok(err, "granularity")
	return n
}

// reserve reserves addresses, which are freed at the end.
func (c *trial) reserve(n uintptr) cu.DevicePtr {
	p, err := c.d.MemAddressReserve(c.ctx, n, 0, 0, 0)
	c.ok(err, "reserve addresses")
	ctx := c.ctx
	c.cleanup(func() { c.cleanupError("free addresses", c.d.MemAddressFree(ctx, p, n)) })
	return p
}

// created creates memory. The case releases it.
func (c *trial) created(n uintptr) cu.MemHandle { return c.createdOn(c.dev, n, 0) }

func (c *trial) createdOn(dev cu.Device, n uintptr, types cu.MemAllocationHandleType) cu.MemHandle {
	h, err := c.d.MemCreate(c.ctx, n, c.properties(dev, types), 0)
	c.ok(err, "create memory")
	return h
}

// mapAt maps memory and releases the handle, so that the mapping alone keeps the memory. It is
// unmapped at the end.
func (c *trial) mapAt(p cu.DevicePtr, n uintptr, h cu.MemHandle) {
	c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map memory")
	ctx := c.ctx
	c.cleanup(func() { c.cleanupError("unmap memory", c.d.MemUnmap(ctx, p, n)) })
	c.ok(c.d.MemRelease(c.ctx, h), "release memory")
}

// open gives the case's device access to mapped memory.
func (c *trial) open(p cu.DevicePtr, n uintptr) {
	c.ok(c.d.MemSetAccess(c.ctx, p, n, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtReadWrite)}), "open memory")
}

// virtual returns n bytes of new memory at new addresses that the case's device can use.
func (c *trial) virtual(n uintptr) cu.DevicePtr {
	p := c.reserve(n)
	c.mapAt(p, n, c.created(n))
	c.open(p, n)
	return p
}

// wantMapped checks the access of the case's device to mapped memory.
func (c *trial) wantMapped(what string, p cu.DevicePtr, want cu.MemAccessFlags) {
	at := location(c.dev)
	got, err := c.d.MemGetAccess(c.ctx, &at, p)
	c.ok(err, "access to mapped memory, "+what)
	c.check(got == want, "%s: access %v, want %v", what, got, want)
}

// uses writes memory by a copy, a kernel and a fill, and checks every byte each time.
func (c *trial) uses(what string, p cu.DevicePtr, n int) {
	was := c.random(n)
	c.up(p, was)
	c.same(what+": copied", c.down(p, n), was)
	c.launch(0, "inc", n/4, p, uint32(5), uint32(n/4))
	c.same(what+": written by a kernel", c.down(p, n), plus(was, 5))
	c.ok(c.d.MemsetD8(c.ctx, p+1, 0x6a, uintptr(n-2)), "fill")
	got := c.down(p, n)
	c.same(what+": filled", got[1:n-1], bytes.Repeat([]byte{0x6a}, n-2))
	c.check(got[0] == plus(was, 5)[0] && got[n-1] == plus(was, 5)[n-1], "%s: a fill wrote beside its range", what)
}

var virtualChecks = []check{
	{"virtual/granularity", "the granularity is a power of two, and the recommended one a multiple of the smallest",
		virtualDoc + "cuMemGetAllocationGranularity", needVirtual, func(c *trial) {
			n := c.granule()
			c.check(n >= page && n&(n-1) == 0, "granularity %d, want a power of two of at least a page", n)
			best, err := c.d.MemGetAllocationGranularity(c.ctx, c.properties(c.dev, 0), cu.MemAllocGranularityRecommended)
			c.ok(err, "recommended granularity")
			c.check(best > 0 && best%n == 0, "recommended granularity %d, want a multiple of %d", best, n)
			c.observe("virtual.granularity", n)
			c.observe("virtual.granularity-recommended", best)
			_, err = c.d.MemGetAllocationGranularity(c.ctx, nil, 0)
			c.want(err, "no properties", cu.ErrorInvalidValue)
		}},
	{"virtual/reserve", "addresses are reserved with the alignment asked for, and freed whole",
		virtualDoc + "cuMemAddressReserve, cuMemAddressFree", needVirtual, func(c *trial) {
			n := 4 * c.granule()
			for _, align := range []uintptr{0, n, 16 * n} {
				p, err := c.d.MemAddressReserve(c.ctx, n, align, 0, 0)
				c.ok(err, "reserve")
				c.check(p != 0 && uintptr(p)%max(align, c.granule()) == 0, "address %#x is not aligned to %d", p, max(align, c.granule()))
				c.want(c.d.MemAddressFree(c.ctx, p, n/2), "free a part", cu.ErrorInvalidValue)
				c.want(c.d.MemAddressFree(c.ctx, p+cu.DevicePtr(n/2), n/2), "free the rest", cu.ErrorInvalidValue)
				c.ok(c.d.MemAddressFree(c.ctx, p, n), "free")
				c.want(c.d.MemAddressFree(c.ctx, p, n), "free again", cu.ErrorInvalidValue)
			}
		}},
	{"virtual/reserve-misuse", "the size is a multiple of the page, the alignment a power of two, and flags are 0",
		virtualDoc + "cuMemAddressReserve", needVirtual, func(c *trial) {
			n := c.granule()
			for _, k := range []struct {
				what     string
				n, align uintptr
				flags    uint64
			}{{"no bytes", 0, 0, 0}, {"a part of a page", n + 1, 0, 0}, {"alignment 3", n, 3, 0}, {"flags 1", n, 0, 1}} {
				_, err := c.d.MemAddressReserve(c.ctx, k.n, k.align, 0, k.flags)
				c.want(err, k.what, cu.ErrorInvalidValue)
			}
		}},
	{"virtual/use", "mapped memory that is open to a device works as memory of cuMemAlloc does",
		virtualDoc + "cuMemMap, cuMemSetAccess", needVirtual, func(c *trial) {
			n := c.granule()
			c.uses("mapped memory", c.virtual(n), int(n))
		}},
	{"virtual/closed-at-first", "mapped memory has no access before cuMemSetAccess, and none after it took it away",
		virtualDoc + "cuMemMap, cuMemSetAccess, cuMemGetAccess", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(n)
			c.mapAt(p, n, c.created(n))
			c.wantMapped("at first", p, cu.MemAccessProtNone)
			c.open(p, n)
			c.wantMapped("open", p, cu.MemAccessProtReadWrite)
			c.wantMapped("open, inside", p+cu.DevicePtr(n/2), cu.MemAccessProtReadWrite)
			c.ok(c.d.MemSetAccess(c.ctx, p, n, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtNone)}), "close")
			c.wantMapped("closed", p, cu.MemAccessProtNone)
		}},
	{"virtual/read-only", "a device that may only read memory reads it",
		virtualDoc + "cuMemSetAccess, CU_MEM_ACCESS_FLAGS_PROT_READ", needVirtual, func(c *trial) {
			n := c.granule()
			p, want := c.virtual(n), c.random(int(n))
			c.up(p, want)
			err := c.d.MemSetAccess(c.ctx, p, n, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtRead)})
			c.want(err, "open for reading", cu.Success, cu.ErrorNotSupported, cu.ErrorInvalidValue)
			if err != nil {
				return
			}
			c.wantMapped("read-only", p, cu.MemAccessProtRead)
			c.same("read", c.down(p, int(n)), want)
		}},
	{"virtual/two-addresses", "memory that is mapped twice has the same bytes at both addresses",
		virtualDoc + "cuMemMap", needVirtual, func(c *trial) {
			n := c.granule()
			h := c.created(n)
			p, q := c.reserve(n), c.reserve(n)
			c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map")
			c.cleanup(func() { c.cleanupError("unmap", c.d.MemUnmap(c.ctx, p, n)) })
			c.mapAt(q, n, h)
			c.open(p, n)
			c.open(q, n)
			was := c.random(int(n))
			c.up(p, was)
			c.same("read by the other address", c.down(q, int(n)), was)
			c.launch(0, "inc", int(n)/4, q, uint32(9), uint32(n/4))
			c.same("written by the other address", c.down(p, int(n)), plus(was, 9))
		}},
	{"virtual/adjacent", "mappings that follow each other are used as one memory",
		virtualDoc + "cuMemMap, cuMemSetAccess", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(3 * n)
			for i := range uintptr(3) {
				c.mapAt(p+cu.DevicePtr(i*n), n, c.created(n))
			}
			c.open(p, 3*n)
			c.uses("three mappings", p, int(3*n))
			was := c.random(int(n))
			c.up(p+cu.DevicePtr(n/2), was)
			c.ok(c.d.MemcpyDtoD(c.ctx, p+cu.DevicePtr(3*n/2), p+cu.DevicePtr(n/2), n), "copy across borders")
			c.same("copied across borders", c.down(p+cu.DevicePtr(3*n/2), int(n)), was)
		}},
	{"virtual/grow", "memory that is mapped behind other memory leaves that as it is, also while a kernel uses it",
		virtualDoc + "cuMemMap", needVirtual | needMapHost, func(c *trial) {
			n := c.granule()
			p := c.reserve(2 * n)
			c.mapAt(p, n, c.created(n))
			c.open(p, n)
			was := c.random(int(n))
			c.up(p, was)
			g, s := c.behind(cu.StreamNonBlocking)
			g.running(s)
			c.launch(s, "inc", int(n)/4, p, uint32(3), uint32(n/4))
			c.mustReturn(g, "create and map", func() error {
				c.mapAt(p+cu.DevicePtr(n), n, c.created(n))
				return nil
			})
			g.open()
			c.sync(s)
			c.open(p+cu.DevicePtr(n), n)
			c.same("the first part", c.down(p, int(n)), plus(was, 3))
			c.uses("both parts", p, int(2*n))
		}},
	{"virtual/map-again", "addresses can be mapped again after cuMemUnmap, and have no access then",
		virtualDoc + "cuMemUnmap", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(n)
			for range 3 {
				h := c.created(n)
				c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map")
				c.ok(c.d.MemRelease(c.ctx, h), "release")
				c.wantMapped("mapped again", p, cu.MemAccessProtNone)
				c.open(p, n)
				c.uses("mapped again", p, int(n))
				c.ok(c.d.MemUnmap(c.ctx, p, n), "unmap")
			}
		}},
	{"virtual/life", "memory lives while a handle or a mapping is left, and is freed then",
		virtualDoc + "cuMemRelease, cuMemUnmap", needVirtual, func(c *trial) {
			n := 64 << 20 / c.granule() * c.granule()
			free := func() uintptr {
				left, _, err := c.d.MemGetInfo(c.ctx)
				c.ok(err, "free memory")
				return left
			}
			p, before := c.reserve(n), free()
			h := c.created(n)
			c.check(free() <= before-n, "%d bytes are free of %d, with %d created", free(), before, n)
			want := c.random(int(c.granule()))
			for range 2 { // the handle alone keeps the memory
				c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map")
				c.open(p, n)
				c.up(p, want)
				c.same("mapped", c.down(p, len(want)), want)
				c.ok(c.d.MemUnmap(c.ctx, p, n), "unmap")
				c.check(free() <= before-n, "unmapped: %d bytes are free of %d", free(), before)
			}
			c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map")
			c.open(p, n)
			c.same("mapped again", c.down(p, len(want)), want)
			c.ok(c.d.MemRelease(c.ctx, h), "release") // the mapping alone keeps the memory
			c.same("released", c.down(p, len(want)), want)
			c.check(free() <= before-n, "released: %d bytes are free of %d", free(), before)
			c.ok(c.d.MemUnmap(c.ctx, p, n), "unmap")
			c.check(free() >= before, "%d bytes are free at the end, want %d", free(), before)
		}},
	{"virtual/retain", "the handle of mapped memory is found by any address in it, and is given back by itself",
		virtualDoc + "cuMemRetainAllocationHandle", needVirtual, func(c *trial) {
			n := 2 * c.granule()
			p, h := c.reserve(n), c.created(n)
			_, err := c.d.MemRetainAllocationHandle(c.ctx, p)
			c.want(err, "of addresses without memory", cu.ErrorInvalidValue)
			c.ok(c.d.MemMap(c.ctx, p, n, 0, h, 0), "map")
			c.open(p, n)
			want := c.random(int(n))
			c.up(p, want)
			got, err := c.d.MemRetainAllocationHandle(c.ctx, p+cu.DevicePtr(n-1))
			c.ok(err, "retain")
			c.check(got == h, "handle %#x, want %#x", got, h)
			c.ok(c.d.MemRelease(c.ctx, h), "release")
			c.ok(c.d.MemUnmap(c.ctx, p, n), "unmap")
			c.mapAt(p, n, got)
			c.open(p, n)
			c.same("kept by the second handle", c.down(p, int(n)), want)
		}},
	{"virtual/properties", "a handle knows what its memory was created with",
		virtualDoc + "cuMemGetAllocationPropertiesFromHandle", needVirtual, func(c *trial) {
			h := c.created(c.granule())
			got, err := c.d.MemGetAllocationPropertiesFromHandle(c.ctx, h)
			c.ok(err, "properties")
			c.check(got.Type == cu.MemAllocationTypePinned && got.Location == location(c.dev) && got.RequestedHandleTypes == 0,
				"properties %+v, want memory of device %d", got, c.dev)
			c.ok(c.d.MemRelease(c.ctx, h), "release")
		}},
	{"virtual/attributes", "the driver knows the device of mapped memory, the range of its addresses, and each mapping",
		pointerDoc + "; cuMemGetAddressRange", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(4 * n)
			for i := range uintptr(2) {
				c.mapAt(p+cu.DevicePtr(i*n), n, c.created(n))
			}
			at := p + cu.DevicePtr(n) + 100
			_, _, err := c.d.MemGetAddressRange(c.ctx, at)
			c.want(err, "the mapping, without access", cu.ErrorNotFound)
			a := c.attributes(at)
			c.check(a.MemoryType == cu.MemoryTypeDevice && a.Device == c.dev && !a.IsManaged && a.Mapped && a.Context == 0, "attributes %+v, want mapped device memory of %d without a context", a, c.dev)
			c.check(a.RangeStart == p && a.RangeSize == 4*n, "range of %d bytes at %#x, want the reservation: %d at %#x", a.RangeSize, a.RangeStart, 4*n, p)
			c.open(p, 2*n)
			c.check(c.attributes(at).DevicePointer == at, "device pointer %#x, want %#x", c.attributes(at).DevicePointer, at)
			base, bytes, err := c.d.MemGetAddressRange(c.ctx, at)
			c.ok(err, "the mapping")
			c.check(base == p+cu.DevicePtr(n) && bytes == n, "%d bytes at %#x, want the second mapping: %d at %#x", bytes, base, n, p+cu.DevicePtr(n))
			hole := p + cu.DevicePtr(2*n)
			if a, err := c.d.PointerGetAttributes(c.ctx, hole); err == nil {
				c.check(a.MemoryType == 0, "attributes %+v of addresses without memory", a)
			}
			_, _, err = c.d.MemGetAddressRange(c.ctx, hole)
			c.want(err, "no mapping", cu.ErrorNotFound)
		}},
	{"virtual/stream-value", "a stream writes a value to mapped memory",
		memOpDoc + " (silent)", needVirtual, func(c *trial) {
			p := c.virtual(c.granule())
			c.up(p, words(7))
			err := c.d.StreamWriteValue32(c.ctx, 0, p, 77, 0)
			c.want(err, "write a value", cu.Success, cu.ErrorInvalidValue)
			if err == nil {
				c.same("written", c.down(p, 4), words(77))
			}
		}},
}
