package softgpu

import (
	"fmt"
	"maps"

	"github.com/ferrygpu/ferry/cu"
)

// poolAccess says which devices, besides the pool's own, can use the memory of a pool. A
// map in use never changes, because kernels read it while a call replaces it.
//
// As measured on two H200s, peer access between contexts does not matter here. A change
// counts at once for all memory of the pool, also for kernels and operations that are
// queued or running. A running kernel of the software GPU is an exception: it keeps what it
// has found already, and asks again only for other memory. Only the memory of a graph keeps
// the access that the pool had when the allocation was captured.
type poolAccess map[*device]bool

// MemPoolSetAccess opens a pool to other devices, or closes it to them. It checks the
// whole list before it changes anything.
func (d *Driver) MemPoolSetAccess(h cu.MemPool, access []cu.MemAccessDesc) error {
	const what = "set the access to a pool"
	return d.poolCall(h, what, func(p *pool) error {
		if err := d.unsafeInCapture(what); err != nil {
			return err
		}
		if access == nil {
			return refuse(cu.ErrorInvalidValue, what, "the list is nil")
		}
		next := maps.Clone(*p.access.Load())
		for i := range access {
			dev, err := p.accessor(&access[i], what)
			if err != nil {
				return err
			}
			if dev != p.dev {
				next[dev] = access[i].Flags == cu.MemAccessProtReadWrite
			}
		}
		p.access.Store(&next)
		return nil
	})
}

// accessor returns the device of a, if it can have the access that a asks for.
func (p *pool) accessor(a *cu.MemAccessDesc, what string) (*device, error) {
	d := p.dev.drv
	switch {
	case a.Location.Type != cu.MemLocationTypeDevice:
		return nil, refuse(cu.ErrorNotSupported, what, "location type %d is not a device", a.Location.Type)
	case a.Flags == cu.MemAccessProtRead:
		return nil, refuse(cu.ErrorNotSupported, what, "access %d is read-only: pools are open to a device for reading and writing, or not at all", a.Flags)
	case a.Flags != cu.MemAccessProtNone && a.Flags != cu.MemAccessProtReadWrite:
		return nil, refuse(cu.ErrorInvalidValue, what, "access %d is neither none (0) nor read-write (3)", a.Flags)
	}
	dev, err := d.device(cu.Device(a.Location.ID), what)
	switch {
	case err != nil:
		return nil, err
	case dev == p.dev && a.Flags == cu.MemAccessProtNone:
		return nil, refuse(cu.ErrorInvalidDevice, what, "the pool is of %v, which always has access", dev)
	case dev != p.dev && a.Flags != cu.MemAccessProtNone && !d.peerAccess():
		return nil, refuse(cu.ErrorInvalidDevice, what, "%v cannot access memory of %v", dev, p.dev)
	}
	return dev, nil
}

// MemPoolGetAccess returns how a place can use the memory of a pool.
func (d *Driver) MemPoolGetAccess(h cu.MemPool, location *cu.MemLocation) (flags cu.MemAccessFlags, err error) {
	const what = "read the access to a pool"
	err = d.poolCall(h, what, func(p *pool) error {
		if err := d.unsafeInCapture(what); err != nil {
			return err
		}
		switch {
		case location == nil:
			return refuse(cu.ErrorInvalidValue, what, "the location is nil")
		case location.Type == cu.MemLocationTypeHost || location.Type == cu.MemLocationTypeHostNUMA:
			return nil // none
		case location.Type != cu.MemLocationTypeDevice:
			return refuse(cu.ErrorInvalidValue, what, "location type %d is not known", location.Type)
		case location.ID < 0 || int(location.ID) >= len(d.devices):
			return refuse(cu.ErrorInvalidValue, what, "no device %d, there are %d", location.ID, len(d.devices))
		}
		if dev := d.devices[location.ID]; dev == p.dev || (*p.access.Load())[dev] {
			flags = cu.MemAccessProtReadWrite
		}
		return nil
	})
	return flags, err
}

// opensTo reports whether dev can use the memory of r, if r is memory of a pool or mapped. It is
// true for other memory, to which other rules apply, and if dev is nil.
func (r *region) opensTo(dev *device) bool {
	switch {
	case r.mapping != nil && dev != nil:
		return r.mapping.flags(dev) != cu.MemAccessProtNone
	case r.kind != kindPool || dev == nil || r.dev == dev:
		return true
	case r.graph != nil:
		return r.graph.access[dev]
	}
	return (*r.pool.access.Load())[dev]
}

// closed returns an error if the span is memory of a pool that is not open to the device, or
// mapped memory that the device must not read or write.
func (p span) closed(what string, write bool) error {
	if why := p.unusable(write); why != "" {
		return refuse(cu.ErrorInvalidValue, what, "%s at %#x %s", size(p.n), p.region.base+p.off, why)
	}
	if p.region == nil || p.region.opensTo(p.by) {
		return nil
	}
	return refuse(cu.ErrorInvalidValue, what, "%#x is memory of a pool of %v that is not open to %v: see MemPoolSetAccess", p.region.base+p.off, p.region.dev, p.by)
}

// closed returns an error if a side of the copy is memory that is not open to the device.
func (t *transfer) closed() error {
	if err := t.dst.closed(t.what+": destination", true); err != nil {
		return err
	}
	return t.src.closed(t.what+": source", false)
}

func (dev *device) String() string { return fmt.Sprintf("device %d", dev.ordinal) }
