package softgpu

import (
	"slices"
	"sort"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// The heap of malloc in kernels has addresses that no allocation has, below those of
// device memory. Every context has its own heap at the same addresses: a kernel sees one.
// It is not in the address table, so that copies and other calls of the host refuse it.
const (
	heapBase  = deviceBase - 1<<42
	heapAlign = 16
)

// kernelHeap is the memory of malloc in the kernels of a context. What kernels allocate lives
// until they free it or the context ends. It implements [simt.Heap]; a nil heap has no
// memory.
type kernelHeap struct {
	backing *backing
	segment simt.Segment

	mu    sync.Mutex
	sizes map[uint64]uint64 // bytes of what is allocated, by offset
	holes []hole            // the rest, in ascending order, no two adjacent
}

// hole is free memory of a heap, in offsets.
type hole struct{ start, end uint64 }

// needHeap makes the context's heap, in the size of its limit, if the kernel calls malloc
// or free. The caller holds Driver.mu.
func (f *function) needHeap(what string) error {
	c := f.mod.ctx
	if !f.kernel.Heap || c.heap != nil {
		return nil
	}
	n := uint64(c.limits[cu.LimitMallocHeapSize]) &^ (heapAlign - 1)
	if n > 1<<40 {
		return refuse(cu.ErrorOutOfMemory, what, "the heap of malloc in kernels has %s, at most 1 TiB are possible", size(n))
	}
	b, err := c.drv.newDeviceBacking(max(pageSize, roundUp(n, pageSize)), what)
	if err != nil {
		return err
	}
	c.drv.contents.put(b)
	c.heap = &kernelHeap{
		backing: b,
		segment: simt.Segment{Base: heapBase, Data: b.data[:n], Counter: kernelcost.CountDevice},
		sizes:   map[uint64]uint64{}, holes: []hole{{0, n}},
	}
	return nil
}

func (h *kernelHeap) holds(addr uint64) bool {
	return h != nil && addr-heapBase < uint64(len(h.segment.Data))
}

// Malloc returns the address of n bytes, aligned to 16, from the first hole that has them.
// Without such a hole it returns 0, also for 0 bytes.
func (h *kernelHeap) Malloc(n uint64) uint64 {
	if h == nil || n == 0 || n > uint64(len(h.segment.Data)) {
		return 0
	}
	n = roundUp(n, heapAlign)
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.holes, func(x hole) bool { return x.end-x.start >= n })
	if i < 0 {
		return 0
	}
	at := h.holes[i].start
	if h.holes[i].start += n; h.holes[i].start == h.holes[i].end {
		h.holes = slices.Delete(h.holes, i, i+1)
	}
	h.sizes[at] = n
	return heapBase + at
}

// Free frees what Malloc returned, and joins it with the holes around it.
func (h *kernelHeap) Free(addr uint64) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	start := addr - heapBase
	n, ok := h.sizes[start]
	if !ok {
		return false
	}
	delete(h.sizes, start)
	end := start + n
	i, _ := slices.BinarySearchFunc(h.holes, start, func(x hole, at uint64) int {
		if x.start < at {
			return -1
		}
		return 1
	})
	if i < len(h.holes) && h.holes[i].start == end {
		end = h.holes[i].end
		h.holes = slices.Delete(h.holes, i, i+1)
	}
	if i > 0 && h.holes[i-1].end == start {
		h.holes[i-1].end = end
		return true
	}
	h.holes = slices.Insert(h.holes, i, hole{start, end})
	return true
}

// Range returns the first address of the heap and its size.
func (h *kernelHeap) Range() (base, bytes uint64) {
	if h == nil {
		return 0, 0
	}
	return heapBase, uint64(len(h.segment.Data))
}

// Size returns how many bytes the allocation has that begins at addr, 0 if there is none.
func (h *kernelHeap) Size(addr uint64) uint64 {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sizes[addr-heapBase]
}

// Allocated reports whether n bytes of the heap are in allocations.
func (h *kernelHeap) Allocated(addr, n uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	start := addr - heapBase
	i := sort.Search(len(h.holes), func(i int) bool { return h.holes[i].end > start })
	return start+n <= uint64(len(h.segment.Data)) && (i == len(h.holes) || start+n <= h.holes[i].start)
}
