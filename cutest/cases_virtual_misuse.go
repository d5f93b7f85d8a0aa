package cutest

import (
	"math"

	"github.com/ferrygpu/ferry/cu"
)

var virtualMisuseChecks = []check{
	{"virtual/create-misuse", "memory has a size that is a multiple of the granularity, and properties that exist",
		virtualDoc + "cuMemCreate", needVirtual, func(c *trial) {
			n := c.granule()
			create := func(n uintptr, p *cu.MemAllocationProp, flags uint64) error {
				h, err := c.d.MemCreate(c.ctx, n, p, flags)
				if err == nil {
					_ = c.d.MemRelease(c.ctx, h)
				}
				return err
			}
			good := c.properties(c.dev, 0)
			c.want(create(0, good, 0), "no bytes", cu.ErrorInvalidValue)
			c.want(create(n+1, good, 0), "a part of a granule", cu.ErrorInvalidValue)
			c.want(create(n, good, 1), "flags 1", cu.ErrorInvalidValue)
			c.want(create(n, nil, 0), "no properties", cu.ErrorInvalidValue)
			c.want(create(n, &cu.MemAllocationProp{Location: location(c.dev)}, 0), "type 0", cu.ErrorInvalidValue)
			c.want(create(n, c.properties(99, 0), 0), "device 99", cu.ErrorInvalidDevice, cu.ErrorInvalidValue)
			c.want(create(1<<50, good, 0), "more than the device has", cu.ErrorOutOfMemory)
		}},
	{"virtual/map-misuse", "memory is mapped at reserved addresses without memory, and as a whole",
		virtualDoc + "cuMemMap", needVirtual, func(c *trial) {
			n := c.granule()
			p, h := c.reserve(4*n), c.created(2*n)
			at := func(off uintptr) cu.DevicePtr { return p + cu.DevicePtr(off) }
			for _, k := range []struct {
				what string
				p    cu.DevicePtr
				n    uintptr
				off  uintptr
				fl   uint64
				is   cu.Result
			}{
				{"no bytes", p, 0, 0, 0, cu.ErrorInvalidValue},
				{"a part of a granule", p, n + page, 0, 0, cu.ErrorNotSupported},
				{"an address within a granule", at(page), 2 * n, 0, 0, cu.ErrorInvalidValue},
				{"a part, at an address within a granule", at(page), n, 0, 0, cu.ErrorNotSupported},
				{"the first part", p, n, 0, 0, cu.ErrorNotSupported},
				{"from an offset", p, n, n, 0, cu.ErrorNotSupported},
				{"all, from an offset", p, 2 * n, n, 0, cu.ErrorNotSupported},
				{"more than the memory", p, 3 * n, 0, 0, cu.ErrorNotSupported},
				{"addresses that are not reserved", c.unusedAddress() &^ cu.DevicePtr(n-1), 2 * n, 0, 0, cu.ErrorInvalidValue},
				{"flags 1", p, 2 * n, 0, 1, cu.ErrorInvalidValue},
			} {
				c.want(c.d.MemMap(c.ctx, k.p, k.n, k.off, h, k.fl), k.what, k.is)
			}
			c.mapAt(at(n), 2*n, h)
			for _, off := range []uintptr{n, 2 * n} {
				other := c.created(n)
				c.want(c.d.MemMap(c.ctx, at(off), n, 0, other, 0), "addresses that have memory", cu.ErrorInvalidValue)
				c.ok(c.d.MemRelease(c.ctx, other), "release")
			}
		}},
	{"virtual/map-past-end", "memory that reaches past the end of the reserved addresses",
		virtualDoc + "cuMemMap (silent)", needVirtual, func(c *trial) {
			n := c.granule()
			p, h := c.reserve(n), c.created(2*n)
			err := c.d.MemMap(c.ctx, p, 2*n, 0, h, 0)
			c.want(err, "map", cu.ErrorInvalidValue, cu.Success)
			if err == nil { // as driver 580 does
				c.ok(c.d.MemUnmap(c.ctx, p, 2*n), "unmap")
			}
			c.ok(c.d.MemRelease(c.ctx, h), "release")
		}},
	{"virtual/unmap-misuse", "a mapping is unmapped whole; addresses without memory are passed over",
		virtualDoc + "cuMemUnmap", needVirtual, func(c *trial) {
			n, wild := c.granule(), c.unusedAddress()
			p, h := c.reserve(4*n), c.created(2*n)
			c.ok(c.d.MemMap(c.ctx, p, 2*n, 0, h, 0), "map")
			c.ok(c.d.MemRelease(c.ctx, h), "release")
			c.open(p, 2*n)
			want := c.random(int(2 * n))
			c.up(p, want)
			c.want(c.d.MemUnmap(c.ctx, p, 0), "unmap nothing", cu.ErrorInvalidValue)
			c.want(c.d.MemUnmap(c.ctx, p, n), "unmap a part", cu.ErrorInvalidValue)
			c.want(c.d.MemUnmap(c.ctx, p+cu.DevicePtr(n), n), "unmap the rest", cu.ErrorInvalidValue)
			c.want(c.d.MemUnmap(c.ctx, p+cu.DevicePtr(n), 2*n), "unmap a part and addresses without memory", cu.ErrorInvalidValue)
			c.want(c.d.MemUnmap(c.ctx, wild&^cu.DevicePtr(n-1), n), "unmap addresses that are not reserved", cu.ErrorInvalidValue)
			c.ok(c.d.MemUnmap(c.ctx, p+cu.DevicePtr(2*n), n), "unmap addresses without memory")
			c.same("after refused calls", c.down(p, int(2*n)), want)
			c.ok(c.d.MemUnmap(c.ctx, p, 4*n), "unmap, with addresses without memory")
			c.ok(c.d.MemUnmap(c.ctx, p, 2*n), "unmap again")
		}},
	{"virtual/unmap-several", "one call unmaps mappings that follow each other",
		virtualDoc + "cuMemUnmap (silent)", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(2 * n)
			for i := range uintptr(2) {
				h := c.created(n)
				c.ok(c.d.MemMap(c.ctx, p+cu.DevicePtr(i*n), n, 0, h, 0), "map")
				c.ok(c.d.MemRelease(c.ctx, h), "release")
			}
			err := c.d.MemUnmap(c.ctx, p, 2*n)
			c.want(err, "unmap two mappings", cu.Success, cu.ErrorInvalidValue)
			for i := range uintptr(2) {
				if err != nil {
					c.ok(c.d.MemUnmap(c.ctx, p+cu.DevicePtr(i*n), n), "unmap one")
				}
			}
		}},
	{"virtual/free-mapped", "addresses with memory are not freed",
		virtualDoc + "cuMemAddressFree (silent)", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.virtual(n)
			c.want(c.d.MemAddressFree(c.ctx, p, n), "free addresses with memory", cu.ErrorInvalidValue)
			c.uses("after a refused call", p, int(n))
		}},
	{"virtual/free-by-other-calls", "mapped memory is not freed by the calls that free other memory",
		virtualDoc + "cuMemUnmap; cuMemFree", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.virtual(n)
			c.want(c.d.MemFree(c.ctx, p), "MemFree", cu.ErrorInvalidValue)
			c.want(c.d.MemFreeAsync(c.ctx, p, 0), "MemFreeAsync", cu.ErrorInvalidValue)
			c.uses("after refused calls", p, int(n))
		}},
	{"virtual/access-misuse", "access needs memory, a list and a device that exists, and is checked as a whole",
		virtualDoc + "cuMemSetAccess, cuMemGetAccess", needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(2 * n)
			c.mapAt(p, n, c.created(n))
			set := func(p cu.DevicePtr, n uintptr, list ...cu.MemAccessDesc) error {
				return c.d.MemSetAccess(c.ctx, p, n, list)
			}
			good := access(c.dev, cu.MemAccessProtReadWrite)
			c.want(set(p, n), "no list", cu.ErrorInvalidValue)
			c.want(set(p, n, good, access(99, cu.MemAccessProtReadWrite)), "device 99", cu.ErrorInvalidDevice, cu.ErrorInvalidValue)
			c.want(set(p, n, access(c.dev, 2)), "access 2", cu.ErrorInvalidValue, cu.ErrorNotSupported)
			c.want(set(p, 2*n, good), "addresses without memory", cu.ErrorInvalidValue)
			c.want(set(p+cu.DevicePtr(n), n, good), "no memory at all", cu.ErrorInvalidValue)
			c.wantMapped("after refused calls", p, cu.MemAccessProtNone)
			at := location(c.dev)
			_, err := c.d.MemGetAccess(c.ctx, &at, p+cu.DevicePtr(n))
			c.want(err, "access to addresses without memory", cu.ErrorInvalidValue)
			_, err = c.d.MemGetAccess(c.ctx, nil, p)
			c.want(err, "access at no location", cu.ErrorInvalidValue)
		}},
	{"virtual/no-handle", "a handle that is zero, unknown or released is refused",
		virtualDoc + "cuMemRelease, cuMemMap", needVirtual | needEmulated, func(c *trial) {
			for _, h := range []cu.MemHandle{0, math.MaxUint64} {
				c.want(c.d.MemRelease(c.ctx, h), "release", cu.ErrorInvalidValue)
				c.want(c.d.MemMap(c.ctx, c.reserve(c.granule()), c.granule(), 0, h, 0), "map", cu.ErrorInvalidValue)
			}
			h := c.created(c.granule())
			c.ok(c.d.MemRelease(c.ctx, h), "release")
			c.want(c.d.MemRelease(c.ctx, h), "release again", cu.ErrorInvalidValue)
		}},
	{"virtual/many-addresses", "more addresses can be reserved than the device has memory",
		virtualDoc + "cuMemAddressReserve", needVirtual, func(c *trial) {
			_, total, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "total memory")
			n := total / c.granule() * c.granule() * 4
			p := c.reserve(n)
			at := p + cu.DevicePtr(n-c.granule())
			c.mapAt(at, c.granule(), c.created(c.granule()))
			c.open(at, c.granule())
			c.uses("at the end", at, int(c.granule()))
		}},
}

