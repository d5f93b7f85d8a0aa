package fault

import (
	"maps"
	"os"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// The kinds of what the calls about virtual memory create.
const (
	reservation   = "address reservation"
	createdMemory = "created memory"
	mapping       = "mapping"
	openedMemory  = "memory of another process"
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
	c.part = object{createdMemory, uint64(h)}
}

func (c *call) beforeMemUnmap(ctx cu.Context, p cu.DevicePtr, bytes uintptr) {
	c.freesMemory(mapping, ctx, p)
	c.reach = uint64(bytes)
}

// afterMemExportToShareableHandle closes the descriptor of an export that fails although it is
// done. No call of the driver closes a descriptor, so it does not count as live.
func (c *call) afterMemExportToShareableHandle(ctx cu.Context, h cu.MemHandle, typ cu.MemAllocationHandleType, flags uint64, fd int32) {
	c.exports(fd)
}

func (c *call) exports(fd int32) {
	if c.out.err != nil {
		_ = os.NewFile(uintptr(fd), "exported memory").Close()
	}
}

func (c *call) afterMemGetHandleForAddressRange(ctx cu.Context, p cu.DevicePtr, bytes uintptr, typ cu.MemRangeHandleType, flags cu.MemRangeFlags, fd int32) {
	c.exports(fd)
}

func (c *call) afterMemPoolExportToShareableHandle(p cu.MemPool, typ cu.MemAllocationHandleType, flags uint64, fd int32) {
	c.exports(fd)
}

func (c *call) afterMemPoolImportFromShareableHandle(fd int32, typ cu.MemAllocationHandleType, flags uint64, p cu.MemPool) {
	c.afterMemPoolCreate(nil, p)
}

func (c *call) afterMemPoolImportPointer(from cu.MemPool, data *cu.MemPoolPtrExportData, p cu.DevicePtr) {
	c.creates(deviceMemory, uint64(p), func() error { return c.d.freeAnywhere(p) })
}

// freeAnywhere frees memory of a pool in a context, whichever it is: the memory belongs to none.
func (d *Driver) freeAnywhere(p cu.DevicePtr) (err error) {
	d.mu.Lock()
	contexts := slices.Collect(maps.Values(d.contexts))
	d.mu.Unlock()
	for _, ctx := range contexts {
		if err = d.inner.MemFree(ctx, p); err == nil {
			return nil
		}
	}
	return err
}

func (c *call) afterIpcOpenEventHandle(ctx cu.Context, handle cu.IpcEventHandle, e cu.Event) {
	c.afterEventCreate(ctx, 0, e)
}

func (c *call) afterIpcOpenMemHandle(ctx cu.Context, handle cu.IpcMemHandle, flags cu.IpcMemFlags, p cu.DevicePtr) {
	c.creates(openedMemory, uint64(p), func() error { return c.d.inner.IpcCloseMemHandle(ctx, p) })
}

func (c *call) beforeIpcCloseMemHandle(ctx cu.Context, p cu.DevicePtr) {
	c.freesMemory(openedMemory, ctx, p)
}
