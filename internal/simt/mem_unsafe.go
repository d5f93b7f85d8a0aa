package simt

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/ptx"
)

// Raw memory. Threads of a GPU may race with each other and with the host, and
// the bytes here are theirs: these functions are hidden from the race detector.
//
// Where memory is, is a number until the very instruction that uses it. A segment
// may be ordinary memory of the process with many variables of Go's and holes
// between them, and a pointer to one of those that is kept for a moment is enough
// for the garbage collector to end the process. Every number was checked against
// its segment before; the check of pointers of builds with the race detector,
// which wants to know what a number comes from, looks away.

// segRef is a segment, or a window of the address space, ready for use.
type segRef struct {
	base, size uint64
	p          uintptr // where base is
	readOnly   bool
	counter    int
	pages      *Pages
}

func refTo(base uint64, data []byte, readOnly bool) segRef {
	return segRef{base: base, size: uint64(len(data)), p: placeOf(data, 0), readOnly: readOnly, counter: none}
}

// ref is the segment, ready for use.
func (s *Segment) ref() segRef {
	r := refTo(s.Base, s.Data, s.ReadOnly)
	if s.Data == nil {
		r.size, r.p = s.Size, uintptr(s.Base)
	}
	r.pages = s.Pages
	return r
}

// holds says whether addr is in the segment.
func (s *Segment) holds(addr uint64) bool {
	return addr-s.Base < max(uint64(len(s.Data)), s.Size)
}

// at is where addr is, which must be within.
func (r *segRef) at(addr uint64) uintptr { return r.p + uintptr(addr-r.base) }

// peek copies what is at addr, which must be within, and says how much.
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

// placeOf is where b[off] is. Whoever asks keeps b.
func placeOf(b []byte, off int) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b))) + uintptr(off)
}

// memScratch is where lanes' accesses are gathered.
type memScratch struct {
	params   segRef
	addrs    lanes
	offs     lanes
	places   [warpSize]uintptr
	counters [warpSize]int32
}

// strip is the memory of lanes that are stride bytes apart.
type strip struct {
	base   uintptr // lane 0's
	stride int
}

type memoryType interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int32
}

// load reads an element at off of each lane's memory into lanes 0 to n-1.
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
			wide.loadWords(d, p)
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

// loadWords is the case that most accesses are.
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

// store writes lanes 0 to n-1 to an element at off of each lane's memory.
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
			wide.storeWords(p, s)
			return
		}
		storeStrip[uint32](s, p, r.stride, n)
	}
}

// storeLane writes one value.
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

// point gives places the memory at the active lanes' offs in r.
func (k *memScratch) point(r *segRef, active uint32) {
	for rest := active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		k.places[i] = r.p + uintptr(k.offs[i])
	}
}

// gatherFrom reads the active lanes' elements at their offs in r.
func (k *memScratch) gatherFrom(r *segRef, t ptx.Type, d *lanes, off uint64, active uint32) {
	if t.Size() != 4 || t == ptx.S32 || active != allLanes {
		k.point(r, active)
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

// scatterTo writes the active lanes' elements.
func (k *memScratch) scatterTo(r *segRef, t ptx.Type, s *lanes, off uint64, active uint32) {
	if t.Size() != 4 || active != allLanes {
		k.point(r, active)
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

// gather reads the active lanes' elements from where scattered found them.
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

// scatter writes the active lanes' elements.
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

// touch sets the bits of the pages that lo to hi, the last byte, are on.
func (r *segRef) touch(lo, hi uint64, write bool) {
	first, last := (lo-r.base)>>r.pages.Shift, (hi-r.base)>>r.pages.Shift
	for page := first; page <= last; page++ {
		setBit(r.pages.Read, page)
		if write {
			setBit(r.pages.Written, page)
		}
	}
}

// setBit sets a bit atomically, without a write when it is set.
func setBit(set []uint64, i uint64) {
	if i>>6 >= uint64(len(set)) {
		return
	}
	word := &set[i>>6]
	if atomic.LoadUint64(word)&(1<<(i&63)) == 0 {
		atomic.OrUint64(word, 1<<(i&63))
	}
}
