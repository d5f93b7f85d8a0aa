package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// Shared and local memory, the kernel's arguments and the code have windows at the
// top of the generic address space, where no host or device address is.
const (
	windows      = 0xffff_ff00_0000_0000
	windowBits   = 32
	sharedWindow = windows
	localWindow  = windows + 1<<windowBits
	paramWindow  = windows + 2<<windowBits
	codeWindow   = windows + 3<<windowBits
	codeStep     = 16
)

// access describes what a load, store or atomic does with memory.
type access struct {
	typ      ptx.Type
	size     uint64 // of an element
	bytes    uint64 // that each lane touches
	regs     []int32
	off      uint64
	space    ptx.Space
	addr32   bool // the base is a 32-bit register
	frameRel bool // offsets count from the local memory of the frame
	strong   bool // ordered: volatile, relaxed, acquire, release
	uncached bool // a load that does not use the cache of its multiprocessor
	write    bool
	atomic   bool
	compare  bool  // an atomic compare and swap
	releases fence // of earlier accesses, by a release
	id       int   // index in the segment cache
}

// cachedRefs is the size of a worker's segment cache. Every memory instruction has a
// place in it; the instructions of a larger program share places.
const cachedRefs = 128

const (
	none      = -1 // counter of memory that has none
	noCounter = -2 // no access so far
)

// base returns the start of the window of the access's space, 0 without a window.
func (m *access) base() uint64 {
	switch m.space {
	case ptx.SharedSpace:
		return sharedWindow
	case ptx.LocalSpace:
		return localWindow
	case ptx.ParamSpace:
		return paramWindow
	}
	return 0
}

// touch returns the effect of the access for the race detector.
func (m *access) touch() Touch {
	switch {
	case m.compare:
		return CompareAndSwap
	case m.atomic:
		return Atomic
	case m.strong && m.write:
		return Release
	case m.strong:
		return Acquire
	case m.write:
		return Write
	}
	return Read
}

// offset returns what is added to the base register.
func (w *warp) offset(m *access) uint64 {
	off := m.off
	if m.frameRel {
		off += w.f.local
	}
	return off
}

// strided finds the memory of lanes 0 to n-1 if their addresses are base + i*stride,
// in one segment. The strip says where the memory of lane 0 is, and how far the lanes
// are apart.
func (w *warp) strided(in *inst) (r strip, ok bool) {
	m := in.mem
	if !w.dense || !w.scalar {
		return r, false
	}
	t := &w.f.tags[in.a]
	if t.kind&(kUniform|kAffine) == 0 {
		return r, false
	}
	addr, stride := w.f.regs[in.a][0], t.stride
	if m.addr32 {
		b, s, ok := w.affine32(in.a, false)
		if !ok {
			return r, false
		}
		addr, stride = uint64(b), uint64(s)
	}
	addr += w.offset(m)
	if (addr|stride)&(m.bytes-1) != 0 || stride+1<<30 > 1<<31 {
		return r, false
	}
	base := m.base()
	addr += base
	far := stride * uint64(w.n-1)
	lo, extent := addr, far+m.bytes
	if int64(stride) < 0 {
		lo, extent = addr+far, -far+m.bytes
	}
	if base != 0 && ((addr-base)|(lo-base))>>windowBits != 0 {
		return r, false
	}
	if lo >= localWindow && lo < paramWindow {
		return w.stridedLocal(addr, lo, stride, extent)
	}
	ref := w.segment(m, lo)
	if ref == nil {
		return r, false
	}
	off := lo - ref.base
	if off >= ref.size || extent > ref.size-off || m.write && ref.readOnly {
		return r, false
	}
	if ref.counter >= 0 || ref.pages != nil || raceBuild && ref.watcher != nil {
		w.countRun(ref, m, addr, stride, lo, extent)
	}
	return strip{ref.at(addr), int(int64(stride))}, true
}

// stridedLocal does the work of strided for local memory, where lanes are localCap
// bytes apart.
func (w *warp) stridedLocal(addr, lo, stride, extent uint64) (r strip, ok bool) {
	off := lo - localWindow
	if off >= uint64(w.localCap) || extent > uint64(w.localCap)-off {
		return r, false
	}
	return strip{placeOf(w.local, int(addr-localWindow)), int(int64(stride)) + w.localCap}, true
}

