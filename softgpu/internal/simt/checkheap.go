package simt

import "github.com/ferrygpu/ferry/softgpu/internal/kernelrace"

// mostFrees is how many calls of free the check remembers, to name them.
const mostFrees = 1024

// freeCall is a call of free.
type freeCall struct {
	addr, bytes uint64
	side        kernelrace.Side
}

// heapCall says where a lane calls malloc or free.
func (c *checker) heapCall(w *warp, in *inst) (inst int) {
	c.w, c.in, c.lanes = w, in, 0
	return c.rule(w.f.fn, w.pc-1).access.Inst
}

// freed tells the detector that a lane frees n bytes, which is like a write to all of them.
func (c *checker) freed(w *warp, in *inst, lane int, addr, n uint64) {
	t, inst := w.index*warpSize+lane, c.heapCall(w, in)
	w.b.check.Overwrite(t, addr, n, inst)
	if len(c.frees) == mostFrees {
		c.frees = append(c.frees[:0], c.frees[mostFrees/2:]...)
	}
	c.frees = append(c.frees, freeCall{addr, n, kernelrace.Side{
		Block: uint32(w.b.number), Thread: t, Inst: inst, Kind: kernelrace.Write,
	}})
}

// allocated tells the detector that a lane has allocated n bytes. Memory that was used before
// belongs to the lane alone, until it orders others behind itself.
func (c *checker) allocated(w *warp, in *inst, lane int, addr, n uint64) {
	w.b.check.Reuse(w.index*warpSize+lane, addr, n, c.heapCall(w, in))
}

// outside reports whether a lane accesses memory of the heap that is in no allocation.
func (c *checker) outside(addr uint64, n int) bool {
	return addr-c.heapBase < c.heapBytes && !c.x.l.Heap.Allocated(addr, uint64(n))
}

// reportOutside reports such an access, with the last free of the memory.
func (c *checker) reportOutside(lane int, a *kernelrace.Access) {
	var by *kernelrace.Side
	for i := range c.frees {
		if f := &c.frees[i]; f.addr < a.Addr+uint64(a.Bytes) && a.Addr < f.addr+f.bytes {
			by = &f.side
		}
	}
	c.w.b.check.Unallocated(c.w.index*warpSize+lane, a, by)
}
