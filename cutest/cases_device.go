package cutest

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

var primaryChecks = []check{
	{"context/primary-inactive-until-retained", "a primary context exists from its first retain to its last release",
		"Driver API: Primary Context Management, cuDevicePrimaryCtxGetState", needNoContext, func(c *trial) {
			_, active, err := c.d.DevicePrimaryCtxGetState(c.dev)
			c.ok(err, "state before")
			if active != 0 {
				c.skip("the primary context is held elsewhere in this process")
			}
			ctx, err := c.d.DevicePrimaryCtxRetain(c.dev)
			c.ok(err, "retain")
			again, err := c.d.DevicePrimaryCtxRetain(c.dev)
			c.ok(err, "retain again")
			c.check(ctx == again, "two retains gave the contexts %#x and %#x, want one", ctx, again)
			c.primaryActive(1)
			c.ok(c.d.DevicePrimaryCtxRelease(c.dev), "release")
			c.primaryActive(1)
			c.ok(c.d.DevicePrimaryCtxRelease(c.dev), "release again")
			c.primaryActive(0)
		}},
	{"context/primary-release-without-retain", "a release without a retain is an invalid context",
		"Driver API: cuDevicePrimaryCtxRelease", needNoContext, func(c *trial) {
			if _, active, _ := c.d.DevicePrimaryCtxGetState(c.dev); active != 0 {
				c.skip("the primary context is held elsewhere in this process")
			}
			c.want(c.d.DevicePrimaryCtxRelease(c.dev), "release", cu.ErrorInvalidContext)
		}},
	{"context/primary-flags", "a primary context is created with the flags that were set for it",
		"Driver API: cuDevicePrimaryCtxSetFlags", needNoContext, func(c *trial) {
			before, _, err := c.d.DevicePrimaryCtxGetState(c.dev)
			c.ok(err, "state")
			c.check(before == 0, "flags %v before they are set, want 0", before)
			c.cleanup(func() { c.cleanupError("set the flags back", c.d.DevicePrimaryCtxSetFlags(c.dev, before)) })
			c.ok(c.d.DevicePrimaryCtxSetFlags(c.dev, cu.CtxSchedBlockingSync), "set flags")
			flags, _, err := c.d.DevicePrimaryCtxGetState(c.dev)
			c.ok(err, "state after")
			c.check(flags == cu.CtxSchedBlockingSync, "got flags %v, want blocking sync (4)", flags)
			ctx, err := c.d.DevicePrimaryCtxRetain(c.dev)
			c.ok(err, "retain")
			c.cleanup(func() { c.cleanupError("release", c.d.DevicePrimaryCtxRelease(c.dev)) })
			flags, err = c.d.CtxGetFlags(ctx)
			c.ok(err, "flags of the context")
			c.check(flags&cu.CtxSchedMask == cu.CtxSchedBlockingSync, "the context has flags %v, want blocking sync (4)", flags)
		}},
	{"context/primary-flags-invalid", "unknown flags are refused; the flag for mapping is refused if mapping is always on",
		"Driver API: cuDevicePrimaryCtxSetFlags", needNoContext, func(c *trial) {
			c.want(c.d.DevicePrimaryCtxSetFlags(c.dev, 0x8000_0000), "unknown flag", cu.ErrorInvalidValue)
			c.want(c.d.DevicePrimaryCtxSetFlags(c.dev, cu.CtxSchedSpin|cu.CtxSchedYield), "spin and yield", cu.ErrorInvalidValue)
			if c.attr(cu.DeviceAttributeUnifiedAddressing) == 1 {
				c.want(c.d.DevicePrimaryCtxSetFlags(c.dev, cu.CtxMapHost), "mapping, which is always on", cu.ErrorInvalidValue)
			}
		}},
	{"context/primary-reset", "a reset destroys the primary context even if it is retained; the next retain creates a new context with the same handle",
		"Driver API: cuDevicePrimaryCtxReset", needNoContext, func(c *trial) {
			ctx, err := c.d.DevicePrimaryCtxRetain(c.dev)
			c.ok(err, "retain")
			p, err := c.d.MemAlloc(ctx, 1<<20)
			c.ok(err, "allocate")
			c.ok(c.d.DevicePrimaryCtxReset(c.dev), "reset")
			c.primaryActive(0)
			_, err = c.d.MemAlloc(ctx, 16)
			c.want(err, "allocation in the reset context", cu.ErrorContextIsDestroyed)
			c.ok(c.d.DevicePrimaryCtxRelease(c.dev), "release after the reset")
			fresh, err := c.d.DevicePrimaryCtxRetain(c.dev)
			c.ok(err, "retain after the reset")
			c.cleanup(func() { c.cleanupError("release", c.d.DevicePrimaryCtxRelease(c.dev)) })
			c.check(fresh == ctx, "the context was %#x and is %#x", ctx, fresh)
			a, err := c.d.PointerGetAttributes(fresh, p)
			c.ok(err, "attributes of memory that the reset freed")
			c.check(a.MemoryType == 0, "memory of the reset context is still known: %+v", a)
		}},
}

