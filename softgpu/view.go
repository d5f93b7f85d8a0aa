package softgpu

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
	"github.com/ferrygpu/ferry/internal/uvm"
)

// view is the address space as one kernel sees it. It implements [simt.Memory].
type view struct {
	drv        *Driver
	ctx        *contextState
	stream     *streamState
	peers      map[*contextState]bool
	concurrent bool // host and device may use managed memory at once
	ordinary   bool // the device uses the host's page tables
	host       atomic.Bool
	copied     atomic.Uint64 // bytes of device memory that a copy had just written
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
		drv:      d, ctx: o.ctx, stream: o.stream,
		peers:      maps.Clone(o.ctx.peers),
		concurrent: o.ctx.dev.attr(cu.DeviceAttributeConcurrentManagedAccess) != 0,
	}
	v.own.Store(&map[*region]*simt.Segment{})
	return v
}

// Find is the segment of addr, nil if the kernel must not touch it.
func (v *view) Find(addr uint64) *simt.Segment {
	x, ok := v.drv.space.find(addr)
	if !ok {
		return v.pageable(addr)
	}
	r := x.region
	if v.refuses(x) != "" {
		return nil
	}
	if r.kind.onHost() {
		return v.segment(r)
	}
	near := r.dev == v.ctx.dev
	if near && r.copied.Load() != 0 {
		v.copied.Add(r.copied.Swap(0))
	}
	switch {
	case raceBuild:
		return v.segment(r)
	case near:
		return &r.local
	}
	return &r.remote
}

// refuses says why the kernel must not touch x, "" if it may.
func (v *view) refuses(x span) string {
	r := x.region
	switch {
	case r.state.Load() == statePending && !r.gone():
		return "not allocated yet at this point of the stream"
	case !r.live():
		return "freed"
	case !r.kind.onHost():
		if r.ctx != v.ctx && !v.peers[r.ctx] {
			if r.dev == v.ctx.dev {
				return "of another context"
			}
			return "on another device, without peer access"
		}
	case r.device == 0:
		return "not mapped for kernels: page-locked without DeviceMap"
	case r.device != x.base:
		return "the host's address: kernels know it by another, MemHostGetDevicePointer"
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

// hostPageShift is that of the pages that kernels mark. It is the CPU's page.
const hostPageShift = uvm.PageShift

// segment of host memory, the launch's own, with pages to mark. In builds with the
// race detector device memory has one, too.
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
		s.Pages = simt.NewPages(1, 63, false)
	}
	s.Pages.Watch = v.watch(r)
	next := maps.Clone(old)
	next[r] = &s
	v.own.Store(&next)
	if r.kind.onHost() {
		v.host.Store(true)
	}
	return &s
}

// seesHost says whether the kernel has found host memory so far.
func (v *view) seesHost() bool { return v.host.Load() }

// touched counts the pages of host memory touched so far: it grows while a
// kernel gets on, and stays while it spins.
func (v *view) touched() uint64 {
	n := 0
	for _, s := range *v.own.Load() {
		for i := range s.Pages.Read {
			n += bits.OnesCount64(atomic.LoadUint64(&s.Pages.Read[i])) + bits.OnesCount64(atomic.LoadUint64(&s.Pages.Written[i]))
		}
	}
	return uint64(n) + v.told()
}

// near says what is at or next to an address that a kernel should not have touched.
func (v *view) near(addr uint64) string {
	v.drv.mu.Lock()
	defer v.drv.mu.Unlock()
	text := v.drv.space.near(addr)
	if x, ok := v.drv.space.find(addr); ok {
		if why := v.refuses(x); why != "" {
			text += ", " + why
			if rel := x.region.release; rel != nil && why == "freed" {
				text += rel.site.words()
			}
		}
	}
	return text
}
