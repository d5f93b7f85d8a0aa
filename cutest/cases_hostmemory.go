package cutest

import (
	"os"

	"github.com/ferrygpu/ferry/cu"
)

const (
	dmaBufDoc = "Driver API: Virtual Memory Management, cuMemGetHandleForAddressRange"
	dmaBuf    = cu.MemRangeHandleTypeDMABufFD
)

// closedRange asks for a descriptor of a range, and closes it.
func (c *trial) closedRange(p cu.DevicePtr, n uintptr, flags cu.MemRangeFlags) error {
	fd, err := c.d.MemGetHandleForAddressRange(c.ctx, p, n, dmaBuf, flags)
	if err == nil {
		c.check(fd >= 0, "descriptor %d", fd)
		c.ok(os.NewFile(uintptr(fd), "range").Close(), "close a descriptor")
	}
	return err
}

var dmaBufChecks = []check{
	{"dma-buf/descriptor", "device memory has a descriptor for other devices, page by page",
		dmaBufDoc, needDMABuf, func(c *trial) {
			const n = 4 << 20
			p := c.device(n)
			c.ok(c.closedRange(p, n, 0), "all of an allocation")
			c.ok(c.closedRange(p+page, page, 0), "a page within it")
			c.observeError("dma-buf.pcie", c.closedRange(p, n, cu.MemRangeFlagDMABufMappingTypePCIe))
			c.want(c.closedRange(p+1, page, 0), "an address within a page", cu.ErrorInvalidValue)
			c.want(c.closedRange(p, page+1, 0), "a part of a page", cu.ErrorInvalidValue)
			c.want(c.closedRange(p, 0, 0), "no bytes", cu.ErrorInvalidValue)
			c.uses("the memory afterwards", p, n)
		}},
	{"dma-buf/unsupported", "a device without DMA-BUF says so, and other types of handle are refused",
		dmaBufDoc, 0, func(c *trial) {
			p := c.device(64 << 10)
			_, err := c.d.MemGetHandleForAddressRange(c.ctx, p, 64<<10, dmaBuf+1, 0)
			c.want(err, "another type of handle", cu.ErrorNotSupported, cu.ErrorInvalidValue)
			if v, err := c.d.DeviceGetAttribute(cu.DeviceAttributeDMABufSupported, c.dev); err == nil && v == 0 {
				c.want(c.closedRange(p, 64<<10, 0), "a descriptor", cu.ErrorNotSupported)
			}
		}},
}

// hostProperties describes memory of the host's NUMA node near the device.
func (c *trial) hostProperties() *cu.MemAllocationProp {
	return &cu.MemAllocationProp{
		Type: cu.MemAllocationTypePinned, Location: cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: c.node()},
	}
}

var hostNUMAChecks = []check{
	{"virtual/host-numa", "memory that is created on a NUMA node of the host works as other mapped memory does",
		virtualDoc + "cuMemCreate, CU_MEM_LOCATION_TYPE_HOST_NUMA", needVirtual | needHostNUMA, func(c *trial) {
			props := c.hostProperties()
			n, err := c.d.MemGetAllocationGranularity(c.ctx, props, cu.MemAllocGranularityMinimum)
			c.ok(err, "granularity")
			p := c.reserve(n)
			h, err := c.d.MemCreate(c.ctx, n, props, 0)
			c.ok(err, "create")
			got, err := c.d.MemGetAllocationPropertiesFromHandle(c.ctx, h)
			c.ok(err, "properties")
			c.check(got.Location == props.Location, "location %+v, want %+v", got.Location, props.Location)
			c.mapAt(p, n, h)
			c.open(p, n)
			c.uses("memory of the host", p, int(n))
		}},
	{"virtual/host-numa-misuse", "a node that does not exist is refused, and the thread's own node has no name here",
		virtualDoc + "cuMemCreate", needVirtual | needHostNUMA, func(c *trial) {
			create := func(what string, at cu.MemLocation, n uintptr) {
				h, err := c.d.MemCreate(c.ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: at}, 0)
				if err == nil {
					c.ok(c.d.MemRelease(c.ctx, h), "release")
				}
				c.want(err, what, cu.ErrorInvalidValue, cu.ErrorInvalidDevice, cu.ErrorNotSupported)
			}
			n, err := c.d.MemGetAllocationGranularity(c.ctx, c.hostProperties(), cu.MemAllocGranularityMinimum)
			c.ok(err, "granularity")
			create("node 9999", cu.MemLocation{Type: cu.MemLocationTypeHostNUMA, ID: 9999}, n)
			create("the current node", cu.MemLocation{Type: cu.MemLocationTypeHostNUMACurrent}, n)
		}},
}
