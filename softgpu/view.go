package softgpu

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelcost"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// view is the address space that one kernel sees. It implements [simt.Memory].
type view struct {
	drv        *Driver
	ctx        *contextState
	stream     *streamState
	peers      map[*contextState]bool
	concurrent bool // host and device may use managed memory at once
	ordinary   bool // the device uses the host's page tables
	host       atomic.Bool
	found      sync.Map      // *region: of the device's own memory that the kernel touched
	workspace  *simt.Segment // of a cooperative launch, else nil
	heap       *kernelHeap   // of malloc in kernels, nil if no kernel of the context calls it
	viewRace

	mu  sync.Mutex
	own atomic.Pointer[map[*region]*simt.Segment] // of host and managed memory, with pages
}

func newView(o *op) *view {
	d := o.ctx.drv
	d.mu.Lock()
	defer d.mu.Unlock()
	v := &view{
		ordinary: o.ctx.dev.pageable(),
		drv:      d, ctx: o.ctx, stream: o.stream, heap: o.ctx.heap,
		peers:      maps.Clone(o.ctx.peers),
		concurrent: o.ctx.dev.attr(cu.DeviceAttributeConcurrentManagedAccess) != 0,
	}
	v.own.Store(&map[*region]*simt.Segment{})
	return v
}

// Find returns the segment of addr, or nil if the kernel must not touch it.
func (v *view) Find(addr uint64) *simt.Segment {
	x, ok := v.drv.space.find(addr)
	if !ok {
		if v.workspace != nil && addr-workspaceBase < uint64(len(v.workspace.Data)) {
			return v.workspace
		}
		if v.heap.holds(addr) {
			return &v.heap.segment
		}
		return v.pageable(addr)
	}
	r := x.region
	if v.denied(x) != "" {
		return nil
	}
	if r.kind.onHost() {
		return v.segment(r)
	}
	near := r.dev == v.ctx.dev
	if near {
		v.found.LoadOrStore(r, nil)
	}
	switch {
	case raceBuild:
		return v.segment(r)
	case r.mapping != nil:
		return r.mappedSegment(v.ctx.dev)
	case near:
		return &r.local
	}
	return &r.remote
}

// takeCopied returns how many bytes copies had just written to the memory that the kernel
// touched. Other kernels find these in the cache. The caller holds Driver.mu.
func (v *view) takeCopied() (n uint64) {
	for r := range v.found.Range {
		n += r.(*region).copiedIn
		r.(*region).copiedIn = 0
	}
	return n
}

// denied returns the reason why the kernel must not touch x, or "" if it may.
func (v *view) denied(x addressRange) string {
	r := x.region
	switch {
	case r.state.Load() == statePending && !r.streamFreed.Load():
		return "not allocated yet at this point of the stream"
	case !r.live():
		return "freed"
	case r.kind == kindMapped:
		if !r.opensTo(v.ctx.dev) {
			return "mapped without access for this device: see MemSetAccess"
		}
	case r.kind == kindPool:
		if !r.opensTo(v.ctx.dev) {
			return "of a pool of another device that is not open to this device: see MemPoolSetAccess"
		}
	case !r.kind.onHost():
		switch {
		case r.ctx == v.ctx || v.peers[r.ctx]:
		case r.dev != v.ctx.dev:
			return "on another device, without peer access"
		case !v.drv.uva:
			return "of another context" // each has addresses of its own
		}
	case r.device == 0:
		return "not mapped for kernels: page-locked without DeviceMap"
	case r.device != x.base:
		return "the host's address: kernels need the address of MemHostGetDevicePointer"
	case !r.seenBy(v.ctx):
		return "page-locked in another context and not portable"
	case r.kind == kindManaged && !v.concurrent:
		a := r.managed.attach.Load()
		if a.flags == cu.MemAttachHost {
			return "attached to the host"
		}
		if a.flags == cu.MemAttachSingle && a.stream != v.stream {
			return "attached to another stream"
		}
	}
	return ""
}

// hostPageShift gives the size of the pages that kernels mark, which is the
// CPU's page.
const hostPageShift = uvm.PageShift

// segment returns the launch's own segment of host memory, with pages to mark.
// In builds with the race detector device memory also has one, without pages.
func (v *view) segment(r *region) *simt.Segment {
	if s := (*v.own.Load())[r]; s != nil {
		return s
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	old := *v.own.Load()
	if s := old[r]; s != nil {
		return s
	}
	s := r.local
	if r.kind.onHost() {
		s.Pages = simt.NewPages(r.size, hostPageShift, r.managed != nil)
	} else {
		if r.dev != v.ctx.dev {
			s = r.remote
		}
		if r.mapping != nil {
			s = *r.mappedSegment(v.ctx.dev)
		}
	}
	s.Watch = v.watch(r)
	next := maps.Clone(old)
	next[r] = &s
	v.own.Store(&next)
	if r.kind.onHost() {
		v.host.Store(true)
	}
	return &s
}

// seesHost reports whether the kernel has found host memory so far.
func (v *view) seesHost() bool { return v.host.Load() }

// touched counts the pages of host memory touched so far. The count grows while
// a kernel makes progress, and stays the same while it spins.
func (v *view) touched() uint64 {
	n := 0
	for _, s := range *v.own.Load() {
		if s.Pages == nil {
			continue
		}
		for i := range s.Pages.Read {
			n += bits.OnesCount64(atomic.LoadUint64(&s.Pages.Read[i])) + bits.OnesCount64(atomic.LoadUint64(&s.Pages.Written[i]))
		}
	}
	return uint64(n) + v.accessCount()
}

// near describes the memory at or next to an address that a kernel must not
// touch.
func (v *view) near(addr uint64) string {
	v.drv.mu.Lock()
	defer v.drv.mu.Unlock()
	text := v.drv.space.near(addr)
	if v.drv.addresses.find(addr) != nil {
		text = v.drv.nearReserved(addr)
	}
	if x, ok := v.drv.space.find(addr); ok {
		if why := v.denied(x); why != "" {
			text += ", " + why
			if rel := x.region.streamFree; rel != nil && why == "freed" {
				text += byLine(rel.site.place())
			}
		}
	}
	return text
}

// pageable returns a segment of ordinary memory around addr, or nil if kernels
// may not use the memory there.
//
// It asks the system for the mapping when a kernel first uses an address, which
// works on Linux only. The segment ends where memory known to the driver
// begins, because that is found and priced separately. Memory that is unmapped
// while a kernel uses it faults, as on hardware. No slice or pointer of the
// memory is made. The segment may cover the whole Go heap, and the collector
// must not find pointers to unused parts of it.
func (v *view) pageable(addr uint64) *simt.Segment {
	if !v.ordinary || addr >= deviceBase || addr < pageSize {
		return nil
	}
	m, ok := mappingAt(addr)
	if !ok {
		return nil
	}
	for x := range v.drv.space.all() {
		if x.end <= addr {
			m.base = max(m.base, x.end)
		} else if x.base > addr {
			m.end = min(m.end, x.base)
			break
		}
	}
	v.host.Store(true)
	s := &simt.Segment{Base: m.base, Size: m.end - m.base, ReadOnly: !m.writable, Counter: kernelcost.CountHost}
	v.watchOrdinary(s)
	return s
}

// mapping is a range of the process's own memory.
type mapping struct {
	base, end uint64
	writable  bool
}
