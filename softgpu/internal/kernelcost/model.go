package kernelcost

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// architecture is what published measurements say of the multiprocessors of one generation.
// Latencies are in cycles of the multiprocessor's clock.
type architecture struct {
	plain  int64 // a dependent 32-bit operation
	double int64 // a dependent f64 operation
	shared int64 // a load of shared memory
	l1     int64 // a load that the first-level cache serves
	l2     int64 // a load that the second-level cache serves
	memory int64 // a load of device memory

	l1Bytes int  // of a multiprocessor, with its shared memory
	global  bool // the first-level cache keeps loads of global memory
}

// architectures has the generations by the compute capability from which on they hold, the
// newest first. The figures are from microbenchmarks: Luo et al. (arXiv 2402.13499) for
// Hopper, Ada and Ampere; Jia et al. (arXiv 1804.06826 and 1903.07486) for Volta, Turing and
// the older ones back to Kepler; Wong et al. (ISPASS 2010) for Tesla. Those of Fermi are
// from Mei and Chu (arXiv 1509.02308). Sizes are from NVIDIA's guides.
var architectures = []struct {
	from int // 10 * major + minor
	architecture
}{
	{90, architecture{4, 8, 29, 41, 263, 479, 256 << 10, true}},
	{89, architecture{4, 48, 30, 43, 273, 542, 128 << 10, true}},
	{87, architecture{4, 48, 29, 38, 262, 466, 192 << 10, true}},
	{86, architecture{4, 48, 29, 38, 262, 466, 128 << 10, true}},
	{80, architecture{4, 8, 29, 38, 262, 466, 192 << 10, true}},
	{75, architecture{4, 48, 19, 32, 188, 434, 96 << 10, true}},
	{70, architecture{4, 8, 19, 28, 193, 375, 128 << 10, true}},
	{61, architecture{6, 48, 24, 82, 234, 545, 24 << 10, true}},
	{60, architecture{6, 8, 24, 82, 234, 545, 24 << 10, true}},
	{50, architecture{6, 48, 23, 82, 207, 368, 24 << 10, false}},
	{30, architecture{9, 10, 26, 35, 200, 301, 16 << 10, false}},
	{20, architecture{18, 22, 50, 96, 300, 600, 16 << 10, true}},
	{0, architecture{24, 48, 36, 0, 510, 510, 0, false}},
}

// machine is a device of a profile.
type machine struct{ prof *profile.Profile }

func (dev machine) attr(a cu.DeviceAttribute) int {
	v, _ := dev.prof.Attribute(a)
	return int(v)
}

// architecture returns the generation of the device.
func (dev machine) architecture() *architecture {
	cc := 10*dev.attr(cu.DeviceAttributeComputeCapabilityMajor) + dev.attr(cu.DeviceAttributeComputeCapabilityMinor)
	for i := range architectures {
		if cc >= architectures[i].from {
			return &architectures[i].architecture
		}
	}
	return &architectures[len(architectures)-1].architecture
}

// cycle returns the time of one cycle of the multiprocessors, in nanoseconds.
func (dev machine) cycle() float64 {
	if khz := dev.attr(cu.DeviceAttributeClockRate); khz > 0 {
		return 1e6 / float64(khz)
	}
	return 1
}

// cacheLatency and memoryLatency return the times of loads that the second-level cache
// serves, and of loads that it does not serve, in nanoseconds.
func (dev machine) cacheLatency() float64 {
	if n := dev.prof.Kernel.CacheLatency.Value; n > 0 {
		return n
	}
	return float64(dev.architecture().l2) * dev.cycle()
}

func (dev machine) memoryLatency() float64 {
	if n := dev.prof.Kernel.MemoryLatency.Value; n > 0 {
		return n
	}
	return float64(dev.architecture().memory) * dev.cycle()
}

// memoryNs returns the time in which the whole device moves a number of bytes of
// its memory.
func (dev machine) memoryNs(bytes float64) float64 {
	k := &dev.prof.Kernel
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

// linkLatency returns the time of one read of host memory that is alone on the link.
func (dev machine) linkLatency() float64 {
	link := &dev.prof.Link
	switch {
	case dev.attr(cu.DeviceAttributeIntegrated) != 0:
		return dev.memoryLatency()
	case link.Latency.Value > 0:
		return link.Latency.Value
	}
	return link.RoundTrip.Value
}

// Resident returns how many blocks of the launch the device runs at once.
func (l *Launch) Resident() int {
	return l.perProcessor() * max(1, machine{l.Profile}.attr(cu.DeviceAttributeMultiprocessorCount))
}

// perProcessor returns how many blocks of the launch one multiprocessor runs at once.
func (l *Launch) perProcessor() int {
	dev := machine{l.Profile}
	per := max(1, dev.attr(cu.DeviceAttributeMaxThreadsPerMultiprocessor)/int(l.Threads))
	if n := dev.attr(cu.DeviceAttributeMaxBlocksPerMultiprocessor); n > 0 {
		per = min(per, n)
	}
	if used := l.Shared; used > 0 {
		used += dev.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock)
		per = min(per, max(1, dev.attr(cu.DeviceAttributeMaxSharedMemoryPerMultiprocessor)/used))
	}
	return per
}

