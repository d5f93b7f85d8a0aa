package simt

import (
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/ptx"
)

// Unsafe: Each address was checked against its segment, with the length of the access. It
// stays a number until the instruction that uses it, and the launch keeps the segment.

// Functions on raw memory. Threads of a GPU may race with each other and with the
// host, so these functions are hidden from the race detector.
//
// A place in memory stays a number (uintptr) until the instruction that uses it. A
// segment may be ordinary memory of the process, with Go variables and holes between
// them. A pointer into such a hole, kept for a moment, is enough for the garbage
// collector to end the process. Every number was checked against its segment before.
// Builds with the race detector also check what a pointer was made from; the
// directive nocheckptr turns that check off here.

// segRef is a segment, or a window of the address space, in the form that accesses
// use.
type segRef struct {
	base, size uint64
	p          uintptr // where base is in memory
	readOnly   bool
	counter    int
	pages      *Pages
	watcher    Watch
}

func refTo(base uint64, data []byte, readOnly bool) segRef {
	return segRef{base: base, size: uint64(len(data)), p: placeOf(data, 0), readOnly: readOnly, counter: none}
}

// ref returns the segment as a segRef.
func (s *Segment) ref() segRef {
	r := refTo(s.Base, s.Data, s.ReadOnly)
	if s.Data == nil {
		r.size, r.p = s.Size, uintptr(s.Base)
	}
	r.pages, r.watcher = s.Pages, s.Watch
	return r
}

// holds reports whether addr is in the segment.
func (s *Segment) holds(addr uint64) bool {
	return addr-s.Base < max(uint64(len(s.Data)), s.Size)
}

// at returns the place of addr, which must be in the segment.
func (r *segRef) at(addr uint64) uintptr { return r.p + uintptr(addr-r.base) }

// peek copies bytes at addr, which must be in the segment, and returns their number.
//
//go:norace
//go:nocheckptr
func (r *segRef) peek(addr uint64, b []byte) int {
	n := int(min(uint64(len(b)), r.size-(addr-r.base)))
	for i := range b[:n] {
		b[i] = *(*byte)(unsafe.Add(nil, r.at(addr)+uintptr(i)))
	}
	return n
}

// placeOf returns the place of b[off]. The caller must keep b alive.
func placeOf(b []byte, off int) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b))) + uintptr(off)
}

// memScratch holds the addresses and places of the lanes of one access.
type memScratch struct {
	params   segRef
	addrs    lanes
	offs     lanes
	places   [warpSize]uintptr
	counters [warpSize]int32
}

// strip describes memory of lanes that are stride bytes apart.
type strip struct {
	base   uintptr // place of lane 0
	stride int
}

type memoryType interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int32
}

// load reads an element at offset off of each lane's memory into lanes 0 to n-1.
func (r strip) load(t ptx.Type, d *lanes, off uint64, n int) {
	p := r.base + uintptr(off)
	switch t {
	case ptx.U8, ptx.B8:
		loadStrip[uint8](d, p, r.stride, n)
	case ptx.S8:
		loadStrip[int8](d, p, r.stride, n)
	case ptx.U16, ptx.B16, ptx.F16, ptx.BF16:
		loadStrip[uint16](d, p, r.stride, n)
	case ptx.S16:
		loadStrip[int16](d, p, r.stride, n)
	case ptx.S32:
		loadStrip[int32](d, p, r.stride, n)
	case ptx.U64, ptx.S64, ptx.B64, ptx.F64:
		loadStrip[uint64](d, p, r.stride, n)
	default:
		if r.stride == 4 && n == warpSize {
			simd.loadWords(d, p)
			return
		}
		loadStrip[uint32](d, p, r.stride, n)
	}
}

//go:norace
//go:nocheckptr
func loadStrip[T memoryType](d *lanes, p uintptr, stride, n int) {
	for i := range d[:n] {
		d[i] = uint64(int64(*(*T)(unsafe.Add(nil, p+uintptr(i*stride)))))
	}
}

