package check

import "github.com/ferrygpu/ferry/cu"

// Reserved addresses count as one memory, because a copy can use several mappings that follow each
// other. They belong to no context. What is mapped at them is not compared by its bytes: memory that
// is mapped at two addresses, or in two processes, counts as two.

func (c *call) afterMemAddressReserve(ctx cu.Context, bytes, alignment uintptr, addr cu.DevicePtr, flags uint64, p cu.DevicePtr) {
	c.owns(0, uint64(p), uint64(bytes), virtual, 0)
}

func (c *call) beforeMemAddressFree(ctx cu.Context, p cu.DevicePtr, bytes uintptr) {
	c.frees(0, uint64(p))
}

func (c *call) doneMemAddressFree(ctx cu.Context, p cu.DevicePtr, bytes uintptr, err error) {
	c.freed(uint64(p), err)
}

// beforeMemUnmap reports an operation that uses the mapping. The call does not wait for it.
func (c *call) beforeMemUnmap(ctx cu.Context, p cu.DevicePtr, bytes uintptr) {
	d := c.d
	d.mu.Lock()
	defer d.mu.Unlock()
	m, at := d.memories.find(uint64(p))
	if m == nil || m.kind != virtual {
		return
	}
	if b := d.inFlight(m, flat(at, uint64(bytes)), frees, ^uint64(0)); b != nil {
		c.pending = append(c.pending, d.freedInFlight(c, b))
	}
}
