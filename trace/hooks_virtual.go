package trace

import "github.com/ferrygpu/ferry/cu"

// Mapped memory is memory of the device from cuMemMap to cuMemUnmap.

func (c *call) afterMemMap(ctx cu.Context, dptr cu.DevicePtr, bytes, offset uintptr, handle cu.MemHandle, flags uint64) {
	c.owns(uint64(dptr), uint64(bytes), device)
}

func (c *call) afterMemUnmap(ctx cu.Context, dptr cu.DevicePtr, bytes uintptr) {
	c.frees(uint64(dptr))
}
