package softgpu

import (
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
	"github.com/ferrygpu/ferry/internal/uvm"
	"github.com/ferrygpu/ferry/profile"
)

// Managed memory lies at one address for host and device, and its bytes are
// always there for both. Where the pages would be on hardware is what package uvm
// says, for the time model and for who asks. All of it is the driver's, locked.

// managedState is a region's part of the managed memory.
type managedState struct {
	pages      *uvm.Range
	size       uint64
	prefetched []uvm.Processor // by page: where it was prefetched to last; nil while nowhere
	attach     atomic.Pointer[attachment]
}

// attachment says who may touch the memory where host and device must not do so
// at once.
type attachment struct {
	flags  cu.MemAttachFlags
	stream *streamState // of MemAttachSingle
}

func (d *Driver) newManagedState(n uint64, flags cu.MemAttachFlags) *managedState {
	m := &managedState{size: n, pages: d.managed.Alloc(n)}
	m.attach.Store(&attachment{flags: flags})
	return m
}

// newManagedSpace is the managed memory of d's devices.
func (d *Driver) newManagedSpace() *uvm.Space {
	s := uvm.NewSpace(len(d.devices))
	s.Room = func(dev uvm.Processor) uint64 { return d.devices[dev].memory.free() }
	return s
}

// advicePages are the pages of n bytes at off, counted from the region's start.
func advicePages(off, n uint64) (first, past uint64) {
	return off >> uvm.PageShift, (off + n + uvm.PageSize - 1) >> uvm.PageShift
}

// prefetchedTo notes where n bytes at off were prefetched to.
func (m *managedState) prefetchedTo(off, n uint64, at uvm.Processor) {
	if m.prefetched == nil {
		_, all := advicePages(0, m.size)
		m.prefetched = make([]uvm.Processor, all)
		for i := range m.prefetched {
			m.prefetched[i] = uvm.Nowhere
		}
	}
	for i, past := advicePages(off, n); i < past; i++ {
		m.prefetched[i] = at
	}
}

// lastPrefetch is where all of n bytes at off were prefetched to last; ok is
// false if that differs.
func (m *managedState) lastPrefetch(off, n uint64) (at uvm.Processor, ok bool) {
	if m.prefetched == nil {
		return uvm.Nowhere, true
	}
	first, past := advicePages(off, n)
	at = m.prefetched[first]
	for _, p := range m.prefetched[first:past] {
		if p != at {
			return at, false
		}
	}
	return at, true
}

// common is what the advice on a range has in common; ok is false if it differs.
func (m *managedState) common(off, n uint64, read func(uvm.Advice) int32) (v int32, ok bool) {
	return m.pages.Common(off, n, read)
}

// touchWindow tells which first accesses of a kernel are under way at once.
const touchWindow = simt.OrderStep

// faults is what a kernel's touches of managed memory came to.
type faults struct {
	where uvm.Where
	work  uvm.Work
	ns    float64
}

// fault serves the faults of a kernel that began at now.
func (x *execution) fault(dev *device, now float64) (f faults) {
	d := dev.drv
	var touches []uvm.Touch
	for r, s := range *x.view.own.Load() {
		if r.managed != nil {
			touches = r.managed.touches(touches, s.Pages)
		}
	}
	if len(touches) == 0 {
		return f
	}
	price := deviceFaults(&d.prof.Managed)
	f.work, f.where = d.managed.Device(uvm.Processor(dev.ordinal), touches, touchWindow, now, func(w uvm.Work) float64 {
		ns := price(w)
		f.ns += ns
		return ns
	})
	f.ns += f.work.Slept
	return f
}

// touches appends the pages that a kernel touched.
func (m *managedState) touches(to []uvm.Touch, p *simt.Pages) []uvm.Touch {
	p.Each(func(page uint64, written bool, key uint64) {
		if off := page << uvm.PageShift; off < m.size {
			to = append(to, uvm.Touch{Page: m.pages.Page(off), Write: written, Key: key})
		}
	})
	return to
}

// firstFaults wake the driver: the rest of what a kernel touches at once comes in
// while it serves them, and is a batch more.
const firstFaults = 8

// deviceFaults prices batches of a device's faults. Where the profile does not
// know the pieces, all batches together cost what its curve says of the bytes.
func deviceFaults(m *profile.Managed) uvm.Price {
	if m.DeviceService.Known() {
		first := m.DeviceService.Wake.Value
		return func(w uvm.Work) float64 {
			ns := serviceNs(&m.DeviceService, w) + first
			if first > 0 && w.Faults > firstFaults {
				ns += m.DeviceService.Batch.Value
			}
			first = 0
			return ns
		}
	}
	return byCurve(&m.DeviceFault)
}

// hostFaults is the same for the CPU's.
func hostFaults(m *profile.Managed) uvm.Price {
	if m.HostService.Known() {
		return func(w uvm.Work) float64 { return serviceNs(&m.HostService, w) }
	}
	return byCurve(&m.HostFault)
}

// byCurve prices pieces so that together they cost what the curve says.
func byCurve(c *profile.Curve) uvm.Price {
	moved := 0.0
	return func(w uvm.Work) float64 {
		n := float64(w.In + w.Out + w.Peer)
		if n == 0 {
			return 0
		}
		before := 0.0
		if moved > 0 {
			before = c.Ns(moved)
		}
		moved += n
		return c.Ns(moved) - before
	}
}

// serviceNs is what pieces of work cost at the given prices.
func serviceNs(s *profile.Service, w uvm.Work) float64 {
	const mib = 1 << 20
	return s.Batch.Value*float64(w.Batches) + s.Block.Value*float64(w.Blocks) + s.Fault.Value*float64(w.Faults) + s.Begin.Value*float64(w.Begun) +
		s.Run.Value*float64(w.InRuns+w.OutRuns+w.Peers) + (s.MiB.Value*float64(w.In+w.Out+w.Peer)+s.ZeroMiB.Value*float64(w.Zeroed))/mib
}