// virtualFaultChecks have a driver or a process for each case.
var virtualFaultChecks = []check{
	{"fault/reserved-addresses", "a kernel that uses reserved addresses without memory ends with an illegal address",
		virtualDoc + "cuMemMap; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation | needVirtual, func(c *trial) {
			c.launchFaulty(0, c.reserve(c.granule()))
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/closed-memory", "a kernel that uses mapped memory without access ends with an illegal address",
		virtualDoc + "cuMemMap, cuMemSetAccess; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation | needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(n)
			c.mapAt(p, n, c.created(n))
			c.launchFaulty(0, p)
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/unmapped-memory", "a kernel that uses memory after cuMemUnmap ends with an illegal address",
		virtualDoc + "cuMemUnmap; " + faultDoc + "CUDA_ERROR_ILLEGAL_ADDRESS", needIsolation | needVirtual, func(c *trial) {
			n := c.granule()
			p, h := c.reserve(2*n), c.created(n)
			c.mapAt(p, n, c.created(n))
			c.ok(c.d.MemMap(c.ctx, p+cu.DevicePtr(n), n, 0, h, 0), "map")
			c.open(p, 2*n)
			c.uses("both", p, int(2*n))
			c.ok(c.d.MemUnmap(c.ctx, p+cu.DevicePtr(n), n), "unmap")
			c.uses("the one that is left", p, int(n))
			c.launchFaulty(0, p+cu.DevicePtr(n))
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/unmapped-in-flight", "cuMemUnmap does not wait for a kernel that uses the memory",
		virtualDoc + "cuMemUnmap (silent)", needIsolation | needVirtual, func(c *trial) {
			p := c.virtual(c.granule())
			c.launch(0, "delay", 1, uint64(2e8), p)
			c.ok(c.d.MemUnmap(c.ctx, p, c.granule()), "unmap")
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress, cu.Success)
		}},
	{"fault/read-only-memory", "a kernel that writes memory that its device may only read ends with an illegal address",
		virtualDoc + "cuMemSetAccess, CU_MEM_ACCESS_FLAGS_PROT_READ", needIsolation | needVirtual, func(c *trial) {
			n := c.granule()
			p := c.virtual(n)
			if err := c.d.MemSetAccess(c.ctx, p, n, []cu.MemAccessDesc{access(c.dev, cu.MemAccessProtRead)}); err != nil {
				c.skip("the driver has no read-only access: %v", err)
			}
			c.launchFaulty(0, p)
			c.want(c.waitForFault(0), "wait", cu.ErrorIllegalAddress)
		}},
	{"fault/copy-of-closed-memory", "a copy that uses mapped memory without access, or addresses without memory, fails",
		virtualDoc + "cuMemSetAccess (silent)", needIsolation | needVirtual, func(c *trial) {
			n := c.granule()
			p := c.reserve(2 * n)
			c.mapAt(p, n, c.created(n))
			b := c.random(64)
			c.want(c.d.MemcpyHtoD(c.ctx, p, pointerTo(b), 64), "copy to closed memory", cu.ErrorInvalidValue, cu.ErrorIllegalAddress)
			c.want(c.d.MemcpyHtoD(c.ctx, p+cu.DevicePtr(n), pointerTo(b), 64), "copy to addresses without memory", cu.ErrorInvalidValue, cu.ErrorIllegalAddress)
		}},
}

const needFarVirtual = needTwoDevices | needPeer | needVirtual

// farVirtualChecks are of two devices.
var farVirtualChecks = []check{
	{"devices/virtual-access", "another device uses mapped memory after cuMemSetAccess; peer access between contexts does not matter",
		virtualDoc + "cuMemSetAccess", needFarVirtual, func(c *trial) {
			dev, _ := c.second()
			n := c.granule()
			p := c.reserve(n)
			c.mapAt(p, n, c.createdOn(dev, n, 0))
			c.wantMapped("at first", p, cu.MemAccessProtNone)
			c.ok(c.d.MemSetAccess(c.ctx, p, n, []cu.MemAccessDesc{access(dev, cu.MemAccessProtReadWrite)}), "open to its own device")
			c.wantMapped("open to the other device", p, cu.MemAccessProtNone)
			c.open(p, n)
			c.uses("memory of the other device", p, int(n))
		}},
}
