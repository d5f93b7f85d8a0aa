package softgpu

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// cost is the time and bandwidth of an operation that runs alone.
type cost struct {
	ns  float64
	use [numResources]float64 // fraction of each of the device's resources
}

type resource int

const (
	resMemory resource = iota // the device's own memory
	resIn                     // the link towards the device
	resOut                    // the link away from the device
	numResources
)

// curveCost returns the cost of n bytes that use one resource. The curve's
// fixed part uses no bandwidth.
func curveCost(c *profile.Curve, n uint64, use resource) cost {
	ns := c.Ns(float64(n))
	k := cost{ns: ns}
	if ns > 0 {
		k.use[use] = (ns - c.Ns(0)) / ns
	}
	return k
}

// atLeast makes k last at least ns, with the same total use.
func (k *cost) atLeast(ns float64) {
	if ns <= k.ns {
		return
	}
	for i := range k.use {
		k.use[i] *= k.ns / ns
	}
	k.ns = ns
}

// on describes the launch on a device.
func (l *launch) on(dev *device) *kernelcost.Launch {
	return &kernelcost.Launch{
		Profile: dev.drv.prof, Blocks: l.grid.Count(), Threads: l.block.Count(), Shared: l.fn.kernel.SharedBytes + int(l.shared),
	}
}

// price returns the time of a kernel that is done, and what it takes of the device.
func (l *launch) price(o *op) cost {
	dev, prof := o.ctx.dev, o.ctx.drv.prof
	x := o.kernel
	if x == nil || len(x.stats.Traffic) < kernelcost.NumCounters {
		return cost{ns: prof.Kernel.Floor.Value}
	}
	f := x.fault(dev, o.start)
	k := l.on(dev).Price(&kernelcost.Run{
		Stats: &x.stats, FaultNs: f.ns, Local: f.where.Local, Remote: f.where.Remote, Copied: x.view.takeCopied(),
		DirtyReadNs: func() float64 { return x.dirtyReadNs(o.ctx.drv) },
	})
	o.parts = &k.Parts
	c := cost{ns: k.Parts.Total()}
	if c.ns > 0 {
		c.use[resMemory] = k.Memory / prof.Kernel.Bandwidth.Value * 1e9 / c.ns
		c.use[resIn], c.use[resOut] = k.In/c.ns, k.Out/c.ns
	}
	return c
}

// occupancy returns the fraction of the device's multiprocessors that the
// launch fills.
func (l *launch) occupancy(dev *device) float64 {
	return min(1, float64(l.grid.Count())/float64(l.on(dev).Resident()))
}

// dirtyReadNs returns the extra time of reads of page-locked memory that the
// host has just written.
func (x *execution) dirtyReadNs(d *Driver) float64 {
	ns := 0.0
	own := *x.view.own.Load()
	for _, r := range inOrder(own) {
		s := own[r]
		if r.managed != nil || r.dirty.bytes == 0 || s.Pages == nil {
			continue
		}
		pages := 0
		for i, read := range s.Pages.Read {
			pages += bits.OnesCount64(read &^ s.Pages.Written[i])
		}
		ns += d.dirtyReadNs(r, uint64(pages)<<s.Pages.Shift)
	}
	return ns
}

// inOrder returns the regions of a kernel by their addresses, so that sums over
// them are the same in every run.
func inOrder(own map[*region]*simt.Segment) []*region {
	return slices.SortedFunc(maps.Keys(own), func(a, b *region) int { return cmp.Compare(a.base, b.base) })
}

// touchWindow groups a kernel's first accesses: those in one window fault
// concurrently.
const touchWindow = simt.OrderStep

// faults is the result of a kernel's touches of managed memory.
type faults struct {
	where uvm.Locality
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
	f.ns += f.work.Slept + x.dirtyManagedNs(d, f.where.Remote)
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

// firstFaults is the size of a kernel's first batch of faults, which wakes the
// driver. Faults that arrive while it is served form another batch.
const firstFaults = 8

// deviceFaults prices batches of a device's faults. If the profile has no
// prices for the parts of a service, all batches together cost what its curve
// gives for the bytes.
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

// hostFaults prices batches of the CPU's faults.
func hostFaults(m *profile.Managed) uvm.Price {
	if m.HostService.Known() {
		return func(w uvm.Work) float64 { return serviceNs(&m.HostService, w) }
	}
	return byCurve(&m.HostFault)
}

// byCurve prices parts of a transfer so that their sum is the curve's value.
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

// serviceNs returns the cost of w at the given prices.
func serviceNs(s *profile.Service, w uvm.Work) float64 {
	const mib = 1 << 20
	return partNs(s, w) + s.Collapse.Value*float64(w.Collapsed) + s.Batch.Value*float64(w.Batches) + s.Block.Value*float64(w.Blocks) + s.Fault.Value*float64(w.Faults) + s.Begin.Value*float64(w.NewBlocks) +
		s.Run.Value*float64(w.InRuns+w.OutRuns+w.Peers) + (s.MiB.Value*float64(w.In+w.Out+w.Peer)+s.ZeroMiB.Value*float64(w.Zeroed))/mib
}