func (c *trial) primaryActive(want int32) {
	_, active, err := c.d.DevicePrimaryCtxGetState(c.dev)
	c.ok(err, "state of the primary context")
	c.check(active == want, "the active state of the primary context is %d, want %d", active, want)
}

var deviceChecks = []check{
	{"device/init-flags", "initialization can be repeated and takes no flags",
		"Driver API: Initialization, cuInit", needNoContext, func(c *trial) {
			c.ok(c.d.Init(0), "second Init")
			c.want(c.d.Init(1), "Init with flags", cu.ErrorInvalidValue)
		}},
	{"device/driver-version", "the driver's version is 1000*major + 10*minor",
		"Driver API: Version Management, cuDriverGetVersion", needNoContext, func(c *trial) {
			v, err := c.d.DriverGetVersion()
			c.ok(err, "version")
			c.observe("driver.version", v)
			c.check(v >= 3000 && v%10 == 0, "version %d is not a CUDA version", v)
		}},
	{"device/ordinals", "devices are numbered from 0; any other number is an invalid device",
		"Programming Guide: Multi-Device System, Device Enumeration; Driver API: cuDeviceGet", needNoContext, func(c *trial) {
			n := int32(len(c.suite.devices))
			for i := range n {
				_, err := c.d.DeviceGet(i)
				c.ok(err, "device")
			}
			for _, bad := range []int32{n, -1, 1 << 30} {
				_, err := c.d.DeviceGet(bad)
				c.want(err, fmt.Sprintf("device %d of %d", bad, n), cu.ErrorInvalidDevice)
			}
		}},
	{"device/invalid-device", "calls for a device that does not exist are refused",
		"Driver API: Device Management", needNoContext, func(c *trial) {
			bad := cu.Device(len(c.suite.devices) + 7)
			_, err := c.d.DeviceGetName(bad)
			c.want(err, "name", cu.ErrorInvalidDevice)
			_, err = c.d.DeviceTotalMem(bad)
			c.want(err, "total memory", cu.ErrorInvalidDevice)
			_, err = c.d.DeviceGetAttribute(cu.DeviceAttributeWarpSize, bad)
			c.want(err, "attribute", cu.ErrorInvalidDevice)
			_, err = c.d.DeviceGetPCIBusId(bad)
			c.want(err, "PCI bus id", cu.ErrorInvalidDevice)
			_, err = c.d.DevicePrimaryCtxRetain(bad)
			c.want(err, "primary context", cu.ErrorInvalidDevice)
			_, err = c.d.CtxCreate(0, bad)
			c.want(err, "new context", cu.ErrorInvalidDevice)
			_, err = c.d.DeviceCanAccessPeer(c.dev, bad)
			c.want(err, "peer", cu.ErrorInvalidDevice)
		}},
	{"device/invalid-attribute", "an unknown attribute is an invalid value",
		"Driver API: cuDeviceGetAttribute", needNoContext, func(c *trial) {
			for _, a := range []cu.DeviceAttribute{0, -5, 1 << 20} {
				_, err := c.d.DeviceGetAttribute(a, c.dev)
				c.want(err, fmt.Sprintf("attribute %d", a), cu.ErrorInvalidValue)
			}
		}},
	{"device/attributes-answer", "every attribute has a value, unless it is newer than the driver; the attributes of CUDA 4 have one, except some of textures",
		"Driver API: cuDeviceGetAttribute", needNoContext, func(c *trial) {
			unknown := 0
			for _, a := range cu.DeviceAttributes() {
				if _, err := c.d.DeviceGetAttribute(a, c.dev); err != nil {
					old := a <= cu.DeviceAttributeUnifiedAddressing && !strings.Contains(a.String(), "TEXTURE")
					c.check(!old, "%v has no value: %v", a, err)
					c.check(isCode(err, cu.ErrorInvalidValue) || isCode(err, cu.ErrorNotSupported), "%v: %v", a, err)
					unknown++
				}
			}
			c.observe("attributes.unknown", unknown)
		}},
	{"device/limits-of-the-architecture", "warps, blocks and grids have the sizes of the compute capability",
		"Programming Guide: Technical Specifications per Compute Capability", needNoContext, func(c *trial) {
			major := c.attr(cu.DeviceAttributeComputeCapabilityMajor)
			want := func(a cu.DeviceAttribute, v int32) {
				c.check(c.attr(a) == v, "%v is %d, want %d on compute capability %d", a, c.attr(a), v, major)
			}
			want(cu.DeviceAttributeWarpSize, 32)
			if major < 2 {
				c.skip("the table has no compute capability %d", major)
			}
			want(cu.DeviceAttributeMaxThreadsPerBlock, 1024)
			want(cu.DeviceAttributeMaxBlockDimX, 1024)
			want(cu.DeviceAttributeMaxBlockDimY, 1024)
			want(cu.DeviceAttributeMaxBlockDimZ, 64)
			want(cu.DeviceAttributeMaxGridDimY, 65535)
			want(cu.DeviceAttributeMaxGridDimZ, 65535)
			want(cu.DeviceAttributeTotalConstantMemory, 64<<10)
			want(cu.DeviceAttributeMaxSharedMemoryPerBlock, 48<<10)
			if major >= 3 {
				want(cu.DeviceAttributeMaxGridDimX, 1<<31-1)
			} else {
				want(cu.DeviceAttributeMaxGridDimX, 65535)
			}
		}},
	{"device/overlap-agrees-with-engines", "a device overlaps copies and kernels if and only if it has a copy engine",
		"Programming Guide: Overlap of Data Transfer and Kernel Execution", needNoContext, func(c *trial) {
			engines, overlap := c.attr(cu.DeviceAttributeAsyncEngineCount), c.attr(cu.DeviceAttributeGPUOverlap)
			c.check((engines > 0) == (overlap == 1), "%d copy engines, but overlap is %d", engines, overlap)
		}},
	{"device/name-and-bus", "a device has a name, and a bus id that agrees with its attributes",
		"Driver API: cuDeviceGetName, cuDeviceGetPCIBusId", needNoContext, func(c *trial) {
			name, err := c.d.DeviceGetName(c.dev)
			c.ok(err, "name")
			c.check(name != "", "the device has no name")
			c.observe("device.name", name)
			id, err := c.d.DeviceGetPCIBusId(c.dev)
			c.ok(err, "bus id")
			var domain, bus, slot, function int32
			_, err = fmt.Sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function)
			c.ok(err, "parse bus id "+id)
			c.check(domain == c.attr(cu.DeviceAttributePCIDomainID) && bus == c.attr(cu.DeviceAttributePCIBusID) &&
				slot == c.attr(cu.DeviceAttributePCIDeviceID), "bus id %s does not match the attributes", id)
		}},
	{"device/uuid", "a device has 16 bytes that identify it: they are always the same, and differ between devices",
		"Driver API: cuDeviceGetUuid_v2", needNoContext, func(c *trial) {
			owner := map[[16]byte]cu.Device{}
			for _, dev := range c.suite.devices {
				uuid, err := c.d.DeviceGetUuid(dev)
				if isCode(err, cu.ErrorNotSupported) {
					c.skip("the driver is older than the call: %v", err)
				}
				c.ok(err, "UUID")
				if first, ok := owner[uuid]; ok {
					c.fail("devices %d and %d have the same UUID %x", first, dev, uuid)
				}
				owner[uuid] = dev
				again, err := c.d.DeviceGetUuid(dev)
				c.ok(err, "UUID again")
				c.check(again == uuid, "device %d: UUID %x became %x", dev, uuid, again)
			}
			_, err := c.d.DeviceGetUuid(cu.Device(len(c.suite.devices)))
			c.want(err, "UUID of a device that does not exist", cu.ErrorInvalidDevice)
		}},
	{"device/total-memory", "free memory is at most total memory, and that is at most the device's",
		"Driver API: cuDeviceTotalMem, cuMemGetInfo", 0, func(c *trial) {
			all, err := c.d.DeviceTotalMem(c.dev)
			c.ok(err, "total memory of the device")
			free, total, err := c.d.MemGetInfo(c.ctx)
			c.ok(err, "memory info")
			c.observe("memory.total-equals-device", total == all)
			c.check(free > 0 && free <= total && total <= all, "free %d, total %d, device %d", free, total, all)
		}},
	{"device/no-peer-of-itself", "a device is not its own peer",
		"Driver API: cuDeviceCanAccessPeer", needNoContext, func(c *trial) {
			can, err := c.d.DeviceCanAccessPeer(c.dev, c.dev)
			c.want(err, "peer of itself", cu.Success)
			c.check(can == 0, "got %d, want 0", can)
		}},
	{"device/capabilities-agree", "concurrent managed access implies managed memory; managed memory implies unified addressing",
		"Programming Guide: Unified Memory, Device Attributes; Unified Virtual Address Space", needNoContext, func(c *trial) {
			m, cm := c.attr(cu.DeviceAttributeManagedMemory), c.attr(cu.DeviceAttributeConcurrentManagedAccess)
			uva := c.attr(cu.DeviceAttributeUnifiedAddressing)
			c.check(cm <= m, "concurrentManagedAccess %d without managedMemory", cm)
			c.check(m <= uva, "managedMemory %d without unifiedAddressing", m)
			for _, a := range []cu.DeviceAttribute{
				cu.DeviceAttributeReadOnlyHostRegisterSupported, cu.DeviceAttributePageableMemoryAccess,
				cu.DeviceAttributeHostNativeAtomicSupported, cu.DeviceAttributeAsyncEngineCount,
				cu.DeviceAttributeCanUseHostPointerForRegisteredMem, cu.DeviceAttributeConcurrentManagedAccess,
				cu.DeviceAttributeMemoryPoolsSupported, cu.DeviceAttributeHostRegisterSupported,
				cu.DeviceAttributeDirectManagedMemAccessFromHost,
			} {
				c.observe("attribute."+a.String(), c.attr(a))
			}
		}},
}