// loadWords loads contiguous 32-bit words for a full warp. This is the most frequent
// case of load.
//
//go:norace
//go:nocheckptr
func loadWords(d *lanes, p uintptr) {
	s := (*[warpSize]uint32)(unsafe.Add(nil, p))
	for i := 0; i < warpSize; i += 4 {
		d[i] = uint64(s[i])
		d[i+1] = uint64(s[i+1])
		d[i+2] = uint64(s[i+2])
		d[i+3] = uint64(s[i+3])
	}
}

// store writes lanes 0 to n-1 to an element at offset off of each lane's memory.
func (r strip) store(t ptx.Type, s *lanes, off uint64, n int) {
	p := r.base + uintptr(off)
	switch t.Size() {
	case 1:
		storeStrip[uint8](s, p, r.stride, n)
	case 2:
		storeStrip[uint16](s, p, r.stride, n)
	case 8:
		storeStrip[uint64](s, p, r.stride, n)
	default:
		if r.stride == 4 && n == warpSize {
			simd.storeWords(p, s)
			return
		}
		storeStrip[uint32](s, p, r.stride, n)
	}
}

// storeLane writes one value to the memory of lane 0.
//
//go:norace
//go:nocheckptr
func (r strip) storeLane(t ptx.Type, v uint64, off uint64) {
	p := r.base + uintptr(off)
	switch t.Size() {
	case 1:
		*(*uint8)(unsafe.Add(nil, p)) = uint8(v)
	case 2:
		*(*uint16)(unsafe.Add(nil, p)) = uint16(v)
	case 8:
		*(*uint64)(unsafe.Add(nil, p)) = v
	default:
		*(*uint32)(unsafe.Add(nil, p)) = uint32(v)
	}
}

//go:norace
//go:nocheckptr
func storeStrip[T memoryType](s *lanes, p uintptr, stride, n int) {
	for i, v := range s[:n] {
		*(*T)(unsafe.Add(nil, p+uintptr(i*stride))) = T(v)
	}
}

//go:norace
//go:nocheckptr
func storeWords(p uintptr, s *lanes) {
	d := (*[warpSize]uint32)(unsafe.Add(nil, p))
	for i := 0; i < warpSize; i += 4 {
		d[i] = uint32(s[i])
		d[i+1] = uint32(s[i+1])
		d[i+2] = uint32(s[i+2])
		d[i+3] = uint32(s[i+3])
	}
}

// fillPlaces fills places from the offs of the active lanes in segment r.
func (k *memScratch) fillPlaces(r *segRef, active uint32) {
	offs, p := k.offs, r.p
	var places [warpSize]uintptr
	for rest := active; rest != 0; rest &= rest - 1 {
		i := trailing(rest)
		places[i] = p + uintptr(offs[i])
	}
	k.places = places
}

// gatherFrom reads the elements of the active lanes at their offs in segment r.
func (k *memScratch) gatherFrom(r *segRef, t ptx.Type, d *lanes, off uint64, active uint32) {
	if t.Size() != 4 || t == ptx.S32 || active != allLanes {
		k.fillPlaces(r, active)
		k.gather(t, d, off, active)
		return
	}
	gatherWords(d, r.p+uintptr(off), &k.offs)
}

//go:norace
//go:nocheckptr
func gatherWords(d *lanes, p uintptr, offs *lanes) {
	for i, off := range offs {
		d[i] = uint64(*(*uint32)(unsafe.Add(nil, p+uintptr(off))))
	}
}

// scatterTo writes the elements of the active lanes at their offs in segment r.
func (k *memScratch) scatterTo(r *segRef, t ptx.Type, s *lanes, off uint64, active uint32) {
	if t.Size() != 4 || active != allLanes {
		k.fillPlaces(r, active)
		k.scatter(t, s, off, active)
		return
	}
	scatterWords(r.p+uintptr(off), s, &k.offs)
}

