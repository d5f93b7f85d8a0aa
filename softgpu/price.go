package softgpu

import (
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// occupancy is the part of the device's multiprocessors that the launch fills.
func (l *launch) occupancy(dev *device) float64 {
	return min(1, float64(l.grid.Count())/float64(l.resident(dev)))
}

// resident is how many blocks of the launch the device runs at once.
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

// price is the time of a kernel that is done: the floor of any kernel and the
// longest of what it did side by side. Managed pages that had to come over cost
// on top.
func (l *launch) price(o *op) cost {
	dev, prof := o.ctx.dev, o.ctx.drv.prof
	x := o.kernel
	if x == nil || len(x.stats.Traffic) < numCounters {
		return cost{ns: prof.Kernel.Floor.Value}
	}
	// A grid of fewer blocks than multiprocessors uses that part of them.
	part := min(1, float64(l.grid.Count())/float64(max(1, dev.attr(cu.DeviceAttributeMultiprocessorCount))))

	tr := x.stats.Traffic
	f := x.fault(dev, o.start)
	local, remote := split(&tr[countManaged], f)
	memory := float64(accessBytes(&tr[countDevice])) + local
	memoryNs := dev.memoryNs(memory) / part
	instrNs := float64(x.stats.WarpInstructions) / (prof.Kernel.Instructions.Value * part) * 1e9
	instrNs = max(instrNs, l.longestNs(dev, &x.stats), float64(x.stats.Contended)*prof.Kernel.Atomic.Value)
	memoryNs += prof.Kernel.Copied.Ns(float64(x.view.copied.Load()))

	in, out := linkTime(dev, &tr[countHost])
	in += remote / prof.Link.Payload.Value * 1e9
	if dev.attr(cu.DeviceAttributeIntegrated) != 0 { // host memory is the device's own
		memory += float64(sectorBytes(&tr[countHost])) + remote
		memoryNs += in + out
		in, out = 0, 0
	}
	latency, slow := 0.0, in
	if h := &tr[countHost]; h.Reads != [4]uint64{} || h.Atomics > 0 {
		latency = prof.Link.RoundTrip.Value
		slow += x.clean(o.ctx.drv)
	}
	together := 1 - 1/l.rounds(dev, &tr[countHost])
	shorter := min(slow, out)
	// Nobody waits for the last writes to arrive.
	linkNs := max(slow, out) + together*prof.Link.Duplex.Value*shorter + (1-together)*max(0, shorter-prof.Link.RoundTrip.Value)
	if peer := sectorBytes(&tr[countPeer]); peer > 0 {
		linkNs += prof.Copy.Peer.Ns(float64(peer)) - prof.Copy.Peer.Ns(0)
	}
	longest := max(memoryNs, instrNs, linkNs)
	longest = max(longest, float64(x.stats.Nap)) // it must not take less than it saw on a clock
	longest += float64(x.stats.Blocks) * prof.Kernel.Block.Value
	k := cost{ns: prof.Kernel.Floor.Value + latency + longest + f.ns}
	if k.ns > 0 {
		k.use[resMemory] = memory / prof.Kernel.Bandwidth.Value * 1e9 / k.ns
		k.use[resIn], k.use[resOut] = in/k.ns, out/k.ns
	}
	return k
}

// memoryNs is how long the whole device takes for so many bytes of its memory.
func (dev *device) memoryNs(bytes float64) float64 {
	k := &dev.drv.prof.Kernel
	if len(k.Memory.Points) > 0 {
		return k.Memory.Ns(bytes)
	}
	rate := k.Bandwidth.Value
	// Half of the cache holds what the other half's multiprocessors use as well.
	if bytes <= float64(dev.attr(cu.DeviceAttributeL2CacheSize))/2 && k.Cached.Value > 0 {
		rate = k.Cached.Value
	}
	return bytes / rate * 1e9
}

// accessBytes is what requests to device memory move: it gives no less than two
// sectors at a time.
func accessBytes(t *simt.Traffic) uint64 {
	return sectorBytes(t) + sectorSize*(t.Reads[0]+t.Writes[0])
}

// rounds is how often the launch's threads go round reading and writing host
// memory, 16 bytes at a time. All that are on the device read first: what they
// write then moves beside the reads of the next round, and with one round beside
// none.
func (l *launch) rounds(dev *device, t *simt.Traffic) float64 {
	threads := min(l.grid.Count(), uint64(l.resident(dev))) * l.block.Count()
	return max(1, float64(min(t.ReadBytes, t.WriteBytes))/float64(16*threads))
}

// longestNs is how long the longest warp takes, for as many waves of blocks as
// the device runs one after the other.
func (l *launch) longestNs(dev *device, s *simt.Stats) float64 {
	if s.LongestWarp < shortWarp {
		return 0
	}
	waves := math.Ceil(float64(l.grid.Count()) / float64(max(1, l.resident(dev))))
	return waves * float64(s.LongestWarp) * dev.drv.prof.Kernel.Latency.Value
}

// shortWarp is how many instructions are part of any kernel's floor.
const shortWarp = 64

// clean is what reads of page-locked memory take longer by because the host has
// just written it.
func (x *execution) clean(d *Driver) float64 {
	ns := 0.0
	for r, s := range *x.view.own.Load() {
		if r.managed != nil || r.dirty.bytes == 0 {
			continue
		}
		pages := 0
		for i, read := range s.Pages.Read {
			pages += bits.OnesCount64(read &^ s.Pages.Written[i])
		}
		ns += d.clean(r, uint64(pages)<<s.Pages.Shift)
	}
	return ns
}

// split says how many bytes of managed traffic went to the device's own memory
// and how many over the link, by where the touched pages are.
func split(t *simt.Traffic, f faults) (local, remote float64) {
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

// linkTime is how long a kernel's requests to host memory keep the link busy in
// each direction, in nanoseconds. Reads answer in one, bounded by the requests
// that can be under way; writes are posted the other way; an atomic is both, a
// lane at a time.
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
