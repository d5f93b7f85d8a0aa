package simt

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/ptx"
)

// Raw memory. Threads of a GPU may race with each other and with the host, and
// the bytes here are theirs: these functions are hidden from the race detector.
// Every pointer was checked against its segment before, and a segment may span
// many Go objects, so they are hidden from the check of pointers, too.

// segRef is a segment, or a window of the address space, ready for use.
type segRef struct {
	base, size uint64
	p          unsafe.Pointer
	readOnly   bool
	counter    int
	pages      *Pages
}

func refTo(base uint64, data []byte, readOnly bool) segRef {
	return segRef{base: base, size: uint64(len(data)), p: unsafe.Pointer(unsafe.SliceData(data)), readOnly: readOnly, counter: none}
}

// at is where addr is, which must be within. The segment may be many variables of
// Go's, to which the pointer checks of builds with the race detector object.
//
//go:nocheckptr
func (r *segRef) at(addr uint64) unsafe.Pointer { return unsafe.Add(r.p, int(addr-r.base)) }

func pointTo(b []byte, off int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off)
}

// memScratch is where lanes' accesses are gathered.
type memScratch struct {
	params   segRef
	addrs    lanes
	offs     lanes
	ptrs     [warpSize]unsafe.Pointer
	counters [warpSize]int32
}

// strip is the memory of lanes that are stride bytes apart.
type strip struct {
	base   unsafe.Pointer // lane 0's
	stride int
}

type memoryType interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int8 | ~int16 | ~int32
}

// load reads an element at off of each lane's memory into lanes 0 to n-1.
//
//go:nocheckptr
func (r strip) load(t ptx.Type, d *lanes, off uint64, n int) {
	p := unsafe.Add(r.base, int(off))
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
			wide.loadWords(d, (*[warpSize]uint32)(p))
			return
		}
		loadStrip[uint32](d, p, r.stride, n)
	}
}

//go:norace
//go:nocheckptr
func loadStrip[T memoryType](d *lanes, p unsafe.Pointer, stride, n int) {
	for i := range d[:n] {
		d[i] = uint64(int64(*(*T)(unsafe.Add(p, i*stride))))
	}
}

// loadWords is the case that most accesses are.
//
//go:norace
func loadWords(d *lanes, s *[warpSize]uint32) {
	for i := 0; i < warpSize; i += 4 {
		d[i] = uint64(s[i])
		d[i+1] = uint64(s[i+1])
		d[i+2] = uint64(s[i+2])
		d[i+3] = uint64(s[i+3])
	}
}

// store writes lanes 0 to n-1 to an element at off of each lane's memory.
//
//go:nocheckptr
func (r strip) store(t ptx.Type, s *lanes, off uint64, n int) {
	p := unsafe.Add(r.base, int(off))
	switch t.Size() {
	case 1:
		storeStrip[uint8](s, p, r.stride, n)
	case 2:
		storeStrip[uint16](s, p, r.stride, n)
	case 8:
		storeStrip[uint64](s, p, r.stride, n)
	default:
		if r.stride == 4 && n == warpSize {
			wide.storeWords((*[warpSize]uint32)(p), s)
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
	p := unsafe.Add(r.base, int(off))
	switch t.Size() {
	case 1:
		*(*uint8)(p) = uint8(v)
	case 2:
		*(*uint16)(p) = uint16(v)
	case 8:
		*(*uint64)(p) = v
	default:
		*(*uint32)(p) = uint32(v)
	}
}

//go:norace
//go:nocheckptr
func storeStrip[T memoryType](s *lanes, p unsafe.Pointer, stride, n int) {
	for i, v := range s[:n] {
		*(*T)(unsafe.Add(p, i*stride)) = T(v)
	}
}

//go:norace
func storeWords(d *[warpSize]uint32, s *lanes) {
	for i := 0; i < warpSize; i += 4 {
		d[i] = uint32(s[i])
		d[i+1] = uint32(s[i+1])
		d[i+2] = uint32(s[i+2])
		d[i+3] = uint32(s[i+3])
	}
}

// point gives ptrs the memory at the active lanes' offs in r.
func (k *memScratch) point(r *segRef, active uint32) {
	for rest := active; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros32(rest) & (warpSize - 1)
		k.ptrs[i] = unsafe.Add(r.p, int(k.offs[i]))
	}
}

// gatherFrom reads the active lanes' elements at their offs in r.
func (k *memScratch) gatherFrom(r *segRef, t ptx.Type, d *lanes, off uint64, active uint32) {
	if t.Size() != 4 || t == ptx.S32 || active != allLanes {
		k.point(r, active)
		k.gather(t, d, off, active)
		return
	}
	gatherWords(d, unsafe.Add(r.p, int(off)), &k.offs)
}

//go:norace
func gatherWords(d *lanes, p unsafe.Pointer, offs *lanes) {
	for i, off := range offs {
		d[i] = uint64(*(*uint32)(unsafe.Add(p, int(off))))
	}
}

// scatterTo writes the active lanes' elements.
func (k *memScratch) scatterTo(r *segRef, t ptx.Type, s *lanes, off uint64, active uint32) {
	if t.Size() != 4 || active != allLanes {
		k.point(r, active)
		k.scatter(t, s, off, active)
		return
	}
	scatterWords(unsafe.Add(r.p, int(off)), s, &k.offs)
}

//go:norace
func scatterWords(p unsafe.Pointer, s, offs *lanes) {
	for i, off := range offs {
		*(*uint32)(unsafe.Add(p, int(off))) = uint32(s[i])
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
			d[i] = uint64(int64(*(*T)(unsafe.Add(k.ptrs[i], int(off)))))
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
			*(*T)(unsafe.Add(k.ptrs[i], int(off))) = T(v)
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