// segment returns the segment that holds addr, nil if there is none. The cache keeps
// the last segment of each instruction.
func (w *warp) segment(m *access, addr uint64) *segRef {
	if addr >= windows {
		var r *segRef
		switch (addr - windows) >> windowBits {
		case 0:
			r = w.b.sharedSegment(addr)
		case (paramWindow - windows) >> windowBits:
			if r = &w.k.params; r.size == 0 {
				*r = refTo(paramWindow, w.k.x.l.Params, true)
			}
		}
		if r != nil && addr-r.base < r.size {
			return r
		}
		return nil
	}
	r := &w.k.refs[m.id]
	if addr-r.base < r.size {
		return r
	}
	s := w.k.x.l.Memory.Find(addr)
	if s == nil || !s.holds(addr) {
		return nil
	}
	*r = s.ref()
	if s.Counter >= 0 && s.Counter < len(w.k.tallies) {
		r.counter = s.Counter
	}
	return r
}

// scattered finds the memory of each active lane. If the memory of a lane does not
// exist, it records a fault and returns false.
func (w *warp) scattered(in *inst) bool {
	m := in.mem
	k := w.k
	base := w.f.expand(in.a)
	off, window := w.offset(m), m.base()
	if ref := w.inOneSegment(in); ref != nil {
		k.fillPlaces(ref, w.active)
		return true
	}
	first, mixed := noCounter, false
	for rest := w.active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		addr := base[i]
		if m.addr32 {
			addr &= 0xffffffff
		}
		addr += off
		full := addr + window
		switch {
		case addr&(m.bytes-1) != 0:
			w.trap(in, 1<<i, cu.ErrorMisalignedAddress, addr, int(m.bytes))
			return false
		case window != 0 && addr>>windowBits != 0:
			w.trap(in, 1<<i, cu.ErrorIllegalAddress, addr, int(m.bytes))
			return false
		case full >= localWindow && full < paramWindow:
			o := full - localWindow
			if o >= uint64(w.localCap) || m.bytes > uint64(w.localCap)-o {
				w.trap(in, 1<<i, cu.ErrorIllegalAddress, addr, int(m.bytes))
				return false
			}
			k.places[i] = placeOf(w.local, i*w.localCap+int(o))
			k.counters[i] = none
			continue
		}
		ref := w.segment(m, full)
		if ref == nil || m.bytes > ref.size-(full-ref.base) || m.write && ref.readOnly {
			w.trap(in, 1<<i, cu.ErrorIllegalAddress, addr, int(m.bytes))
			return false
		}
		k.places[i] = ref.at(full)
		if raceBuild {
			ref.watch(full, m.bytes, m)
		}
		if ref.counter == none && ref.pages == nil {
			k.counters[i] = none
			continue
		}
		if ref.pages != nil {
			w.touch(ref, full, full+m.bytes-1, m.write)
		}
		k.addrs[i], k.counters[i] = full, int32(ref.counter)
		if first == noCounter {
			first = ref.counter
		}
		mixed = mixed || first != ref.counter
	}
	switch {
	case first == noCounter || first == none && !mixed:
	case !mixed:
		k.countLanes(first, m, w.active, &k.addrs)
	default:
		w.countMixed(m)
	}
	return true
}

// inOneSegment finds the memory of the active lanes if all of it is in one segment.
// It stores the offset of each lane's memory in offs. It returns nil in all other
// cases, and for accesses that fault: then scattered does the work.
func (w *warp) inOneSegment(in *inst) *segRef {
	m, k := in.mem, w.k
	base := w.f.expand(in.a)
	cut := ^uint64(0)
	if m.addr32 {
		cut = 1<<32 - 1
	}
	window := m.base()
	first := base[bits.TrailingZeros32(w.active)&(warpSize-1)]&cut + w.offset(m)
	if window != 0 && first>>windowBits != 0 {
		return nil
	}
	if first += window; first >= localWindow && first < paramWindow {
		return nil
	}
	ref := w.segment(m, first)
	if ref == nil || m.write && ref.readOnly || ref.base&(m.bytes-1) != 0 || ref.size < m.bytes {
		return nil
	}
	low, high := k.offsets(base, cut, w.offset(m)+window-ref.base, ref.size-m.bytes, w.active)
	if low&(m.bytes-1) != 0 || high>>63 != 0 {
		return nil
	}
	if ref.pages != nil || ref.counter >= 0 || raceBuild && ref.watcher != nil {
		w.countOneSegment(ref, m)
	}
	return ref
}

