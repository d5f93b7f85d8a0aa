package cutest

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

const poolPlacesDoc = "Driver API: cuMemGetDefaultMemPool, cuMemGetMemPool, cuMemSetMemPool, cuMemPoolCreate"

// poolPlace is a place and a kind of memory that pools can be of.
type poolPlace struct {
	name string
	at   cu.MemLocation
	kind uint32
	attr cu.DeviceAttribute // which reports that the device has such pools
}

// hostPoolPlaces are the places besides the device.
func (c *trial) hostPoolPlaces() []poolPlace {
	return []poolPlace{
		{"host", cu.MemLocation{Type: cu.MemLocationTypeHost, ID: 5}, cu.MemAllocationTypePinned, cu.DeviceAttributeHostMemoryPoolsSupported}, // the ID is ignored
		{"host node", cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: c.node()}, cu.MemAllocationTypePinned, cu.DeviceAttributeHostNUMAMemoryPoolsSupported},
	}
}

// wrongPoolPlaces are no places, or do not fit the kind, with what the calls return for them.
func (c *trial) wrongPoolPlaces() []poolPlace {
	return []poolPlace{
		{"no such device", cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: 99}, cu.MemAllocationTypePinned, 0},
		{"no such node", cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: 99}, cu.MemAllocationTypePinned, 0},
		{"pinned memory nowhere", cu.MemLocation{Type: cu.MemLocationTypeNone}, cu.MemAllocationTypePinned, 0},
		{"no kind", cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(c.dev)}, 0, 0},
		{"unknown kind", cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(c.dev)}, 7, 0},
	}
}