// longestLatency bounds the latencies of strange profiles, in ns, so that sums of them in
// picoseconds do not overflow.
const longestLatency = 1e9

// Model describes the device to the interpreter, which follows some blocks of the launch.
func (l *Launch) Model() *simt.Model {
	dev := machine{l.Profile}
	a, k := dev.architecture(), &dev.prof.Kernel
	ps := func(ns float64) int64 { return int64(1000 * min(ns, longestLatency)) }
	cycle := max(1, ps(dev.cycle())) // every instruction takes time
	m := &simt.Model{
		Cycle: cycle, Classes: a.classes(), Guard: 2*a.plain + 1, Branch: 2*a.plain - 1,
		Shared: a.shared * cycle, L1: a.l1 * cycle,
		Latency: make([]int64, NumCounters), Cached: make([]bool, NumCounters), Locked: make([]bool, NumCounters),
		Warps: l.perProcessor() * int((l.Threads+31)/32),
	}
	for i := range m.Latency {
		m.Latency[i] = ps(dev.cacheLatency())
	}
	m.Latency[CountHost] = ps(dev.linkLatency())
	m.Latency[CountPeer] = ps(max(dev.linkLatency(), dev.prof.Translation.Peer.Value))
	m.Locked[CountHost] = true
	integrated := dev.attr(cu.DeviceAttributeIntegrated) != 0
	m.Cached[CountDevice], m.Cached[CountManaged] = a.global, a.global
	m.Cached[CountHost] = a.global && !integrated
	bytes := a.l1Bytes
	if n := int(k.L1.Value); n > 0 {
		bytes = n
	}
	m.Lines = max(0, bytes-l.sharedOn(dev)) / 128
	return m
}

// sharedOn returns how much shared memory the launch's blocks on one multiprocessor use. It
// and the first-level cache have one memory, from compute capability 7.0 on.
func (l *Launch) sharedOn(dev machine) int {
	if dev.attr(cu.DeviceAttributeComputeCapabilityMajor) < 7 {
		return 0
	}
	one := l.Shared + dev.attr(cu.DeviceAttributeReservedSharedMemoryPerBlock)
	return min(int(l.Blocks), l.perProcessor()) * one
}

// classes returns what instructions need of a multiprocessor, in cycles. A class that stands
// for a sequence of instructions has the sum of what they need: a division of integers is a
// reciprocal, two conversions, products and corrections.
func (a *architecture) classes() (c [simt.NumClasses]simt.Work) {
	one := a.plain
	work := func(k simt.Class, latency, issue, special, double int64) {
		c[k] = simt.Work{Latency: latency, Issue: issue, Special: special, Double: double}
	}
	const unit = 8 // cycles of a special function unit for a warp: 4 lanes a cycle
	f64 := int64(2)
	if a.double > 2*one+2 { // few f64 units
		f64 = 64
	}
	work(simt.Plain, one, 1, 0, 0)
	work(simt.Compare, one, 1, 0, 0)
	work(simt.Wide, one+2, 2, 0, 0)
	work(simt.WideProduct, 3*one, 4, 0, 0)
	work(simt.Special, 5*one, 1, unit, 0)
	// 1000 dependent roots took 22 us on an H200, and 32 us if exact.
	work(simt.Root, 10*one, 4, unit, 0)
	work(simt.Quotient, 10*one, 4, unit, 0)
	// 16 warps on each quarter of an H200's multiprocessors did a division in 17 cycles, and
	// a root in 11. A division looks for special values in the same unit as the reciprocal.
	work(simt.ExactQuotient, 15*one, 10, 2*unit, 0)
	work(simt.ExactRoot, 15*one, 10, 11, 0)
	work(simt.Divide, 16*one, 16, 2*unit, 0)
	work(simt.DivideWide, 60*one, 70, 2*unit, 0)
	work(simt.Double, a.double, 1, 0, f64)
	// Those warps did a division or a root of f64 and an addition in 26 cycles. Alone a
	// division took 130 cycles and a root 82.
	work(simt.DoubleQuotient, 16*a.double, 12, unit, 12*f64)
	work(simt.DoubleRoot, 11*a.double, 12, unit, 12*f64)
	work(simt.Convert, 3*one+2, 1, 4, 0)
	work(simt.ConvertWide, 4*one, 1, unit, 0)
	work(simt.Exchange, 6*one-1, 1, 0, 0)
	work(simt.Barrier, 5*one, 1, 0, 0)
	work(simt.Matrix, 8*one, 2, 0, 0)
	return c
}
