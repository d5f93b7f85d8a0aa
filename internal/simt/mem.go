package simt

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// Shared and local memory, the arguments of the kernel and code have windows in
// the generic address space, at its top: no host or device address is there.
const (
	windows      = 0xffff_ff00_0000_0000
	windowBits   = 32
	sharedWindow = windows
	localWindow  = windows + 1<<windowBits
	paramWindow  = windows + 2<<windowBits
	codeWindow   = windows + 3<<windowBits
	codeStep     = 16
)

// access is what a load, store or atomic does with memory.
type access struct {
	typ      ptx.Type
	size     uint64 // of an element
	bytes    uint64 // that a lane touches
	slots    []int32
	off      uint64
	space    ptx.Space
	addr32   bool // the base is a 32-bit register
	frameRel bool // offsets count from the frame's local memory
	strong   bool // ordered: volatile, relaxed, acquire, release
	write    bool
	atomic   bool
	id       int // of the segment cache
}

// cachedRefs is how many segments a worker remembers, a place for each
// instruction; those of a larger program share places.
const cachedRefs = 128

const (
	none      = -1 // the counter of memory that has none
	noCounter = -2 // no access yet
)

// base is the window that the addresses of a space count from.
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

// offset is what is added to the base register.
func (w *warp) offset(m *access) uint64 {
	off := m.off
	if m.frameRel {
		off += w.f.local
	}
	return off
}

// straight finds the memory of lanes 0 to n-1 when their addresses are base +
// i*stride and all of it is in one place. It says where lane 0's is and how far
// the lanes are apart.
func (w *warp) straight(in *inst) (r strip, ok bool) {
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
		b, s, ok := w.wide(in.a, false)
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
		return w.straightLocal(addr, lo, stride, extent)
	}
	ref := w.segment(m, lo)
	if ref == nil {
		return r, false
	}
	off := lo - ref.base
	if off >= ref.size || extent > ref.size-off || m.write && ref.readOnly {
		return r, false
	}
	if ref.counter >= 0 || ref.pages != nil {
		w.countRun(ref, m, addr, stride, lo, extent)
	}
	return strip{ref.at(addr), int(int64(stride))}, true
}

// straightLocal is straight for local memory, where lanes are localCap apart.
func (w *warp) straightLocal(addr, lo, stride, extent uint64) (r strip, ok bool) {
	off := lo - localWindow
	if off >= uint64(w.localCap) || extent > uint64(w.localCap)-off {
		return r, false
	}
	return strip{placeOf(w.local, int(addr-localWindow)), int(int64(stride)) + w.localCap}, true
}

// segment finds what holds addr, nil if nothing does. The last one is kept for
// each instruction.
func (w *warp) segment(m *access, addr uint64) *segRef {
	if addr >= windows {
		r := &w.b.window
		if (addr-windows)>>windowBits == (paramWindow-windows)>>windowBits {
			if r = &w.k.params; r.size == 0 {
				*r = refTo(paramWindow, w.k.x.l.Params, true)
			}
		}
		if addr-r.base < r.size {
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

// scattered finds the memory of each active lane. It reports a fault, and then
// is false, if a lane's is not there.
func (w *warp) scattered(in *inst) bool {
	m := in.mem
	k := w.k
	base := w.f.expand(in.a)
	off, window := w.offset(m), m.base()
	if ref := w.together(in); ref != nil {
		k.point(ref, w.active)
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
		if ref.counter == none && ref.pages == nil {
			k.counters[i] = none
			continue
		}
		if ref.pages != nil {
			w.touch(ref, full, full+m.bytes-1, m.write)
			if raceBuild {
				ref.watch(full, m.bytes, m)
			}
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

// together finds the memory of the active lanes when all of it is in one segment,
// and leaves how far into it each lane's is in offs. It is nil when it is not, or
// something is wrong: then scattered tells.
func (w *warp) together(in *inst) *segRef {
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
	low, high := k.within(base, cut, w.offset(m)+window-ref.base, ref.size-m.bytes, w.active)
	if low&(m.bytes-1) != 0 || high>>63 != 0 {
		return nil
	}
	if ref.pages != nil || ref.counter >= 0 {
		w.countTogether(ref, m)
	}
	return ref
}

// within gives offs the active lanes' addresses, cut, as offsets: delta is added.
// low has a bit set that any offset has, high its highest bit if one is above most.
func (k *memScratch) within(base *lanes, cut, delta, most uint64, active uint32) (low, high uint64) {
	if active == allLanes {
		for i, v := range base {
			off := v&cut + delta
			low |= off
			high |= most - off
			k.offs[i] = off
		}
		return low, high | low
	}
	for rest := active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		off := base[i]&cut + delta
		low |= off
		high |= most - off
		k.offs[i] = off
	}
	return low, high | low
}

// countTogether counts what together found.
func (w *warp) countTogether(ref *segRef, m *access) {
	k := w.k
	for rest := w.active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		k.addrs[i] = ref.base + k.offs[i]
		if ref.pages != nil {
			w.touch(ref, k.addrs[i], k.addrs[i]+m.bytes-1, m.write)
			if raceBuild {
				ref.watch(k.addrs[i], m.bytes, m)
			}
		}
	}
	if ref.counter >= 0 {
		k.countLanes(ref.counter, m, w.active, &k.addrs)
	}
}

// countMixed counts an access whose lanes count towards different counters.
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

// poll notes that the warp looked at memory that others may change.
func (w *warp) poll(m *access) {
	w.polled, w.watched = true, true
	if m.space != ptx.SharedSpace {
		w.polledGlobal = true
	}
}

func execLoad(w *warp, in *inst) {
	m := in.mem
	if r, ok := w.straight(in); ok {
		n := w.n
		kind := uint8(kLanes)
		if r.stride == 0 {
			n, kind = 1, kUniform
		}
		for i, s := range m.slots {
			r.load(m.typ, &w.f.regs[s], uint64(i)*m.size, n)
			w.f.tags[s] = tag{kind: kind}
		}
	} else if ref := w.together(in); ref != nil {
		for i, s := range m.slots {
			w.k.gatherFrom(ref, m.typ, w.dest(s), uint64(i)*m.size, w.active)
		}
	} else {
		if !w.scattered(in) {
			return
		}
		for i, s := range m.slots {
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
	if r, ok := w.straight(in); ok {
		for i, s := range m.slots {
			if r.stride == 0 { // the last lane's stays
				r.storeLane(m.typ, w.f.lane(s, w.n-1), uint64(i)*m.size)
				continue
			}
			r.store(m.typ, w.f.expand(s), uint64(i)*m.size, w.n)
		}
		return
	}
	if ref := w.together(in); ref != nil {
		for i, s := range m.slots {
			w.k.scatterTo(ref, m.typ, w.f.expand(s), uint64(i)*m.size, w.active)
		}
		return
	}
	if !w.scattered(in) {
		return
	}
	for i, s := range m.slots {
		w.k.scatter(m.typ, w.f.expand(s), uint64(i)*m.size, w.active)
	}
}
