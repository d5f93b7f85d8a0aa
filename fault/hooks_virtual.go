package fault

import (
	"os"

	"github.com/ferrygpu/ferry/cu"
)

// The kinds of what the calls about virtual memory create.
const (
	reservation   = "address reservation"
	createdMemory = "created memory"
	mapping       = "mapping"
)

func (c *call) afterMemAddressReserve(ctx cu.Context, bytes, alignment uintptr, addr cu.DevicePtr, flags uint64, p cu.DevicePtr) {
	c.creates(reservation, uint64(p), func() error { return c.d.inner.MemAddressFree(ctx, p, bytes) })
}

func (c *call) beforeMemAddressFree(ctx cu.Context, p cu.DevicePtr, bytes uintptr) {
	c.frees(reservation, uint64(p))
}

func (c *call) beforeMemCreate(ctx cu.Context, bytes uintptr, props *cu.MemAllocationProp, flags uint64) {
	c.takes(uint64(bytes))
}

func (c *call) afterMemCreate(ctx cu.Context, bytes uintptr, props *cu.MemAllocationProp, flags uint64, h cu.MemHandle) {
	c.createsHandle(ctx, h)
}

func (c *call) afterMemRetainAllocationHandle(ctx cu.Context, addr cu.DevicePtr, h cu.MemHandle) {
	c.createsHandle(ctx, h)
}

func (c *call) afterMemImportFromShareableHandle(ctx cu.Context, fd int32, typ cu.MemAllocationHandleType, h cu.MemHandle) {
	c.createsHandle(ctx, h)
}

func (c *call) createsHandle(ctx cu.Context, h cu.MemHandle) {
	c.creates(createdMemory, uint64(h), func() error { return c.d.inner.MemRelease(ctx, h) })
}

func (c *call) beforeMemRelease(ctx cu.Context, h cu.MemHandle) { c.frees(createdMemory, uint64(h)) }

func (c *call) afterMemMap(ctx cu.Context, p cu.DevicePtr, bytes, offset uintptr, h cu.MemHandle, flags uint64) {
	c.creates(mapping, uint64(p), func() error { return c.d.inner.MemUnmap(ctx, p, bytes) })
}

func (c *call) beforeMemUnmap(ctx cu.Context, p cu.DevicePtr, bytes uintptr) {
	c.freesMemory(mapping, ctx, p)
}

// afterMemExportToShareableHandle closes the descriptor of an export that fails although it is
// done. No call of the driver closes a descriptor, so it does not count as live.
func (c *call) afterMemExportToShareableHandle(ctx cu.Context, h cu.MemHandle, typ cu.MemAllocationHandleType, flags uint64, fd int32) {
	if c.out.err != nil {
		_ = os.NewFile(uintptr(fd), "exported memory").Close()
	}
}