var poolPlacesChecks = []check{
	{"pool/default-by-place", "the default pool of a device's pinned memory is the device's default pool, and each pool is of one place and kind",
		poolPlacesDoc, needPools, func(c *trial) {
			at := cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(c.dev)}
			p, err := c.d.MemGetDefaultMemPool(&at, cu.MemAllocationTypePinned)
			c.ok(err, "default pool of the device")
			def, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			c.check(p == def, "the place has pool %#x, the device %#x", p, def)
			current, err := c.d.MemGetMemPool(&at, cu.MemAllocationTypePinned)
			c.ok(err, "current pool of the device")
			c.observe("current is default", current == def) // an H100 returned another handle
			s, out := c.stream(cu.StreamNonBlocking), c.pinned(page, 0)
			m := c.fromPool(current, page, s)
			c.ok(c.d.MemsetD8Async(c.ctx, m, 0x5a, page, s), "fill")
			c.ok(c.d.MemcpyDtoHAsync(c.ctx, out.p, m, page, s), "copy")
			c.freeAsync(m, s)
			c.sync(s)
			c.same("memory of the current pool", out.b, repeated(0x5a5a5a5a, page/4))
		}},
	{"pool/set-by-place", "cuMemSetMemPool for pinned memory of a device is cuDeviceSetMemPool, and takes a pool of that place and kind alone",
		poolPlacesDoc, needPools, func(c *trial) {
			at := cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(c.dev)}
			def, err := c.d.DeviceGetDefaultMemPool(c.dev)
			c.ok(err, "default pool")
			p := c.pool()
			c.ok(c.d.MemSetMemPool(&at, cu.MemAllocationTypePinned, p), "set")
			c.cleanup(func() { c.cleanupError("set the pool back", c.d.DeviceSetMemPool(c.dev, def)) })
			got, err := c.d.MemGetMemPool(&at, cu.MemAllocationTypePinned)
			c.ok(err, "current pool of the place")
			c.check(got == p, "the place has pool %#x, want %#x", got, p)
			got, err = c.d.DeviceGetMemPool(c.dev)
			c.ok(err, "current pool of the device")
			c.check(got == p, "the device has pool %#x, want %#x", got, p)
			c.want(c.d.MemSetMemPool(&at, cu.MemAllocationTypeManaged, p), "set as managed memory", cu.ErrorInvalidValue, cu.ErrorNotSupported)
			c.want(c.d.MemSetMemPool(&cu.MemLocation{Type: cu.MemLocationTypeHost}, cu.MemAllocationTypePinned, p), "set for the host", cu.ErrorInvalidValue, cu.ErrorNotSupported)
		}},
	{"pool/place-misuse", "a place that does not exist, or does not fit the kind of memory, has no pool",
		poolPlacesDoc, needPools, func(c *trial) {
			for _, x := range c.wrongPoolPlaces() {
				_, err := c.d.MemGetDefaultMemPool(&x.at, x.kind)
				c.skipMissing(err)
				c.want(err, "default pool: "+x.name, cu.ErrorInvalidValue)
				_, err = c.d.MemGetMemPool(&x.at, x.kind)
				c.want(err, "current pool: "+x.name, cu.ErrorInvalidValue)
				_, err = c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: x.kind, LocationType: x.at.Type, LocationID: x.at.ID})
				c.want(err, "create a pool: "+x.name, cu.ErrorInvalidValue)
			}
			for _, at := range []*cu.MemLocation{{Type: cu.MemLocationTypeHostNUMACurrent}, {Type: 9}} {
				_, err := c.d.MemGetDefaultMemPool(at, cu.MemAllocationTypePinned)
				c.want(err, fmt.Sprintf("location type %d", at.Type), cu.ErrorNotSupported)
				_, err = c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: cu.MemAllocationTypePinned, LocationType: at.Type})
				c.want(err, fmt.Sprintf("create at location type %d", at.Type), cu.ErrorInvalidValue)
			}
			_, err := c.d.MemGetDefaultMemPool(nil, cu.MemAllocationTypePinned)
			c.want(err, "no location", cu.ErrorInvalidValue)
			c.want(c.d.MemSetMemPool(nil, cu.MemAllocationTypePinned, 0), "set without a location", cu.ErrorInvalidValue)
		}},
	{"pool/on-the-host", "where its attribute says so, pools can be of page-locked memory: the host uses it, and the device once it has access",
		poolPlacesDoc + "; CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED", needPools | needMapHost, func(c *trial) {
			for _, x := range c.hostPoolPlaces() {
				p, err := c.d.MemPoolCreate(&cu.MemPoolProps{AllocType: x.kind, LocationType: x.at.Type, LocationID: x.at.ID})
				if c.attr(x.attr) == 0 {
					c.want(err, "create a pool on the "+x.name, cu.ErrorNotSupported, cu.ErrorInvalidValue)
					continue
				}
				c.ok(err, "create a pool on the "+x.name)
				s := c.stream(cu.StreamNonBlocking)
				m := c.fromPool(p, page, s)
				c.sync(s)
				at, err := c.d.PointerGetAttributes(c.ctx, m)
				c.ok(err, "attributes")
				c.check(at.MemoryType == cu.MemoryTypeHost, "%s: memory type %d, want the host's", x.name, at.MemoryType)
				c.want(c.d.MemsetD8Async(c.ctx, m, 1, page, s), "fill without access", cu.ErrorInvalidValue)
				open := cu.MemAccessDesc{Location: cu.MemLocation{Type: cu.MemLocationTypeDevice, ID: int32(c.dev)}, Flags: cu.MemAccessProtReadWrite}
				c.ok(c.d.MemPoolSetAccess(p, []cu.MemAccessDesc{open}), "give the device access")
				out := c.mapped(page)
				c.ok(c.d.MemsetD8Async(c.ctx, m, 0x77, page, s), "fill")
				c.ok(c.d.MemcpyAsync(c.ctx, out.dev, m, page, s), "copy")
				c.freeAsync(m, s)
				c.sync(s)
				c.same("memory of a pool on the "+x.name, out.b, repeated(0x77777777, page/4))
				c.ok(c.d.MemPoolDestroy(p), "destroy the pool")
			}
		}},
}
