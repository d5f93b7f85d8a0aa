package capability

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Set describes what a device can do. Probe reads it from the attributes.
type Set struct {
	Unified, Mapping, Register, RegisterReadOnly, RegisteredAddress bool
	Managed, ConcurrentManaged, Pools                               bool
	BatchCopies                                                     bool // the driver has cuMemcpyBatchAsync

	Processors        int
	Threads           int
	Block, Grid       [3]int
	Shared, SharedMax int // bytes of shared memory per block: the default, and the most on request
	Pitch             int // the largest pitch of a copy in bytes; 0 if not known
}

// HostPointers reports whether kernels use registered memory at its host addresses.
func (c *Set) HostPointers() bool { return c.Unified && c.RegisteredAddress }

// Probe reads the capabilities of a device.
func Probe(d cu.Driver, device cu.Device) (c Set, failed error) {
	read := func(a cu.DeviceAttribute, unknown int) int {
		if failed != nil {
			return unknown
		}
		v, err := d.DeviceGetAttribute(a, device)
		switch {
		case err == nil:
			return int(v)
		case errors.Is(err, cu.ErrorInvalidValue): // the driver is older than the attribute
			return unknown
		}
		failed = fmt.Errorf("%v: %w", a, err)
		return unknown
	}
	has := func(a cu.DeviceAttribute, unknown int) bool { return read(a, unknown) != 0 }
	c.Unified = has(cu.DeviceAttributeUnifiedAddressing, 0)
	c.Mapping = has(cu.DeviceAttributeCanMapHostMemory, 0)
	c.Register = has(cu.DeviceAttributeHostRegisterSupported, 1)
	c.RegisterReadOnly = has(cu.DeviceAttributeReadOnlyHostRegisterSupported, 0)
	c.RegisteredAddress = has(cu.DeviceAttributeCanUseHostPointerForRegisteredMem, 0)
	c.Managed = has(cu.DeviceAttributeManagedMemory, 0)
	c.ConcurrentManaged = has(cu.DeviceAttributeConcurrentManagedAccess, 0)
	c.Pools = has(cu.DeviceAttributeMemoryPoolsSupported, 0)
	if version, err := d.DriverGetVersion(); err == nil {
		c.BatchCopies = c.Unified && version >= 12080
	}
	c.Processors = read(cu.DeviceAttributeMultiprocessorCount, 0)
	c.Threads = read(cu.DeviceAttributeMaxThreadsPerBlock, 0)
	c.Block = [3]int{read(cu.DeviceAttributeMaxBlockDimX, 0), read(cu.DeviceAttributeMaxBlockDimY, 0), read(cu.DeviceAttributeMaxBlockDimZ, 0)}
	c.Grid = [3]int{read(cu.DeviceAttributeMaxGridDimX, 0), read(cu.DeviceAttributeMaxGridDimY, 0), read(cu.DeviceAttributeMaxGridDimZ, 0)}
	c.Shared = read(cu.DeviceAttributeMaxSharedMemoryPerBlock, 0)
	c.Pitch = read(cu.DeviceAttributeMaxPitch, 0)
	c.SharedMax = max(c.Shared, read(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin, 0))
	return c, failed
}
