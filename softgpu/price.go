package softgpu

import (
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
	"github.com/ferrygpu/ferry/internal/uvm"
	"github.com/ferrygpu/ferry/profile"
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

// occupancy returns the fraction of the device's multiprocessors that the
// launch fills.
func (l *launch) occupancy(dev *device) float64 {
	return min(1, float64(l.grid.Count())/float64(l.resident(dev)))
}

// resident returns how many blocks of the launch the device runs at once.
func (l *launch) resident(dev *device) int {
	threads := int(l.block.Count())
	per := max(1, dev.attr(cu.DeviceAttributeMaxThreadsPerMultiprocessor)/threads)
	if n := dev.attr(cu.DeviceAttributeMaxBlocksPerMultiprocessor); n > 0 {
		per = min(per, n)
	}
	if used := l.fn.kernel.SharedBytes + int(l.shared); used > 0 {
		used += dev.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock)
		per = min(per, max(1, dev.attr(cu.DeviceAttributeMaxSharedMemoryPerMultiprocessor)/used))
	}
	return per * max(1, dev.attr(cu.DeviceAttributeMultiprocessorCount))
}

// price returns the time of a kernel that is done. It is the floor of any
// kernel, plus the longest of its concurrent parts, plus the faults on managed
// pages.
func (l *launch) price(o *op) cost {
	dev, prof := o.ctx.dev, o.ctx.drv.prof
	x := o.kernel
	if x == nil || len(x.stats.Traffic) < numCounters {
		return cost{ns: prof.Kernel.Floor.Value}
	}
	// A grid with fewer blocks than multiprocessors uses only some of them.
	part := min(1, float64(l.grid.Count())/float64(max(1, dev.attr(cu.DeviceAttributeMultiprocessorCount))))

	tr := x.stats.Traffic
	f := x.fault(dev, o.start)
	local, remote := splitManaged(&tr[countManaged], f)
	memory := float64(accessBytes(&tr[countDevice])) + local
	memoryNs := dev.memoryNs(memory) / part
	instrNs := float64(x.stats.WarpInstructions) / (prof.Kernel.Instructions.Value * part) * 1e9
	instrNs = max(instrNs, l.longestNs(dev, &x.stats), float64(x.stats.Contended)*prof.Kernel.Atomic.Value)
	memoryNs += prof.Kernel.Copied.Ns(float64(x.view.copiedIn.Load()))

	in, out := linkTime(dev, &tr[countHost])
	in += remote / prof.Link.Payload.Value * 1e9
	if dev.attr(cu.DeviceAttributeIntegrated) != 0 { // host memory is the device's own memory
		memory += float64(sectorBytes(&tr[countHost])) + remote
		memoryNs += in + out
		in, out = 0, 0
	}
	latency, slow := 0.0, in
	if h := &tr[countHost]; h.Reads != [4]uint64{} || h.Atomics > 0 {
		latency = prof.Link.RoundTrip.Value
		slow += x.dirtyReadNs(o.ctx.drv)
	}
	together := 1 - 1/l.rounds(dev, &tr[countHost])
	shorter := min(slow, out)
	// The kernel does not wait for its last writes to arrive.
	linkNs := max(slow, out) + together*prof.Link.Duplex.Value*shorter + (1-together)*max(0, shorter-prof.Link.RoundTrip.Value)
	if peer := sectorBytes(&tr[countPeer]); peer > 0 {
		linkNs += prof.Copy.Peer.Ns(float64(peer)) - prof.Copy.Peer.Ns(0)
	}
	longest := max(memoryNs, instrNs, linkNs)
	longest = max(longest, float64(x.stats.Nap)) // it must not take less time than it saw on a clock
	longest += float64(x.stats.Blocks) * prof.Kernel.Block.Value
	k := cost{ns: prof.Kernel.Floor.Value + latency + longest + f.ns}
	if k.ns > 0 {
		k.use[resMemory] = memory / prof.Kernel.Bandwidth.Value * 1e9 / k.ns
		k.use[resIn], k.use[resOut] = in/k.ns, out/k.ns
	}
	return k
}