// countOneSegment counts an access that inOneSegment found.
func (w *warp) countOneSegment(ref *segRef, m *access) {
	k := w.k
	addrs := k.offs
	for i := range addrs {
		addrs[i] += ref.base
	}
	if ref.pages != nil {
		w.touchLanes(ref, m, &addrs)
	}
	if raceBuild {
		ref.watchLanes(m, &k.offs, w.active)
	}
	if ref.counter >= 0 {
		k.countLanes(ref.counter, m, w.active, &addrs)
	}
}

// countMixed counts an access whose lanes belong to different counters.
func (w *warp) countMixed(m *access) {
	k := w.k
	for rest := w.active; rest != 0; {
		c := k.counters[bits.TrailingZeros32(rest)]
		var same uint32
		for r := rest; r != 0; r &= r - 1 {
			if i := bits.TrailingZeros32(r); k.counters[i] == c {
				same |= 1 << i
			}
		}
		if c != none {
			k.countLanes(int(c), m, same, &k.addrs)
		}
		rest &^= same
	}
}

// poll records that the warp polled memory that others may change.
func (w *warp) poll(m *access) {
	w.polled, w.polledSinceClock = true, true
	if m.space != ptx.SharedSpace {
		w.polledGlobal = true
	}
}

func execLoad(w *warp, in *inst) {
	m := in.mem
	if r, ok := w.strided(in); ok {
		n := w.n
		kind := uint8(kLanes)
		if r.stride == 0 {
			n, kind = 1, kUniform
		}
		for i, s := range m.regs {
			r.load(m.typ, &w.f.regs[s], uint64(i)*m.size, n)
			w.f.tags[s] = tag{kind: kind}
		}
	} else if ref := w.inOneSegment(in); ref != nil {
		for i, s := range m.regs {
			w.k.gatherFrom(ref, m.typ, w.dest(s), uint64(i)*m.size, w.active)
		}
	} else {
		if !w.scattered(in) {
			return
		}
		for i, s := range m.regs {
			w.k.gather(m.typ, w.dest(s), uint64(i)*m.size, w.active)
		}
	}
	if m.strong {
		w.poll(m)
		w.k.order()
	}
}

func execStore(w *warp, in *inst) {
	m := in.mem
	if m.strong {
		w.k.order()
	}
	if r, ok := w.strided(in); ok {
		for i, s := range m.regs {
			if r.stride == 0 { // the value of the last lane remains
				r.storeLane(m.typ, w.f.lane(s, w.n-1), uint64(i)*m.size)
				continue
			}
			r.store(m.typ, w.f.expand(s), uint64(i)*m.size, w.n)
		}
		return
	}
	if ref := w.inOneSegment(in); ref != nil {
		for i, s := range m.regs {
			w.k.scatterTo(ref, m.typ, w.f.expand(s), uint64(i)*m.size, w.active)
		}
		return
	}
	if !w.scattered(in) {
		return
	}
	for i, s := range m.regs {
		w.k.scatter(m.typ, w.f.expand(s), uint64(i)*m.size, w.active)
	}
}

// sharedAt returns the n bytes of shared memory at the address that lane i holds; n
// is a power of two. If they do not exist or are not aligned to n, it records a fault
// and returns nil.
func (w *warp) sharedAt(in *inst, i int, n uint64) []byte {
	m := in.mem
	addr := w.f.lane(in.a, i)
	if m.addr32 {
		addr &= 0xffffffff
	}
	addr += w.offset(m)
	at := addr + m.base() - sharedWindow
	switch {
	case addr&(n-1) != 0:
		w.trap(in, 1<<i, cu.ErrorMisalignedAddress, addr, int(n))
	case at >= uint64(len(w.b.shared)) || at+n > w.b.window.size:
		w.trap(in, 1<<i, cu.ErrorIllegalAddress, addr, int(n))
	default:
		return w.b.shared[at : at+n]
	}
	return nil
}

