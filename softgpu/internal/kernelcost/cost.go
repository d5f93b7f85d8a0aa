package kernelcost

import (
	"math"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// Launch is what the cost of a kernel needs of its launch.
type Launch struct {
	Profile *profile.Profile // of the machine
	Blocks  uint64           // of the grid
	Threads uint64           // of a block
	Shared  int              // bytes of shared memory of a block, static and dynamic
}

// Run is what a kernel that is done has done.
type Run struct {
	Stats *simt.Stats // with the traffic by the counters of this package

	FaultNs       float64 // time of the faults on managed pages
	Local, Remote uint64  // bytes of touched pages of managed memory: in device memory, and over the link
	Copied        uint64  // bytes of device memory that copies had just written

	// DirtyReadNs returns the extra time of reads of page-locked memory that the host has just
	// written. It is called at most once.
	DirtyReadNs func() float64
}

// Cost is the time of a kernel that runs alone, and what it takes of its machine.
type Cost struct {
	Parts   Parts
	Memory  float64 // bytes of device memory
	In, Out float64 // time of the link in each direction, in nanoseconds
}

// Price returns the cost of a kernel that is done. Its time is the floor of any kernel, plus the
// longest of its concurrent parts, plus the faults on managed pages.
func (l *Launch) Price(run *Run) *Cost {
	k := kernel{l: l, dev: machine{l.Profile}, run: run}
	// A grid with fewer blocks than multiprocessors uses only some of them.
	k.part = min(1, float64(l.Blocks)/float64(max(1, k.dev.attr(cu.DeviceAttributeMultiprocessorCount))))
	k.filter()
	parts := k.parts()
	return &Cost{Parts: parts, Memory: k.memory, In: k.in, Out: k.out}
}

// kernel is a kernel whose cost is computed. Times are in nanoseconds. The mechanisms that
// run at once are joined by the longest. docs/softgpu/time.md has the formulas.
type kernel struct {
	l   *Launch
	dev machine
	run *Run

	part    float64 // of the multiprocessors that the grid uses
	beyond  [NumCounters]simt.Traffic
	memory  float64 // bytes of device memory
	in, out float64 // time of the link in each direction
}

// memoryNs returns the time of the traffic with device memory and its second-level cache.
func (k *kernel) memoryNs() float64 {
	local, remote := k.splitManaged()
	k.memory = float64(accessBytes(&k.beyond[CountDevice], k.far() < 1)) + local
	k.memory += k.atomicBytes()
	ns := k.dev.memoryNs(k.memory) / k.part
	ns += k.dev.prof.Kernel.Copied.Ns(float64(k.run.Copied))
	k.in += remote / k.dev.prof.Link.Payload.Value * 1e9
	if k.dev.attr(cu.DeviceAttributeIntegrated) != 0 {
		k.memory += float64(sectorBytes(&k.beyond[CountHost])) + remote
	}
	return ns
}

// splitManaged divides the bytes of managed traffic by the places of the touched pages. Some go to
// the device's own memory, the others over the link.
func (k *kernel) splitManaged() (local, remote float64) {
	all := float64(k.run.Local + k.run.Remote)
	total := float64(sectorBytes(&k.beyond[CountManaged]))
	if all == 0 {
		return total, 0
	}
	remote = total * float64(k.run.Remote) / all
	return total - remote, remote
}

// atomicBytes returns what atomic operations of warps move. In the second-level cache one
// takes as long as a load and half a store of a sector. Otherwise memory reads two sectors
// and gets one back.
func (k *kernel) atomicBytes() float64 {
	n := float64(k.beyond[CountDevice].AtomicSectors) * sectorSize
	return n * (1.5 + 1.5*k.far())
}

// far returns the part of what the kernel touches of device memory that the second-level
// cache does not keep. Each half of the cache also holds copies of lines of the other half.
func (k *kernel) far() float64 {
	t := &k.beyond[CountDevice]
	lines := t.AtomicSectors
	for i := range t.Reads {
		lines += t.Reads[i] + t.Writes[i]
	}
	bytes := lines * lineSize
	if s := &k.run.Stats.Sample; s.Blocks > 0 {
		bytes = min(bytes, lineSize*(s.Loads[CountDevice].High-s.Loads[CountDevice].Low+1))
	}
	half := float64(k.dev.attr(cu.DeviceAttributeL2CacheSize)) / 2
	if half == 0 {
		return 1
	}
	return min(1, max(0, float64(bytes)/half-1))
}

// instructionNs returns the time in which the multiprocessors issue all instructions, or in
// which the special function units or the f64 units do their part.
func (k *kernel) instructionNs() float64 {
	s, prof := k.run.Stats, &k.dev.prof.Kernel
	ns := float64(s.WarpInstructions) / (prof.Instructions.Value * k.part) * 1e9
	if n := float64(s.Sample.Instructions); n > 0 {
		busiest := float64(max(s.Sample.Special, s.Sample.Double)) / n
		units := quarters * k.part * float64(k.dev.attr(cu.DeviceAttributeMultiprocessorCount))
		ns = max(ns, float64(s.WarpInstructions)*busiest*k.dev.cycle()/units)
	}
	return ns
}

// quarters is how many parts a multiprocessor has. Each issues for its own warps and has its
// own special function and f64 units.
const quarters = 4

// atomicNs returns the time of atomic operations on the busiest slice of the second-level
// cache, or of the longest queue for host memory. Each of them locks a line of the CPU's
// caches for the way there and back.
func (k *kernel) atomicNs() float64 {
	prof := k.dev.prof
	lock := prof.Link.Lock.Value
	if lock == 0 {
		lock = k.dev.linkLatency()
	}
	if k.dev.attr(cu.DeviceAttributeHostNativeAtomicSupported) != 0 || k.dev.attr(cu.DeviceAttributeIntegrated) != 0 {
		lock = 0
	}
	return max(float64(k.run.Stats.Contended)*prof.Kernel.Atomic.Value, float64(k.run.Stats.Locked)*lock)
}

// scatterNs returns the time of stores to parts of the busiest line of device memory. The
// second-level cache does them one after the other: each reads the line's check bits, adds
// its word and writes both back. Stores that wait long join others: a million stores to 1 to
// 16 KiB take at most 40 to 79 us on an H200.
func (k *kernel) scatterNs() float64 {
	n := min(float64(k.run.Stats.Scattered), float64(k.beyond[CountDevice].WriteSectors)/storeQueues)
	return n * k.dev.prof.Kernel.Scattered.Value
}

// storeQueues is how many stores to parts of lines proceed at once if many wait.
const storeQueues = 200

// lookupNs returns the time in which the first-level caches look up the lines of all loads,
// one in a cycle each.
func (k *kernel) lookupNs() float64 {
	n := uint64(0)
	for i := range k.run.Stats.Traffic {
		for _, r := range k.run.Stats.Traffic[i].Reads {
			n += r
		}
	}
	return float64(n) * k.dev.cycle() / (k.part * float64(max(1, k.dev.attr(cu.DeviceAttributeMultiprocessorCount))))
}

// linkNs returns how long the link is busy, and the latency of its first answer.
func (k *kernel) linkNs() (ns, latency float64) {
	dev, link := k.dev, &k.dev.prof.Link
	host := &k.beyond[CountHost]
	in, out := linkTime(dev, host, k.hostBytes())
	k.in += in
	k.out = out
	if dev.attr(cu.DeviceAttributeIntegrated) != 0 {
		return 0, 0
	}
	slow := k.in
	if t := &k.run.Stats.Traffic[CountHost]; t.Reads != [4]uint64{} || t.Atomics > 0 {
		latency = link.RoundTrip.Value
		slow += k.run.DirtyReadNs()
	}
	together := 1 - 1/k.l.rounds(host)
	shorter := min(slow, k.out)
	// The kernel does not wait for its last writes to arrive.
	ns = max(slow, k.out) + together*link.Duplex.Value*shorter + (1-together)*max(0, shorter-link.RoundTrip.Value)
	if peer := sectorBytes(&k.beyond[CountPeer]); peer > 0 {
		ns += dev.prof.Copy.Peer.Ns(float64(peer)) - dev.prof.Copy.Peer.Ns(0)
	}
	return ns, latency
}

// hostBytes returns the size of the part of host memory that the kernel touches.
func (k *kernel) hostBytes() float64 {
	t := &k.beyond[CountHost]
	bytes := float64(t.Reads[0]+t.Reads[1]+t.Reads[2]+t.Reads[3]+t.Atomics) * lineSize
	if s := &k.run.Stats.Sample; s.Blocks > 0 {
		bytes = min(bytes, float64(s.Loads[CountHost].High-s.Loads[CountHost].Low+1)*lineSize)
	}
	return bytes
}

// requestNs returns the least time from one read over the link to the next, for reads of
// memory of within bytes. The device keeps the translations of some host memory. Requests beyond it
// are bounded by the number that can wait for their answer.
func requestNs(link *profile.Link, within float64) float64 {
	far := 0.0
	if link.Tags.Value > 0 {
		far = link.RoundTrip.Value / link.Tags.Value
	}
	if link.Request.Value == 0 || within <= 0 {
		return far
	}
	known := min(1, link.Reach.Value/within)
	return known*link.Request.Value + (1-known)*max(far, link.Request.Value)
}

// linkTime returns how long a kernel's requests to host memory occupy the link in each
// direction, in nanoseconds. Answers to reads use one direction, and are bounded by the rate
// of requests. Posted writes use the other, and are bounded by the rate at which the host
// takes them. An atomic uses both, one lane at a time.
func linkTime(dev machine, t *simt.Traffic, within float64) (in, out float64) {
	link := &dev.prof.Link
	reads, writes := float64(t.Atomics), float64(t.Atomics)
	readBytes := float64(t.Atomics) * (sectorSize + link.Header.Value)
	writeBytes := readBytes
	for i := range t.Reads {
		packet := float64(sectorSize*(i+1)) + link.Header.Value
		reads += float64(t.Reads[i])
		writes += float64(t.Writes[i])
		readBytes += float64(t.Reads[i]) * packet
		writeBytes += float64(t.Writes[i]) * packet
	}
	requests := reads * requestNs(link, within)
	return max(readBytes/link.Payload.Value*1e9, requests), max(writeBytes/link.Payload.Value*1e9, writes*link.Write.Value)
}

// chainNs returns the time of the longest warp, for as many waves of blocks as the device
// runs one after the other. It is a bound for kernels of few threads, which wait for the
// results of their own instructions and loads.
func (k *kernel) chainNs() float64 {
	s := k.run.Stats
	latency := k.dev.prof.Kernel.Latency.Value
	if s.LongestWarp < shortWarp && s.Sample.Waited == 0 {
		return 0
	}
	waves := math.Ceil(float64(k.l.Blocks) / float64(max(1, k.l.Resident())))
	if s.Sample.Blocks == 0 {
		return waves * float64(s.LongestWarp) * latency
	}
	chain := float64(s.Sample.Chain)/1000 + k.farNs() + k.crowdedNs()
	if s.LongestWarp > 2*s.Sample.Longest { // it was not among the sampled ones
		chain = max(chain, float64(s.LongestWarp)*latency)
	}
	mean := float64(s.Sample.ChainSum) / float64(s.Sample.Blocks) / float64(s.Sample.Chain)
	floor := k.shortNs()
	if s.Sample.Waited > 0 { // that of kernels that load
		floor += k.dev.cacheLatency()
	}
	return max(0, chain*(1+(waves-1)*mean)+k.togetherNs()-floor)
}

// togetherNs returns the additional time of the longest warp's loads of host memory that all
// multiprocessors load at the same time: they get a line one after the other. Blocks of
// later waves find it in the first-level cache.
func (k *kernel) togetherNs() float64 {
	s := &k.run.Stats.Sample
	loads := &s.Loads[CountHost]
	if loads.Lines == 0 || k.dev.attr(cu.DeviceAttributeIntegrated) != 0 {
		return 0
	}
	latency := k.dev.linkLatency()
	waits := min(float64(s.Waits[CountHost]), float64(s.Waited)/1000/latency) // loads in flight together are one wait
	together := waits * float64(loads.AtOnce) / float64(loads.Lines)
	return together * max(0, k.readers()-1) * latency / linesTogether
}

// readers returns how many multiprocessors load the same lines. The second one of a pair
// counts half. Blocks use the first ones of all pairs before a second one.
func (k *kernel) readers() float64 {
	all := float64(k.dev.attr(cu.DeviceAttributeMultiprocessorCount))
	n := k.part * all
	return n - max(0, n-all/2)/2
}

// linesTogether is how many multiprocessors get the same line of host memory in the latency
// of the link. On an H200, 33, 66 and 132 blocks of 64 loads each, one to a multiprocessor,
// took 211, 340 and 455 us if they loaded the same lines, and 97, 107 and 216 us if not. So
// each of the first 66 adds 61 ns to a load, and each of the others 27 ns. Hopper has 66
// pairs of multiprocessors (NVIDIA H100 Tensor Core GPU Architecture).
const linesTogether = 19

// farNs returns the additional time of the longest warp's loads of device memory that the
// second-level cache does not serve. What a copy engine has just written lies partly in
// the other half of the cache and partly in memory.
func (k *kernel) farNs() float64 {
	n := float64(k.run.Stats.Sample.Waits[CountDevice] + k.run.Stats.Sample.Waits[CountManaged])
	more := max(0, k.dev.memoryLatency()-k.dev.cacheLatency())
	far := k.far()
	if k.run.Copied > 0 {
		far = max(far, 0.5)
	}
	return n * more * far
}

// crowdedNs returns the additional time of loads of lines that other blocks push out of the
// first-level cache.
func (k *kernel) crowdedNs() float64 {
	s := &k.run.Stats.Sample
	if s.Alike {
		return 0
	}
	near := float64(s.Crowded[CountDevice]+s.Crowded[CountManaged]) * k.dev.cacheLatency()
	return near + float64(s.Crowded[CountHost])*k.dev.linkLatency()
}

// tailNs returns what a warp still computes when the last answer from the host has arrived.
func (k *kernel) tailNs() float64 {
	s := &k.run.Stats.Sample
	if s.Blocks == 0 {
		return 0
	}
	n := max(1, float64(s.Waits[CountHost]))
	computes := float64(s.Chain-s.Waited) / 1000 / n
	return max(0, computes-k.shortNs())
}

// shortWarp is the number of instructions that any kernel's floor includes.
const shortWarp = 64

// shortNs returns the time of the instructions that any kernel's floor includes.
func (k *kernel) shortNs() float64 {
	if latency := k.dev.prof.Kernel.Latency.Value; latency > 0 {
		return shortWarp * latency
	}
	return shortWarp * float64(k.dev.architecture().plain) * k.dev.cycle()
}

// rounds returns how often the launch's threads repeat reading and writing host
// memory, 16 bytes at a time. All resident threads read first. Their writes
// then overlap with the reads of the next round, so a single round has no
// overlap.
func (l *Launch) rounds(t *simt.Traffic) float64 {
	threads := min(l.Blocks, uint64(l.Resident())) * l.Threads
	return max(1, float64(min(t.ReadBytes, t.WriteBytes))/float64(16*threads))
}