//go:norace
//go:nocheckptr
func scatterWords(p uintptr, s, offs *lanes) {
	for i, off := range offs {
		*(*uint32)(unsafe.Add(nil, p+uintptr(off))) = uint32(s[i])
	}
}

// gather reads the elements of the active lanes from places.
func (k *memScratch) gather(t ptx.Type, d *lanes, off uint64, active uint32) {
	switch t {
	case ptx.U8, ptx.B8:
		gatherLanes[uint8](k, d, off, active)
	case ptx.S8:
		gatherLanes[int8](k, d, off, active)
	case ptx.U16, ptx.B16, ptx.F16, ptx.BF16:
		gatherLanes[uint16](k, d, off, active)
	case ptx.S16:
		gatherLanes[int16](k, d, off, active)
	case ptx.S32:
		gatherLanes[int32](k, d, off, active)
	case ptx.U64, ptx.S64, ptx.B64, ptx.F64:
		gatherLanes[uint64](k, d, off, active)
	default:
		gatherLanes[uint32](k, d, off, active)
	}
}

//go:norace
//go:nocheckptr
func gatherLanes[T memoryType](k *memScratch, d *lanes, off uint64, active uint32) {
	for i := range d {
		if active&(1<<i) != 0 {
			d[i] = uint64(int64(*(*T)(unsafe.Add(nil, k.places[i]+uintptr(off)))))
		}
	}
}

// scatter writes the elements of the active lanes to places.
func (k *memScratch) scatter(t ptx.Type, s *lanes, off uint64, active uint32) {
	switch t.Size() {
	case 1:
		scatterLanes[uint8](k, s, off, active)
	case 2:
		scatterLanes[uint16](k, s, off, active)
	case 8:
		scatterLanes[uint64](k, s, off, active)
	default:
		scatterLanes[uint32](k, s, off, active)
	}
}

//go:norace
//go:nocheckptr
func scatterLanes[T memoryType](k *memScratch, s *lanes, off uint64, active uint32) {
	for i, v := range s {
		if active&(1<<i) != 0 {
			*(*T)(unsafe.Add(nil, k.places[i]+uintptr(off))) = T(v)
		}
	}
}

// touch sets the bits of the pages of bytes lo to hi, hi included.
func (r *segRef) touch(lo, hi uint64, write bool) {
	first, last := (lo-r.base)>>r.pages.Shift, (hi-r.base)>>r.pages.Shift
	for page := first; page <= last; page++ {
		setBit(r.pages.Read, page)
		if write {
			setBit(r.pages.Written, page)
		}
	}
}

// setBit sets a bit atomically. It does not write if the bit is set already.
func setBit(set []uint64, i uint64) {
	if i>>6 >= uint64(len(set)) {
		return
	}
	word := &set[i>>6]
	if atomic.LoadUint64(word)&(1<<(i&63)) == 0 {
		atomic.OrUint64(word, 1<<(i&63))
	}
}

// watch reports the access of one lane to n bytes at addr to the segment's Watch.
func (r *segRef) watch(addr, n uint64, m *access) {
	if r.watcher != nil {
		r.watcher.Touch(m.touch(), addr-r.base, n)
	}
}

// watchLanes reports an access of the lanes in mask, at offsets in the segment, to its Watch.
func (r *segRef) watchLanes(m *access, offs *lanes, mask uint32) {
	watch := r.watcher
	if watch == nil {
		return
	}
	how := m.touch()
	if how <= Write {
		watch.TouchLanes(how, *offs, mask, m.bytes)
		return
	}
	for ; mask != 0; mask &= mask - 1 {
		watch.Touch(how, offs[trailing(mask)], m.bytes)
	}
}

