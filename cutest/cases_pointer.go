package cutest

import (
	"github.com/ferrygpu/ferry/cu"
)

const pointerDoc = "Driver API: Unified Addressing, cuPointerGetAttributes"

func (c *trial) attributes(p cu.DevicePtr) cu.PointerAttributes {
	a, err := c.d.PointerGetAttributes(c.ctx, p)
	c.ok(err, "pointer attributes")
	return a
}

// inRange checks base and size of the allocation that an address belongs to.
func (c *trial) inRange(a cu.PointerAttributes, base cu.DevicePtr, n int) {
	c.check(a.RangeStart == base && a.RangeSize == uintptr(n), "range %#x+%d, want %#x+%d", a.RangeStart, a.RangeSize, base, n)
}

var pointerChecks = []check{
	{"pointer/device-memory", "the driver knows the type, device, address and extent of device memory",
		pointerDoc, needUVA, func(c *trial) {
			p := c.device(3000)
			a := c.attributes(p)
			c.check(a.MemoryType == cu.MemoryTypeDevice, "memory type %d, want device", a.MemoryType)
			c.check(a.DevicePointer == p, "device pointer %#x, want %#x", a.DevicePointer, p)
			c.check(a.HostPointer == nil, "host pointer %p, want none", a.HostPointer)
			c.check(a.Device == c.dev, "device %d, want %d", a.Device, c.dev)
			c.check(!a.IsManaged, "it is reported as managed")
			c.check(a.Mapped, "it is reported as not mapped")
			c.check(a.Context == c.ctx, "context %#x, want %#x", a.Context, c.ctx)
			c.inRange(a, p, 3000)
		}},
	{"pointer/interior", "every address of an allocation has the allocation's attributes",
		pointerDoc, needUVA, func(c *trial) {
			p := c.device(1 << 20)
			base, inside := c.attributes(p), c.attributes(p+12345)
			c.check(inside.DevicePointer == p+12345, "device pointer %#x, want %#x", inside.DevicePointer, p+12345)
			c.inRange(inside, p, 1<<20)
			c.check(inside.BufferID == base.BufferID, "buffer %d at the start, %d inside", base.BufferID, inside.BufferID)
			last := c.attributes(p + 1<<20 - 1)
			c.check(last.BufferID == base.BufferID, "the last byte belongs to buffer %d, want %d", last.BufferID, base.BufferID)
		}},
	{"pointer/page-locked", "the driver knows both addresses of page-locked memory",
		pointerDoc, needUVA | needMapHost, func(c *trial) {
			m := c.mapped(2 * page)
			a := c.attributes(addressOfPointer(m.p))
			c.check(a.MemoryType == cu.MemoryTypeHost, "memory type %d, want host", a.MemoryType)
			c.check(a.HostPointer == m.p, "host pointer %p, want %p", a.HostPointer, m.p)
			c.check(a.DevicePointer == m.dev, "device pointer %#x, want %#x", a.DevicePointer, m.dev)
			c.check(a.Mapped && !a.IsManaged, "mapped %t, managed %t, want true and false", a.Mapped, a.IsManaged)
			c.check(a.Device == c.dev && a.Context == c.ctx, "device %d, context %#x, want %d and %#x", a.Device, a.Context, c.dev, c.ctx)
			c.inRange(a, addressOfPointer(m.p), 2*page)
			in := c.attributes(addressOfPointer(m.p) + 100)
			c.check(in.HostPointer == offsetPointer(m.p, 100), "host pointer inside %p, want %p", in.HostPointer, offsetPointer(m.p, 100))
		}},
	{"pointer/registered", "the driver reports registered memory as host memory",
		pointerDoc, needUVA | needRegister | needMapHost, func(c *trial) {
			b := c.pageable(3 * page)
			c.register(b, cu.MemHostRegisterDeviceMap)
			a := c.attributes(addressOf(b))
			c.check(a.MemoryType == cu.MemoryTypeHost, "memory type %d, want host", a.MemoryType)
			c.check(a.HostPointer == pointerTo(b), "host pointer %p, want %p", a.HostPointer, pointerTo(b))
			c.check(!a.IsManaged, "it is reported as managed")
			c.inRange(a, addressOf(b), 3*page)
			c.ok(c.d.MemHostUnregister(c.ctx, pointerTo(b)), "unregister")
			a = c.attributes(addressOf(b))
			c.check(a.MemoryType == 0, "after unregistering its memory type is %d, want none", a.MemoryType)
		}},
	{"pointer/registered-unaligned", "the extent of an unaligned registration is the registered range, not its pages",
		pointerDoc + " (silent)", needUVA | needRegister, func(c *trial) {
			b := c.pageable(3 * page)
			part := b[100:5000]
			c.register(part, 0)
			a := c.attributes(addressOf(part))
			c.inRange(a, addressOf(part), len(part))
			c.check(c.attributes(addressOf(part)-1).MemoryType == 0, "the byte before is reported as registered")
			c.check(a.MemoryType == cu.MemoryTypeHost, "memory type %d, want host", a.MemoryType)
		}},
	{"pointer/managed", "managed memory has one address, and the driver knows that it is managed",
		pointerDoc + ", CU_POINTER_ATTRIBUTE_IS_MANAGED", needUVA | needManaged, func(c *trial) {
			p, _ := c.managed(2*page, cu.MemAttachGlobal)
			a := c.attributes(p)
			c.check(a.IsManaged, "it is reported as not managed")
			c.check(a.DevicePointer == p && a.HostPointer == hostPointer(p), "device %#x, host %p, want both %#x", a.DevicePointer, a.HostPointer, p)
			c.check(a.MemoryType == cu.MemoryTypeDevice && a.Device == c.dev && a.Mapped, "type %d, device %d, mapped %t, want device memory of device %d, mapped",
				a.MemoryType, a.Device, a.Mapped, c.dev)
			c.inRange(a, p, 2*page)
		}},
	{"pointer/unknown", "unknown addresses have no attributes, and are no error",
		pointerDoc, needUVA, func(c *trial) {
			for name, p := range map[string]cu.DevicePtr{"pageable": addressOf(c.pageable(page)), "nil": 0, "wild": 0xdead_0000} {
				a := c.attributes(p)
				c.check(a.MemoryType == 0 && a.DevicePointer == 0 && a.HostPointer == nil && !a.IsManaged && a.RangeSize == 0,
					"%s address %#x has attributes %+v", name, p, a)
				c.check(a.Device == cu.InvalidDevice, "%s address: device %d, want %d", name, a.Device, cu.InvalidDevice)
			}
		}},
	{"pointer/freed", "freed memory is no longer known",
		pointerDoc, needUVA, func(c *trial) {
			p, err := c.d.MemAlloc(c.ctx, 32<<20)
			c.ok(err, "allocate")
			c.ok(c.d.MemFree(c.ctx, p), "free")
			c.check(c.attributes(p).MemoryType == 0, "freed device memory is still known")
			h, err := c.d.MemHostAlloc(c.ctx, 32<<20, 0)
			c.ok(err, "allocate page-locked memory")
			c.ok(c.d.MemFreeHost(c.ctx, h), "free")
			c.check(c.attributes(addressOfPointer(h)).MemoryType == 0, "freed page-locked memory is still known")
		}},
	{"pointer/buffer-id", "every allocation has a unique id, also at an address that was used before",
		pointerDoc + ", CU_POINTER_ATTRIBUTE_BUFFER_ID", needUVA, func(c *trial) {
			seen := map[uint64]bool{}
			for range 4 {
				p, err := c.d.MemAlloc(c.ctx, 4<<20)
				c.ok(err, "allocate")
				id := c.attributes(p).BufferID
				c.check(!seen[id], "id %d was given twice", id)
				seen[id] = true
				c.ok(c.d.MemFree(c.ctx, p), "free")
			}
			a, b := c.device(64), c.device(64)
			c.check(c.attributes(a).BufferID != c.attributes(b).BufferID, "two allocations have the same id")
		}},
	{"pointer/address-range", "the range of an address is its allocation",
		"Driver API: cuMemGetAddressRange", 0, func(c *trial) {
			const n = 1 << 20
			p := c.device(n)
			for _, offset := range []cu.DevicePtr{0, 1, n / 2, n - 1} {
				base, size, err := c.d.MemGetAddressRange(c.ctx, p+offset)
				c.ok(err, "range")
				c.check(base == p && size == n, "at +%d: %#x+%d, want %#x+%d", offset, base, size, p, n)
			}
			odd := c.device(1000)
			_, size, err := c.d.MemGetAddressRange(c.ctx, odd)
			c.ok(err, "range of an odd size")
			c.check(size == 1000, "size %d, want 1000", size)
		}},
	{"pointer/address-range-misuse", "an address without an allocation has no range",
		"Driver API: cuMemGetAddressRange", 0, func(c *trial) {
			for name, p := range map[string]cu.DevicePtr{"unused address": 0xdead_0000, "pageable memory": addressOf(c.pageable(page))} {
				_, _, err := c.d.MemGetAddressRange(c.ctx, p)
				c.want(err, "range of "+name, cu.ErrorNotFound)
			}
		}},
}
