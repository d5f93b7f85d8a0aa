package trace

import "github.com/ferrygpu/ferry/cu"

// Mapped memory is memory of the device from cuMemMap to cuMemUnmap.

func (c *call) afterMemMap(ctx cu.Context, dptr cu.DevicePtr, bytes, offset uintptr, handle cu.MemHandle, flags uint64) {
	c.owns(uint64(dptr), uint64(bytes), device)
}

func (c *call) afterMemUnmap(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr) {
	c.touches(uint64(dptr), 0)
	c.d.memory.removeAll(uint64(dptr), uint64(bytes))
}

// afterIpcOpenMemHandle asks the driver how large the memory is, which no argument says.
func (c *call) afterIpcOpenMemHandle(ctx cu.Context, handle cu.IpcMemHandle, flags cu.IpcMemFlags, dptr cu.DevicePtr) {
	c.learns(ctx, dptr)
}

// afterIpcCloseMemHandle keeps the memory if it was opened more than once.
func (c *call) afterIpcCloseMemHandle(ctx cu.Context, dptr cu.DevicePtr) {
	if about, err := c.d.inner.PointerGetAttributes(ctx, dptr); err == nil && about.MemoryType == 0 {
		c.frees(uint64(dptr))
	}
}

// learns notes memory whose size only the driver knows.
func (c *call) learns(ctx cu.Context, dptr cu.DevicePtr) {
	if base, bytes, err := c.d.inner.MemGetAddressRange(ctx, dptr); err == nil {
		c.owns(uint64(base), uint64(bytes), device)
	}
}