// watchRun reports an access of n lanes to the segment's Watch. The lanes are stride
// bytes apart, from lo up.
func (r *segRef) watchRun(m *access, lo, stride, extent uint64, n int) {
	if r.watcher == nil {
		return
	}
	if how := m.touch(); stride <= m.bytes && how <= Write {
		r.watcher.Touch(how, lo-r.base, extent)
		return
	}
	if stride == 0 {
		n = 1
	}
	var offs lanes
	for i := range n {
		offs[i] = lo - r.base + uint64(i)*stride
	}
	r.watchLanes(m, &offs, allLanes>>(warpSize-n))
}

// offsets stores the addresses of the active lanes in offs as offsets: ANDed with
// cut, plus delta. low is the OR of all offsets. The highest bit of high is set if an
// offset is above most.
func (k *memScratch) offsets(base *lanes, cut, delta, most uint64, active uint32) (low, high uint64) {
	if active == allLanes {
		low, high = simd.offsets(&k.offs, base, cut, delta, most)
		return low, high | low
	}
	for rest := active; rest != 0; rest &= rest - 1 {
		i := trailing(rest)
		off := base[i]&cut + delta
		low |= off
		high |= most - off
		k.offs[i] = off
	}
	return low, high | low
}

// atomicFunc changes the memory at p and returns its old value.
type atomicFunc func(p uintptr, b, c uint64) uint64

// updateFunc returns the new value of memory that holds old.
type updateFunc func(old, b, c uint64) uint64

// word32 and word64 return the word that an atomic instruction works on. The pointer
// must not be kept after the instruction.
//
//go:nocheckptr
func word32(p uintptr) *uint32 { return (*uint32)(unsafe.Add(nil, p)) }

//go:nocheckptr
func word64(p uintptr) *uint64 { return (*uint64)(unsafe.Add(nil, p)) }

func atomicAdd32(p uintptr, b, _ uint64) uint64 {
	return uint64(add32(word32(p), uint32(b)) - uint32(b))
}

func atomicAdd64(p uintptr, b, _ uint64) uint64 {
	return add64(word64(p), b) - b
}

func atomicExchange32(p uintptr, b, _ uint64) uint64 {
	return uint64(swap32(word32(p), uint32(b)))
}

func atomicExchange64(p uintptr, b, _ uint64) uint64 {
	return swap64(word64(p), b)
}

func atomicCAS32(p uintptr, b, c uint64) uint64 {
	for {
		old := load32(word32(p))
		if old != uint32(b) || cas32(word32(p), old, uint32(c)) {
			return uint64(old)
		}
	}
}

func atomicCAS64(p uintptr, b, c uint64) uint64 {
	for {
		old := load64(word64(p))
		if old != b || cas64(word64(p), old, c) {
			return old
		}
	}
}

// atomicUpdate returns an atomic update by f of a word of 2, 4 or 8 bytes.
func atomicUpdate(size int, f updateFunc) atomicFunc {
	switch size {
	case 2:
		return func(p uintptr, b, c uint64) uint64 {
			off := p & 2
			word := p - off
			for {
				all := load32(word32(word))
				old := uint64(all >> (8 * off) & 0xffff)
				v := uint32(f(old, b&0xffff, c&0xffff)) & 0xffff
				if cas32(word32(word), all, all&^(0xffff<<(8*off))|v<<(8*off)) {
					return old
				}
			}
		}
	case 4:
		return func(p uintptr, b, c uint64) uint64 {
			for {
				old := load32(word32(p))
				v := uint32(f(uint64(old), b, c))
				if v == old || cas32(word32(p), old, v) {
					return uint64(old)
				}
			}
		}
	}
	return func(p uintptr, b, c uint64) uint64 {
		for {
			old := load64(word64(p))
			v := f(old, b, c)
			if v == old || cas64(word64(p), old, v) {
				return old
			}
		}
	}
}

// atomics runs f on the memory of each active lane, in ascending order. scattered has
// found the memory.
func (k *memScratch) atomics(f atomicFunc, d, b, c *lanes, active uint32) {
	for i := range d {
		if active&(1<<i) != 0 {
			d[i] = f(k.places[i], b[i], c[i])
		}
	}
}
