package softgpu

import (
	"math/bits"
	"os"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

// backing is the real memory behind an allocation.
type backing struct {
	data     []byte
	unmap    func()   // nil leaves the memory to the garbage collector
	device   bool     // memory of a device
	file     *os.File // that has the bytes once other processes may use them, else nil
	patterns int      // mappings of a file, whose pages it has until they are written: see contents
	lost     runtime.Cleanup
}

// release unmaps the memory.
func (b *backing) release() {
	b.unmap()
	if b.file != nil {
		b.file.Close()
	}
	patternMappings.Add(-int64(b.patterns))
}

// pageSize is the page of host allocations, whatever this computer's pages are.
const pageSize = 4096

// newBacking reserves n bytes of page-aligned zeroed memory with host addresses. It refuses
// more than this computer has, because the system would notice only when the bytes are
// touched, and then kill the process.
func (d *Driver) newBacking(n uint64, what string) (*backing, error) {
	if err := mayReserve(n, d.backedBytes-d.deviceBytes, what); err != nil {
		return nil, err
	}
	return d.reserved(d.reserveHost, n, what)
}

// newDeviceBacking reserves n bytes of memory of a device. It may reserve more than this
// computer has, if that takes no memory until it is written: see touching.
func (d *Driver) newDeviceBacking(n uint64, what string) (*backing, error) {
	if !reservesLazily {
		if err := mayReserve(n, d.backedBytes, what); err != nil {
			return nil, err
		}
	}
	b, err := d.reserved(reserveDevice, n, what)
	if err == nil {
		d.ofDevice(b)
	}
	return b, err
}

// ofDevice counts b as memory of a device. Nothing but the driver has the address of such memory. So
// it is given back with the driver, unlike host memory, of which the program may have a slice.
func (d *Driver) ofDevice(b *backing) {
	b.device = true
	d.deviceBytes += uint64(len(b.data))
	if b.unmap != nil {
		b.lost = runtime.AddCleanup(d, (*backing).release, b)
	}
}

// owns counts memory of another process as this driver's, until it is given back.
func (d *Driver) owns(b *backing) {
	d.backedBytes += uint64(len(b.data))
	d.ofDevice(b)
}

// mayReserve refuses n bytes if they and the used bytes are more than this computer has.
func mayReserve(n, used uint64, what string) error {
	if have := hostMemory(); n > have || used > have-n {
		return refuse(cu.ErrorOutOfMemory, what,
			"the software GPU uses this computer's memory, which is %s, and %s are allocated already", size(have), size(used))
	}
	return nil
}

func (d *Driver) reserved(reserve func(int) (*backing, error), n uint64, what string) (*backing, error) {
	b, err := reserve(int(n))
	if err != nil {
		return nil, refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide it: %v", err)
	}
	d.backedBytes += n
	return b, nil
}

// deferUnmap unmaps b when no executing op can use it any more.
func (d *Driver) deferUnmap(b *backing) {
	d.backedBytes -= uint64(len(b.data))
	if b.device {
		d.deviceBytes -= uint64(len(b.data))
	}
	d.deferredUnmaps = append(d.deferredUnmaps, b)
	d.runDeferredUnmaps()
}

// runDeferredUnmaps does the deferred unmaps, unless an op executes.
func (d *Driver) runDeferredUnmaps() {
	if d.running > 0 {
		return
	}
	for _, b := range d.deferredUnmaps {
		if b.unmap != nil {
			b.lost.Stop()
			b.release()
		}
	}
	d.deferredUnmaps = nil
	for _, f := range d.deferred {
		f()
	}
	d.deferred = nil
}

// deviceMemory allocates addresses and bytes of a device.
//
// Addresses rise, and are used again only when the window is used up, so that
// accesses to freed memory are detected. Small allocations share slabs of 2
// MiB.
type deviceMemory struct {
	dev        *device
	next       uint64 // next address of large allocations and slabs
	alias      uint64 // next address of host memory that is mapped without unified addressing
	slab       *slab  // current slab of small allocations
	smallBytes uint64 // charged for small allocations
	largeBytes uint64 // charged for large allocations
}

const (
	allocAlign = 512
	slabSize   = 2 << 20
	smallMax   = slabSize / 2
)

// slab is memory that small allocations share.
type slab struct {
	base    uint64
	used    uint64
	live    int
	backing *backing
}

func (m *deviceMemory) init(dev *device) {
	m.dev = dev
	m.next = deviceBase + uint64(dev.ordinal)*deviceWindow
	m.alias = m.next + aliasOffset
}

func (m *deviceMemory) total() uint64 { return uint64(m.dev.drv.prof.Memory.Value) }

// used returns the used bytes in steps of 2 MiB, like the hardware's allocator.
func (m *deviceMemory) used() uint64 {
	return uint64(m.dev.drv.prof.Reserved.Value) + m.largeBytes + roundUp(m.smallBytes, slabSize) + m.dev.poolReserved()
}

func (m *deviceMemory) free() uint64 {
	used := m.used()
	return m.total() - min(used, m.total())
}

// alloc allocates n bytes for r. Memory of pools is charged by the pool.
func (m *deviceMemory) alloc(r *region, n uint64, what string) error {
	d := m.dev.drv
	if n > m.total() {
		return refuse(cu.ErrorOutOfMemory, what, "device %d has %s of memory", m.dev.ordinal, size(m.total()))
	}
	full := roundUp(n, allocAlign)
	usedBefore := m.used()
	if r.kind != kindPool {
		before := *m
		if full <= smallMax {
			m.smallBytes += full
		} else {
			m.largeBytes += roundUp(full, slabSize)
		}
		if m.used() > m.total() {
			*m = before
			return refuse(cu.ErrorOutOfMemory, what, "device %d has %s free of %s", m.dev.ordinal, size(m.free()), size(m.total()))
		}
	}
	err := m.assign(r, n, full, what)
	if err != nil && r.kind != kindPool {
		m.uncharge(full)
	}
	if err != nil {
		return err
	}
	if r.kind != kindPool && m.used() > usedBefore {
		d.spend(d.prof.Own.DeviceGrow.Ns(float64(n)))
	}
	r.size, r.charge, r.dev, r.device = n, full, m.dev, r.base
	r.segments(false)
	d.space.insert(addressRange{base: r.base, end: r.base + n, region: r})
	d.values.allocated(r.base, n)
	return nil
}

// assign gives r an address and bytes.
func (m *deviceMemory) assign(r *region, n, full uint64, what string) error {
	d := m.dev.drv
	if full > smallMax {
		b, err := d.newDeviceBacking(roundUp(full, pageSize), what)
		if err != nil {
			return err
		}
		if r.kind != kindModule { // a variable without a value is zero
			d.contents.put(b)
		}
		r.backing, r.base, r.data = b, m.nextAddress(roundUp(full, slabSize)), b.data[:n:n]
		return nil
	}
	if m.slab == nil || m.slab.used+full > slabSize {
		b, err := d.newDeviceBacking(slabSize, what)
		if err != nil {
			return err
		}
		d.contents.put(b)
		old := m.slab
		m.slab = &slab{base: m.nextAddress(slabSize), backing: b}
		m.dropSlab(old)
	}
	c := m.slab
	r.slab, r.base, r.data = c, c.base+c.used, c.backing.data[c.used:c.used+n:c.used+n]
	c.used += full + allocAlign // a gap after each allocation, as in nextAddress
	c.live++
	if r.kind == kindModule && d.contents != nil {
		clear(r.data)
	}
	return nil
}

// nextAddress returns the next n addresses that are not in use. A gap follows
// each allocation, so that running past the end of one never reaches the next.
func (m *deviceMemory) nextAddress(n uint64) uint64 {
	low := deviceBase + uint64(m.dev.ordinal)*deviceWindow
	for {
		if m.next+n+slabSize > low+aliasOffset {
			m.next = low
		}
		base := m.next
		m.next += n + slabSize
		x, taken := m.dev.drv.space.overlaps(base, base+n)
		if !taken {
			return base
		}
		m.next = roundUp(x.end, slabSize)
	}
}

// nextAlias returns the next n addresses at which the device can reach host
// memory.
func (m *deviceMemory) nextAlias(n uint64) uint64 {
	base := m.alias
	m.alias += roundUp(n, slabSize) + slabSize
	return base
}

// freeRegion removes r from the address table and frees its bytes.
func (m *deviceMemory) freeRegion(r *region) {
	r.state.Store(stateFreed)
	m.dev.drv.space.remove(r)
	m.dev.drv.launches.Forget(r.base, r.size)
	if r.kind != kindPool {
		usedBefore := m.used()
		m.uncharge(r.charge)
		if m.used() < usedBefore {
			m.dev.drv.spend(m.dev.drv.prof.Own.DeviceShrink.Ns(float64(r.size)))
		}
	}
	if r.shares != nil {
		r.shares.Close()
	}
	if r.backing != nil {
		m.dev.drv.values.freed(r.base, uint64(len(r.backing.data)))
		m.dev.drv.deferUnmap(r.backing)
	}
	if r.slab != nil {
		r.slab.live--
		m.dropSlab(r.slab)
	}
}

// dropSlab frees a slab that is not in use any more.
func (m *deviceMemory) dropSlab(c *slab) {
	if c != nil && c != m.slab && c.live == 0 {
		m.dev.drv.values.freed(c.base, slabSize)
		m.dev.drv.deferUnmap(c.backing)
	}
}

func (m *deviceMemory) uncharge(full uint64) {
	if full <= smallMax {
		m.smallBytes -= full
	} else {
		m.largeBytes -= roundUp(full, slabSize)
	}
}

func roundUp(n, step uint64) uint64 { return (n + step - 1) / step * step }

// newRegion makes the record of an allocation.
func (c *contextState) newRegion(k kind) *region {
	d := c.drv
	d.bufID++
	r := &region{kind: k, ctx: c, dev: c.dev, id: d.bufID}
	if d.races {
		r.site = d.space.site().place()
	}
	return r
}

// MemAlloc allocates device memory.
func (d *Driver) MemAlloc(h cu.Context, bytes uintptr) (cu.DevicePtr, error) {
	what := "allocate " + size(uint64(bytes)) + " of device memory"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	d.spend(d.prof.Own.DeviceAllocate.Value)
	r, err := c.allocate(uint64(bytes), what)
	if err != nil {
		return 0, err
	}
	return cu.DevicePtr(r.base), nil
}

// allocate makes a device allocation.
func (c *contextState) allocate(n uint64, what string) (*region, error) {
	if n == 0 {
		return nil, refuse(cu.ErrorInvalidValue, what, "an allocation of zero bytes is not allowed")
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

// allocateManaged makes a managed region.
func (c *contextState) allocateManaged(n uint64, flags cu.MemAttachFlags, what string) (*region, error) {
	r := c.newRegion(kindManaged)
	if err := r.allocHost(n, what); err != nil {
		return nil, err
	}
	r.managed = c.drv.newManagedState(n, flags)
	r.shared = true
	c.mapHost(r, true, true, false)
	return r, nil
}

// MemAllocPitch allocates rows that each start at a multiple of the pitch.
func (d *Driver) MemAllocPitch(h cu.Context, width, height uintptr, elementSize uint32) (cu.DevicePtr, uintptr, error) {
	const what = "allocate rows of device memory"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	d.spend(d.prof.Own.DeviceAllocate.Value)
	if elementSize != 4 && elementSize != 8 && elementSize != 16 {
		return 0, 0, refuse(cu.ErrorInvalidValue, what, "elements of %d bytes, must be 4, 8 or 16", elementSize)
	}
	pitch := roundUp(uint64(width), allocAlign)
	over, all := bits.Mul64(pitch, uint64(height))
	switch {
	case width == 0 || height == 0 || pitch < uint64(width) || over != 0:
		return 0, 0, refuse(cu.ErrorInvalidValue, what, "%d rows of %d bytes are none, or more than an address can count", height, width)
	case all > 1<<62: // as hardware, which looks at the memory first
		return 0, 0, refuse(cu.ErrorOutOfMemory, what, "%d rows of %d bytes are more than any memory", height, width)
	case pitch > uint64(c.dev.attr(cu.DeviceAttributeMaxPitch)):
		return 0, 0, refuse(cu.ErrorInvalidValue, what, "%d rows of %d bytes are empty or too large", height, width)
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
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(d.prof.Own.DeviceAllocate.Value)
	if dptr == 0 {
		return nil
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	if r, err := d.freeable(dptr, what); err != nil {
		return err
	} else if r.graph != nil {
		if err := r.graph.mayFree(r, what); err != nil {
			return err
		}
	}
	if err := c.sync(); err != nil {
		return err
	}
	r, err := d.freeable(dptr, what) // another call may have freed it during the wait
	if err != nil {
		return err
	}
	if r.ctx != c {
		if err := r.ctx.sync(); err != nil {
			return err
		}
		if r.state.Load() == stateFreed {
			return refuse(cu.ErrorInvalidValue, what, "%#x was freed during the call", uint64(dptr))
		}
	}
	if r.graph != nil {
		_, err := d.freeHeld(r, nil, what)
		return err
	}
	if r.kind == kindManaged { // which other goroutines may use
		r.raceFree()
	}
	r.free()
	return nil
}

// freeable returns the allocation that starts at dptr, if MemFree may free it.
func (d *Driver) freeable(dptr cu.DevicePtr, what string) (*region, error) {
	x, ok := d.space.find(uint64(dptr))
	if !ok {
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x: %s", uint64(dptr), d.space.near(uint64(dptr)))
	}
	r := x.region
	switch {
	case r.device != uint64(dptr) || x.alias:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is not the start of an allocation: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case r.opened != nil && r.kind == kindDevice:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is memory of another process: use IpcCloseMemHandle", uint64(dptr))
	case r.kind == kindMapped:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is a %v: use MemUnmap and MemRelease", uint64(dptr), r.shownKind())
	case r.kind == kindHost || r.kind == kindRegistered:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is a %v: use MemFreeHost or MemHostUnregister", uint64(dptr), r.shownKind())
	case r.streamFree != nil && r.streamFree.done:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x was freed in stream order", uint64(dptr))
	case r.kind == kindModule || r.mod != nil:
		return nil, refuse(cu.ErrorInvalidValue, what, "%#x is variable %s of a module, which frees it when it is unloaded", uint64(dptr), r.name)
	}
	return r, nil
}

// MemGetInfo returns the device's free and total memory.
func (d *Driver) MemGetInfo(h cu.Context) (free, total uintptr, err error) {
	c, err := d.beginIn(h, "ask for free memory")
	if err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	return uintptr(c.dev.memory.free()), uintptr(c.dev.memory.total()), nil
}

// MemGetAddressRange returns the allocation that contains an address.
func (d *Driver) MemGetAddressRange(h cu.Context, dptr cu.DevicePtr) (cu.DevicePtr, uintptr, error) {
	const what = "find an allocation"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(uint64(dptr))
	if !ok || !x.region.addressable() || x.region.device == 0 || !x.alias && x.base != x.region.device || !x.region.opensTo(c.dev) {
		return 0, 0, refuse(cu.ErrorNotFound, what, "%#x: %s", uint64(dptr), d.space.near(uint64(dptr)))
	}
	return cu.DevicePtr(x.base), uintptr(x.end - x.base), nil
}

// PointerGetAttributes returns the attributes of an address. An unknown address
// has none.
func (d *Driver) PointerGetAttributes(h cu.Context, ptr cu.DevicePtr) (cu.PointerAttributes, error) {
	const what = "get the attributes of an address"
	c, err := d.beginInLost(h, what)
	if err != nil {
		return cu.PointerAttributes{}, err
	}
	defer d.mu.Unlock()
	x, ok := d.space.find(uint64(ptr))
	if !ok || !x.region.addressable() {
		return cu.PointerAttributes{Device: cu.InvalidDevice}, nil
	}
	return x.attributes(c, uint64(ptr)), nil
}
