package softgpu

import (
	"fmt"
	"maps"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// reservation is a range of reserved addresses. The same number of host addresses is reserved
// with it, and what is mapped at a device address is mapped at the host address of the same
// offset. So the bytes of mappings that follow each other do the same in the host's memory, and
// one copy can use several.
type reservation struct {
	base, size uint64
	host       *backing
	mappings   []*region // by address
	stale      []*region // unmapped, but still there for operations that execute
}

func (v *reservation) end() uint64 { return v.base + v.size }

// deviceMapping is what a region of mapped memory has besides.
type deviceMapping struct {
	at     *reservation
	memory *createdMemory
	access atomic.Pointer[map[*device]cu.MemAccessFlags]

	readLocal, readRemote simt.Segment // for devices that may only read
}

// flags returns the access of a device.
func (m *deviceMapping) flags(dev *device) cu.MemAccessFlags { return (*m.access.Load())[dev] }

// mappedSegment returns what kernels of a device see of r, which is mapped memory.
func (r *region) mappedSegment(dev *device) *simt.Segment {
	writes := r.mapping.flags(dev) == cu.MemAccessProtReadWrite
	switch near := r.dev == dev; {
	case near && writes:
		return &r.local
	case near:
		return &r.mapping.readLocal
	case writes:
		return &r.remote
	}
	return &r.mapping.readRemote
}

// reservations has the reserved addresses, in ascending order. With unified addressing the
// second half of the first device's window has no other use.
type reservations struct {
	all  []*reservation
	next uint64
}

const (
	reservedBase = deviceBase + aliasOffset
	reservedEnd  = deviceBase + deviceWindow
)

// find returns the reservation that has an address.
func (s *reservations) find(addr uint64) *reservation {
	i, ok := slices.BinarySearchFunc(s.all, addr, func(v *reservation, addr uint64) int {
		switch {
		case v.end() <= addr:
			return -1
		case v.base > addr:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return s.all[i]
}

// fits reports whether n addresses from base on are free, with a gap on both sides, so that
// running past the end of a reservation never reaches another one.
func (s *reservations) fits(base, n uint64) bool {
	if base < reservedBase || base > reservedEnd || n > reservedEnd-base {
		return false
	}
	return s.inTheWay(base, n) == nil
}

// inTheWay returns a reservation that shares addresses with n addresses from base on, or has less
// than a gap to them.
func (s *reservations) inTheWay(base, n uint64) *reservation {
	i := slices.IndexFunc(s.all, func(v *reservation) bool {
		return base < v.end()+granularity && v.base < base+n+granularity
	})
	if i < 0 {
		return nil
	}
	return s.all[i]
}

// place returns where n addresses are free: at the hint if that is possible, else behind the
// last ones, so that accesses to freed addresses are detected, else in the first hole.
func (s *reservations) place(n, align, hint uint64) (uint64, bool) {
	if hint != 0 && hint%align == 0 && s.fits(hint, n) {
		return hint, true
	}
	if base := roundUp(max(s.next, reservedBase), align); s.fits(base, n) {
		s.next = base + n + granularity
		return base, true
	}
	for base := roundUp(reservedBase, align); base < reservedEnd; {
		v := s.inTheWay(base, n)
		if v == nil {
			return base, s.fits(base, n)
		}
		base = roundUp(v.end()+granularity, align)
	}
	return 0, false
}

// MemAddressReserve reserves addresses. A hint is followed if its addresses are free, and lie
// where the software GPU has reservations.
func (d *Driver) MemAddressReserve(h cu.Context, bytes, alignment uintptr, addr cu.DevicePtr, flags uint64) (dptr cu.DevicePtr, err error) {
	what := "reserve " + size(uint64(bytes)) + " of addresses"
	err = d.virtualCall(h, what, func(*contextState) error {
		switch {
		case flags != 0:
			return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
		case bytes == 0 || bytes%pageSize != 0:
			return refuse(cu.ErrorInvalidValue, what, "%d bytes are not a multiple of the host's page, %d", bytes, pageSize)
		case uint64(addr)%pageSize != 0:
			return refuse(cu.ErrorInvalidValue, what, "address %#x is not a multiple of the host's page, %d", uint64(addr), pageSize)
		case bits.OnesCount64(uint64(alignment)) > 1:
			return refuse(cu.ErrorInvalidValue, what, "alignment %d is not a power of two", alignment)
		}
		n := roundUp(uint64(bytes), granularity)
		base, ok := d.addresses.place(n, max(uint64(alignment), granularity), uint64(addr))
		if !ok {
			return refuse(cu.ErrorOutOfMemory, what, "the device has %s of addresses for reservations, and no hole of that size", size(reservedEnd-reservedBase))
		}
		v, err := d.reserveAt(base, uint64(bytes), n)
		if err != nil {
			return refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide the addresses: %v", err)
		}
		dptr = cu.DevicePtr(v.base)
		return nil
	})
	return dptr, err
}

// reserveAt makes a reservation of n addresses, and reserves room for it on the host.
func (d *Driver) reserveAt(base, n, room uint64) (*reservation, error) {
	host, err := reserveRange(room)
	if err != nil {
		return nil, err
	}
	host.lost = runtime.AddCleanup(d, (*backing).release, host)
	v := &reservation{base: base, size: n, host: host}
	i, _ := slices.BinarySearchFunc(d.addresses.all, base, func(v *reservation, base uint64) int {
		if v.base < base {
			return -1
		}
		return 1
	})
	d.addresses.all = slices.Insert(d.addresses.all, i, v)
	return v, nil
}

// MemAddressFree frees a reservation.
func (d *Driver) MemAddressFree(h cu.Context, dptr cu.DevicePtr, bytes uintptr) error {
	what := "free " + size(uint64(bytes)) + " of addresses"
	return d.virtualCall(h, what, func(*contextState) error {
		v := d.addresses.find(uint64(dptr))
		switch {
		case v == nil:
			return refuse(cu.ErrorInvalidValue, what, "%#x is not reserved", uint64(dptr))
		case v.base != uint64(dptr) || v.size != uint64(bytes):
			return refuse(cu.ErrorInvalidValue, what, "%#x is in a reservation of %s at %#x: free all of it", uint64(dptr), size(v.size), v.base)
		case len(v.mappings) > 0:
			return refuse(cu.ErrorInvalidValue, what, "memory is mapped at %#x: unmap it first", v.mappings[0].base)
		}
		d.addresses.all = slices.DeleteFunc(d.addresses.all, func(x *reservation) bool { return x == v })
		d.afterOps(func() {
			v.host.lost.Stop()
			v.host.release()
		})
		return nil
	})
}

// within returns the reservation that has all n addresses from addr on.
func (d *Driver) within(addr, n uint64, what string) (*reservation, error) {
	v := d.addresses.find(addr)
	if v == nil || n > v.end()-addr {
		return nil, refuse(cu.ErrorInvalidValue, what, "%s at %#x are not in a reservation: see MemAddressReserve", size(n), addr)
	}
	return v, nil
}

// MemMap maps created memory at reserved addresses.
func (d *Driver) MemMap(h cu.Context, dptr cu.DevicePtr, bytes, offset uintptr, handle cu.MemHandle, flags uint64) error {
	what := "map " + size(uint64(bytes))
	return d.virtualCall(h, what, func(c *contextState) error {
		x, err := d.created(handle, what)
		if err != nil {
			return err
		}
		n := uint64(bytes)
		switch {
		case flags != 0:
			return refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
		case n == 0:
			return refuse(cu.ErrorInvalidValue, what, "0 bytes")
		case offset != 0 || n != x.size:
			return refuse(cu.ErrorNotSupported, what, "%d bytes from offset %d on: the memory has %d bytes, and is mapped whole", n, offset, x.size)
		case uint64(dptr)%granularity != 0:
			return refuse(cu.ErrorInvalidValue, what, "address %#x is not a multiple of %d, the granularity", uint64(dptr), granularity)
		}
		v, err := d.within(uint64(dptr), n, what)
		if err != nil {
			return err
		}
		if y, taken := d.space.overlaps(uint64(dptr), uint64(dptr)+n); taken {
			return refuse(cu.ErrorInvalidValue, what, "%s is there: unmap it first", y.String())
		}
		return v.mapMemory(c, uint64(dptr), n, x, what)
	})
}

// mapMemory maps n bytes of x, for no device yet.
func (v *reservation) mapMemory(c *contextState, addr, n uint64, x *createdMemory, what string) error {
	off := addr - v.base
	part := v.host.data[off : off+n]
	if err := mapFile(part, x.file); err != nil {
		return refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide it: %v", err)
	}
	r := c.newRegion(kindMapped)
	r.base, r.device, r.size, r.charge, r.dev = addr, addr, n, n, x.dev
	r.data = part // its capacity reaches to the end of the reservation: see span.all
	r.mapping = &deviceMapping{at: v, memory: x}
	r.mapping.access.Store(&map[*device]cu.MemAccessFlags{})
	r.segments(false)
	r.mapping.readLocal = simt.Segment{Base: addr, Data: part, ReadOnly: true, Counter: kernelcost.CountDevice}
	r.mapping.readRemote = simt.Segment{Base: addr, Data: part, ReadOnly: true, Counter: kernelcost.CountPeer}
	r.state.Store(stateLive)
	x.mappings++
	i, _ := slices.BinarySearchFunc(v.mappings, addr, func(r *region, addr uint64) int {
		if r.base < addr {
			return -1
		}
		return 1
	})
	v.mappings = slices.Insert(v.mappings, i, r)
	x.drv.space.insert(addressRange{base: addr, end: addr + n, region: r})
	return nil
}

// mapped returns the mappings of n addresses from addr on, which begin and end with a mapping and
// have no hole.
func (d *Driver) mapped(addr, n uint64, what string) ([]*region, error) {
	var all []*region
	if n == 0 || addr+n < addr {
		return nil, refuse(cu.ErrorInvalidValue, what, "%d bytes at %#x are no range of addresses", n, addr)
	}
	for at := addr; at < addr+n; {
		x, ok := d.space.find(at)
		if !ok || x.region.mapping == nil {
			return nil, refuse(cu.ErrorInvalidValue, what, "nothing is mapped at %#x: %s", at, d.nearReserved(at))
		}
		if x.base != at || x.end > addr+n {
			return nil, refuse(cu.ErrorInvalidValue, what, "%s at %#x are a part of %s: a range must consist of whole mappings", size(n), addr, x.String())
		}
		all = append(all, x.region)
		at = x.end
	}
	return all, nil
}

// MemUnmap ends all mappings within a range of one reservation. It waits for no work, as on
// hardware: an operation that uses the memory later has an illegal address.
func (d *Driver) MemUnmap(h cu.Context, dptr cu.DevicePtr, bytes uintptr) error {
	what := "unmap " + size(uint64(bytes))
	return d.virtualCall(h, what, func(c *contextState) error {
		if err := c.unsafeInCapture(what); err != nil {
			return err
		}
		all, err := d.toUnmap(uint64(dptr), uint64(bytes), what)
		for _, r := range all {
			r.unmapMemory()
		}
		return err
	})
}

// toUnmap returns the mappings within n addresses from addr on, which may have holes.
func (d *Driver) toUnmap(addr, n uint64, what string) (all []*region, err error) {
	if n == 0 || n%granularity != 0 || addr%granularity != 0 {
		return nil, refuse(cu.ErrorInvalidValue, what, "%d bytes at %#x are not multiples of %d, the granularity", n, addr, granularity)
	}
	v, err := d.within(addr, n, what)
	if err != nil {
		return nil, err
	}
	for _, r := range v.mappings {
		switch {
		case r.end() <= addr || r.base >= addr+n:
		case r.base < addr || r.end() > addr+n:
			return nil, refuse(cu.ErrorInvalidValue, what, "%s at %#x have a part of %s: a range must consist of whole mappings", size(n), addr, addressRange{base: r.base, end: r.end(), region: r}.String())
		default:
			all = append(all, r)
		}
	}
	return all, nil
}

// unmapMemory ends a mapping. Its host pages go when no operation executes.
func (r *region) unmapMemory() {
	d, v, x := r.dev.drv, r.mapping.at, r.mapping.memory
	r.state.Store(stateFreed)
	d.space.remove(r)
	d.launches.Forget(r.base, r.size)
	v.mappings = slices.DeleteFunc(v.mappings, func(y *region) bool { return y == r })
	v.stale = append(v.stale, r)
	x.mappings--
	x.drop()
	d.afterOps(v.unmapStale)
}

// unmapStale makes the pages of what was unmapped unusable, where nothing else is mapped now.
func (v *reservation) unmapStale() {
	for _, r := range v.stale {
		for at := r.base; at < r.end(); at += granularity {
			if !slices.ContainsFunc(v.mappings, func(y *region) bool { return y.holds(at) }) {
				unmapFile(v.host.data[at-v.base : at-v.base+granularity])
			}
		}
	}
	v.stale = nil
}

// afterOps calls f when no operation executes. The caller holds mu.
func (d *Driver) afterOps(f func()) {
	d.deferred = append(d.deferred, f)
	d.runDeferredUnmaps()
}

// MemSetAccess changes which devices can use mappings. It checks the whole list before it changes
// anything.
func (d *Driver) MemSetAccess(h cu.Context, dptr cu.DevicePtr, bytes uintptr, access []cu.MemAccessDesc) error {
	what := "set the access to " + size(uint64(bytes))
	return d.virtualCall(h, what, func(*contextState) error {
		if len(access) == 0 {
			return refuse(cu.ErrorInvalidValue, what, "the list is empty")
		}
		all, err := d.mapped(uint64(dptr), uint64(bytes), what)
		if err != nil {
			return err
		}
		for i := range access {
			for _, r := range all {
				if err := r.mayOpen(&access[i], what); err != nil {
					return err
				}
			}
		}
		for _, r := range all {
			next := maps.Clone(*r.mapping.access.Load())
			for _, a := range access {
				next[d.devices[a.Location.ID]] = a.Flags
			}
			r.mapping.access.Store(&next)
		}
		return nil
	})
}

// mayOpen fails if the place that a names cannot have the access to r that a asks for.
func (r *region) mayOpen(a *cu.MemAccessDesc, what string) error {
	d := r.dev.drv
	switch {
	case a.Location.Type != cu.MemLocationTypeDevice:
		return refuse(cu.ErrorInvalidValue, what, "location type %d is not a device, and the memory is that of a device", a.Location.Type)
	case a.Flags != cu.MemAccessProtNone && a.Flags != cu.MemAccessProtRead && a.Flags != cu.MemAccessProtReadWrite:
		return refuse(cu.ErrorInvalidValue, what, "access %d is neither none (0) nor read (1) nor read-write (3)", a.Flags)
	}
	dev, err := d.device(cu.Device(a.Location.ID), what)
	switch {
	case err != nil:
		return asInvalidValue(err, what)
	case dev != r.dev && a.Flags != cu.MemAccessProtNone && !d.peerAccess():
		return refuse(cu.ErrorInvalidDevice, what, "%v cannot access memory of %v", dev, r.dev)
	}
	return nil
}

// MemGetAccess returns how a device can use the mapping at an address.
func (d *Driver) MemGetAccess(h cu.Context, location *cu.MemLocation, dptr cu.DevicePtr) (flags cu.MemAccessFlags, err error) {
	const what = "read the access to mapped memory"
	err = d.virtualCall(h, what, func(*contextState) error {
		x, ok := d.space.find(uint64(dptr))
		switch {
		case location == nil:
			return refuse(cu.ErrorInvalidValue, what, "the location is nil")
		case !ok || x.region.mapping == nil:
			return refuse(cu.ErrorInvalidValue, what, "nothing is mapped at %#x: %s", uint64(dptr), d.nearReserved(uint64(dptr)))
		case location.Type != cu.MemLocationTypeDevice:
			return refuse(cu.ErrorInvalidValue, what, "location type %d is not a device", location.Type)
		}
		dev, err := d.device(cu.Device(location.ID), what)
		if err == nil {
			flags = x.region.mapping.flags(dev)
		}
		return err
	})
	return flags, err
}

// nearReserved describes what is at or next to an address, also if it is only reserved.
func (d *Driver) nearReserved(addr uint64) string {
	if v := d.addresses.find(addr); v != nil {
		if _, ok := d.space.find(addr); !ok {
			return fmt.Sprintf("%s into %s of reserved addresses at %#x, where no memory is mapped", size(addr-v.base), size(v.size), v.base)
		}
	}
	return d.space.near(addr)
}

// inMappings reports whether the n bytes from addr on are in mappings of one reservation that
// follow each other, x being the first.
func (s *space) inMappings(x addressRange, addr, n uint64) bool {
	if x.region.mapping == nil {
		return false
	}
	v := x.region.mapping.at
	for end := addr + n; x.end < end; {
		y, ok := s.find(x.end)
		if !ok || y.region.mapping == nil || y.region.mapping.at != v {
			return false
		}
		x = y
	}
	return true
}

// mappings calls f for each mapping that a span of mapped memory reaches, until f returns
// false. A hole is a nil mapping.
func (p span) mappings(f func(*region) bool) {
	d := p.region.dev.drv
	for at, end := p.region.base+p.off, p.region.base+p.off+p.n; at < end; {
		x, ok := d.space.find(at)
		if !ok || x.region.mapping == nil {
			f(nil)
			return
		}
		if !f(x.region) {
			return
		}
		at = x.end
	}
}

// unusable returns why the device of a span must not read or write mapped memory, or "".
func (p span) unusable(write bool) (why string) {
	if p.region == nil || p.region.mapping == nil || p.by == nil {
		return ""
	}
	p.mappings(func(r *region) bool {
		switch {
		case r == nil || !r.live():
			why = "is not mapped any more"
		case r.mapping.flags(p.by) == cu.MemAccessProtNone:
			why = "is mapped without access for " + p.by.String() + ": see MemSetAccess"
		case write && r.mapping.flags(p.by) != cu.MemAccessProtReadWrite:
			why = "is mapped read-only for " + p.by.String()
		}
		return why == ""
	})
	return why
}