// memoryNs returns the time in which the whole device moves so many bytes of
// its memory.
func (dev *device) memoryNs(bytes float64) float64 {
	k := &dev.drv.prof.Kernel
	if len(k.Memory.Points) > 0 {
		return k.Memory.Ns(bytes)
	}
	rate := k.Bandwidth.Value
	// Each half of the cache also holds copies of lines that belong to the
	// other half.
	if bytes <= float64(dev.attr(cu.DeviceAttributeL2CacheSize))/2 && k.Cached.Value > 0 {
		rate = k.Cached.Value
	}
	return bytes / rate * 1e9
}

// accessBytes returns the bytes that requests move in device memory, which
// transfers at least two sectors at a time.
func accessBytes(t *simt.Traffic) uint64 {
	return sectorBytes(t) + sectorSize*(t.Reads[0]+t.Writes[0])
}

// rounds returns how often the launch's threads repeat reading and writing host
// memory, 16 bytes at a time. All resident threads read first. Their writes
// then overlap with the reads of the next round, so a single round has no
// overlap.
func (l *launch) rounds(dev *device, t *simt.Traffic) float64 {
	threads := min(l.grid.Count(), uint64(l.resident(dev))) * l.block.Count()
	return max(1, float64(min(t.ReadBytes, t.WriteBytes))/float64(16*threads))
}

// longestNs returns the time of the longest warp, for as many waves of blocks
// as the device runs one after the other.
func (l *launch) longestNs(dev *device, s *simt.Stats) float64 {
	if s.LongestWarp < shortWarp {
		return 0
	}
	waves := math.Ceil(float64(l.grid.Count()) / float64(max(1, l.resident(dev))))
	return waves * float64(s.LongestWarp) * dev.drv.prof.Kernel.Latency.Value
}

// shortWarp is the number of instructions that any kernel's floor includes.
const shortWarp = 64

// dirtyReadNs returns the extra time of reads of page-locked memory that the
// host has just written.
func (x *execution) dirtyReadNs(d *Driver) float64 {
	ns := 0.0
	for r, s := range *x.view.own.Load() {
		if r.managed != nil || r.dirty.bytes == 0 {
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

// splitManaged divides the bytes of managed traffic by the places of the
// touched pages. Some go to the device's own memory, the others over the link.
func splitManaged(t *simt.Traffic, f faults) (local, remote float64) {
	all := float64(f.where.Local + f.where.Remote)
	total := float64(sectorBytes(t))
	if all == 0 {
		return total, 0
	}
	remote = total * float64(f.where.Remote) / all
	return total - remote, remote
}

const sectorSize = 32

func sectorBytes(t *simt.Traffic) uint64 { return sectorSize * (t.ReadSectors + t.WriteSectors) }

// linkTime returns how long a kernel's requests to host memory occupy the link
// in each direction, in nanoseconds. Answers to reads use one direction, and
// are bounded by the number of requests in flight. Posted writes use the other.
// An atomic uses both, one lane at a time.
func linkTime(dev *device, t *simt.Traffic) (in, out float64) {
	link := &dev.drv.prof.Link
	reads, readBytes := 0.0, 0.0
	for i, n := range t.Reads {
		reads += float64(n)
		readBytes += float64(n) * (float64(sectorSize*(i+1)) + link.Header.Value)
	}
	for i, n := range t.Writes {
		out += float64(n) * (float64(sectorSize*(i+1)) + link.Header.Value)
	}
	atomics := float64(t.Atomics)
	reads += atomics
	readBytes += atomics * (sectorSize + link.Header.Value)
	out += atomics * (sectorSize + link.Header.Value)
	in = readBytes / link.Payload.Value * 1e9
	if link.Tags.Value > 0 {
		in = max(in, reads*link.RoundTrip.Value/link.Tags.Value)
	}
	return in, out / link.Payload.Value * 1e9
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
	return partNs(s, w) + s.Batch.Value*float64(w.Batches) + s.Block.Value*float64(w.Blocks) + s.Fault.Value*float64(w.Faults) + s.Begin.Value*float64(w.NewBlocks) +
		s.Run.Value*float64(w.InRuns+w.OutRuns+w.Peers) + (s.MiB.Value*float64(w.In+w.Out+w.Peer)+s.ZeroMiB.Value*float64(w.Zeroed))/mib
}
