package check

import "github.com/ferrygpu/ferry/cu"

// What other processes write to memory is not known. So memory that is shared by a handle, here or
// there, is compared by the order of this process's own operations alone. Memory of MemPoolImportPointer
// is not followed: no argument says how large it is, and the call has no context to ask in.

func (c *call) afterIpcGetMemHandle(ctx cu.Context, p cu.DevicePtr, handle cu.IpcMemHandle) {
	c.others(p)
}

func (c *call) afterMemPoolExportPointer(p cu.DevicePtr, data cu.MemPoolPtrExportData) { c.others(p) }

// others notes that other processes can write memory.
func (c *call) others(p cu.DevicePtr) { c.d.WatchWritten(p) }

// WatchWritten notes that code whose calls the driver does not see writes memory: a library, or
// another process. So it is not known from then on which bytes were written.
func (d *Driver) WatchWritten(p cu.DevicePtr) {
	if d == nil || d.inner == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if m, _ := d.memories.find(uint64(p)); m != nil {
		m.known = false
	}
}

func (c *call) afterIpcOpenMemHandle(ctx cu.Context, handle cu.IpcMemHandle, flags cu.IpcMemFlags, p cu.DevicePtr) {
	if c.closes(p, 1) > 1 {
		return
	}
	_, bytes, err := c.d.inner.MemGetAddressRange(ctx, p)
	if err != nil {
		return
	}
	if m := c.owns(ctx, uint64(p), uint64(bytes), device, 0); m != nil {
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		m.known, m.opened = false, 1
	}
}

func (c *call) beforeIpcCloseMemHandle(ctx cu.Context, p cu.DevicePtr) {
	if c.closes(p, 0) <= 1 {
		c.frees(ctx, uint64(p))
	}
}

func (c *call) doneIpcCloseMemHandle(ctx cu.Context, p cu.DevicePtr, err error) {
	if err == nil {
		c.closes(p, -1)
	}
	c.freed(uint64(p), err)
}

// closes counts uses of memory of another process. It returns how many are left, and 0 for other
// addresses.
func (c *call) closes(p cu.DevicePtr, by int) int {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	m, _ := c.d.memories.find(uint64(p))
	if m == nil || m.base != uint64(p) || m.opened == 0 {
		return 0
	}
	m.opened += by
	return m.opened
}

func (c *call) afterIpcOpenEventHandle(ctx cu.Context, handle cu.IpcEventHandle, h cu.Event) {
	c.afterEventCreate(ctx, 0, h)
}