// copyIn loads what cp.async copies. limit is the register with the number of bytes
// to read, -1 for all. Lanes get zeros from their limit on, and read nothing if it is
// zero.
func (w *warp) copyIn(in *inst, limit int32) {
	if limit < 0 {
		execLoad(w, in)
		return
	}
	f := w.f
	var read uint32
	for m := w.active; m != 0; m &= m - 1 {
		i := trailing(m)
		if uint32(f.lane(limit, i)) != 0 {
			read |= 1 << i
		}
	}
	for _, s := range in.mem.regs {
		w.writeUniform(s, 0)
	}
	if read == 0 {
		return
	}
	active, full, dense := w.active, w.full, w.dense
	w.active, w.full, w.dense = read, full && read == active, dense && read == active
	execLoad(w, in)
	w.active, w.full, w.dense = active, full, dense
	for i, s := range in.mem.regs {
		r := f.expandFor(s)
		for m := read; m != 0; m &= m - 1 {
			l := trailing(m)
			if n := int(uint32(f.lane(limit, l))) - 8*i; n <= 0 {
				r[l] = 0
			} else if n < 8 {
				r[l] &= 1<<(8*n) - 1
			}
		}
	}
}

// countRun counts an access of lanes 0 to n-1 at addresses addr + i*stride. lo is the
// lowest address.
func (w *warp) countRun(ref *segRef, m *access, addr, stride, lo, extent uint64) {
	if ref.pages != nil {
		w.touchRun(ref, m, lo, stride, extent)
	}
	if raceBuild {
		step := stride
		if int64(step) < 0 {
			step = -step
		}
		ref.watchRun(m, lo, step, extent, w.n)
	}
	if ref.counter < 0 {
		return
	}
	lines := w.k.tallies[ref.counter].linesFor(m, w.n)
	step := stride
	if int64(step) < 0 {
		step = -step
	}
	if w.tr.block != nil {
		w.traceRun(ref.counter, m, lo, step, extent)
	}
	if stride == m.bytes || stride == 0 || stride == -m.bytes {
		countContiguous(lines, lo, extent)
		return
	}
	line, sectors := lo>>lineShift, uint8(0)
	for range w.n {
		if l := lo >> lineShift; l != line {
			lines[sectors&15]++
			line, sectors = l, 0
		}
		sectors |= sectorOf(lo)
		lo += step
	}
	lines[sectors&15]++
}

// touchRun sets the page bits of a run of lanes. If the stride may skip pages, it
// sets the bits for each lane.
func (w *warp) touchRun(ref *segRef, m *access, lo, stride, extent uint64) {
	if int64(stride) < 0 {
		stride = -stride
	}
	if stride <= 1<<ref.pages.Shift {
		w.touch(ref, lo, lo+extent-1, m.write)
		return
	}
	for i := range uint64(w.n) {
		w.touch(ref, lo+i*stride, lo+i*stride+m.bytes-1, m.write)
	}
}

// touchLanes sets the page bits of the active lanes. Lanes in a row are often in one page.
func (w *warp) touchLanes(ref *segRef, m *access, addrs *lanes) {
	shift, size, base := ref.pages.Shift, m.bytes, ref.base
	all, last := *addrs, ^uint64(0)
	for rest := w.active; rest != 0; rest &= rest - 1 {
		lo := all[trailing(rest)]
		page := (lo - base) >> shift
		if page != last || (lo+size-1-base)>>shift != page {
			w.touch(ref, lo, lo+size-1, m.write)
			last = page
		}
	}
}

// touch sets the page bits of bytes lo to hi, and records when they were touched.
func (w *warp) touch(ref *segRef, lo, hi uint64, write bool) {
	ref.touch(lo, hi, write)
	if ref.pages.Order != nil {
		ref.pages.record((lo-ref.base)>>ref.pages.Shift, (hi-ref.base)>>ref.pages.Shift, w.order(write))
	}
}
