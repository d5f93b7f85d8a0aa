package softgpu

import (
	"github.com/ferrygpu/ferry/cu"
)

// newRegion makes the record of an allocation.
func (c *contextState) newRegion(k kind) *region {
	d := c.drv
	d.bufID++
	return &region{kind: k, ctx: c, dev: c.dev, id: d.bufID}
}

// MemAlloc takes device memory.
func (d *Driver) MemAlloc(h cu.Context, bytes uintptr) (cu.DevicePtr, error) {
	what := "allocate " + size(uint64(bytes)) + " of device memory"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Own.DeviceAllocate.Value
	r, err := c.allocate(uint64(bytes), what)
	if err != nil {
		return 0, err
	}
	return cu.DevicePtr(r.base), nil
}

// allocate makes a device allocation.
func (c *contextState) allocate(n uint64, what string) (*region, error) {
	if n == 0 {
		return nil, refuse(cu.ErrorInvalidValue, what, "there is no allocation of zero bytes")
	}
	if err := c.unsafeInCapture(what); err != nil {
		return nil, err
	}
	r := c.newRegion(kindDevice)
	if err := c.dev.memory.alloc(r, n, what); err != nil {
		return nil, err
	}
	r.state.Store(stateLive)
	c.regions[r] = struct{}{}
	return r, nil
}

// MemAllocPitch takes rows that each start at a multiple of the pitch.
func (d *Driver) MemAllocPitch(h cu.Context, width, height uintptr, elementSize uint32) (cu.DevicePtr, uintptr, error) {
	const what = "allocate rows of device memory"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Own.DeviceAllocate.Value
	if elementSize != 4 && elementSize != 8 && elementSize != 16 {
		return 0, 0, refuse(cu.ErrorInvalidValue, what, "elements of %d bytes: 4, 8 or 16 can be aligned", elementSize)
	}
	pitch := roundUp(uint64(width), allocAlign)
	if width == 0 || height == 0 || pitch < uint64(width) || pitch > uint64(c.dev.attr(cu.DeviceAttributeMaxPitch)) ||
		uint64(height) > (1<<62)/pitch {
		return 0, 0, refuse(cu.ErrorInvalidValue, what, "%d rows of %d bytes", height, width)
	}
	r, err := c.allocate(pitch*uint64(height), what)
	if err != nil {
		return 0, 0, err
	}
	return cu.DevicePtr(r.base), uintptr(pitch), nil
}

// MemFree frees device or managed memory when the work of the context is done.
func (d *Driver) MemFree(h cu.Context, dptr cu.DevicePtr) error {
	const what = "free device memory"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Own.DeviceAllocate.Value
	if dptr == 0 {
		return nil
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	if _, err := d.freeable(dptr, what); err != nil {
		return err
	}
	if err := c.sync(); err != nil {
		return err
	}
	r, err := d.freeable(dptr, what) // somebody may have been here meanwhile
	if err != nil {
		return err
	}
	if r.ctx != c {
		if err := r.ctx.sync(); err != nil {
			return err
		}
		if r.state.Load() == stateFreed {
			return refuse(cu.ErrorInvalidValue, what, "%#x was freed meanwhile", uint64(dptr))
		}
	}
	r.free()
	return nil
}

// freeable is the allocation that starts at dptr and that MemFree frees.
func (d *Driver) freeable(dptr cu.DevicePtr, what string) (*region, error) {
	x, ok := d.space.find(uint64(dptr))
	if !ok {
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x: %s", uint64(dptr), d.space.near(uint64(dptr)))
	}
	r := x.region
	switch {
	case r.device != uint64(dptr) || x.alias:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is not the start of an allocation: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case r.kind == kindHost || r.kind == kindRegistered:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is a %v: free or unregister it as such", uint64(dptr), r.kind)
	case r.release != nil && r.release.done:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x was freed in stream order", uint64(dptr))
	case r.kind == kindModule || r.mod != nil:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is variable %s of a module, and goes with it", uint64(dptr), r.name)
	}
	return r, nil
}

// free takes r out of the address space. mu is held.
func (r *region) free() {
	if r.state.Load() == stateFreed {
		return
	}
	d := r.ctx.drv
	delete(r.ctx.regions, r)
	if r.kind == kindPool && (r.release == nil || !r.release.done) {
		r.pool.gone(r)
	}
	if !r.kind.onHost() {
		r.dev.memory.freeRegion(r)
		return
	}
	r.state.Store(stateFreed)
	d.space.remove(r)
	if r.managed != nil {
		r.managed.pages.Free()
	}
	if r.back != nil {
		d.bury(r.back)
	}
}

// MemGetInfo is the device's free and total memory.
func (d *Driver) MemGetInfo(h cu.Context) (free, total uintptr, err error) {
	c, err := d.enter(h, "ask for free memory")
	if err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	return uintptr(c.dev.memory.free()), uintptr(c.dev.memory.total()), nil
}

// MemGetAddressRange is the allocation that holds an address.
func (d *Driver) MemGetAddressRange(h cu.Context, dptr cu.DevicePtr) (cu.DevicePtr, uintptr, error) {
	const what = "find an allocation"
	if _, err := d.enter(h, what); err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(uint64(dptr))
	if !ok || x.region.device == 0 || !x.alias && x.base != x.region.device {
		return 0, 0, refuse(cu.ErrorNotFound, what, "%#x: %s", uint64(dptr), d.space.near(uint64(dptr)))
	}
	return cu.DevicePtr(x.base), uintptr(x.end - x.base), nil
}

// PointerGetAttributes says what is known of an address.
func (d *Driver) PointerGetAttributes(h cu.Context, ptr cu.DevicePtr) (cu.PointerAttributes, error) {
	const what = "ask about an address"
	c, err := d.enterLost(h, what)
	if err != nil {
		return cu.PointerAttributes{}, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(uint64(ptr))
	if !ok {
		return cu.PointerAttributes{Device: cu.InvalidDevice}, nil
	}
	return x.attributes(c, uint64(ptr)), nil
}

// attributes describes the address addr of x.
func (x span) attributes(c *contextState, addr uint64) cu.PointerAttributes {
	r := x.region
	off := addr - x.base
	a := cu.PointerAttributes{
		Context:    r.ctx.handle,
		MemoryType: cu.MemoryTypeDevice,
		Device:     cu.Device(r.dev.ordinal),
		IsManaged:  r.kind == kindManaged,
		RangeStart: cu.DevicePtr(x.base),
		RangeSize:  uintptr(r.size),
		Mapped:     r.device != 0,
		BufferID:   r.id,
	}
	if r.kind == kindPool { // it is the pool's, which is the device's
		a.Context = 0
	}
	if r.kind.onHost() && r.kind != kindManaged {
		a.MemoryType = cu.MemoryTypeHost
	}
	if r.device != 0 && r.seenBy(c) {
		a.DevicePointer = cu.DevicePtr(r.device + off)
	}
	if r.kind.onHost() {
		a.HostPointer = hostPointer(r.base + off)
	}
	return a
}

// seenBy says whether kernels and copies of c know host memory r.
func (r *region) seenBy(c *contextState) bool {
	return !r.kind.onHost() || r.shared || r.ctx == c
}
