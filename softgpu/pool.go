package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// pool is memory of a device that streams allocate from. Addresses are given at
// once and valid from that point of the stream on; memory that is freed stays
// with the pool until somebody synchronises, as far as its threshold says.
type pool struct {
	dev       *device
	handle    cu.MemPool
	def       bool
	destroyed bool // destroyed
	max       uint64

	reuse     [4]uint64 // settings by MemPoolAttrReuse*
	threshold uint64

	used, usedHigh         uint64
	reserved, reservedHigh uint64
	live                   int
}

// poolStep is what a pool grows and shrinks by.
const poolStep = 32 << 20

// poolReserved is what all pools of dev have taken.
func (dev *device) poolReserved() uint64 {
	sum := uint64(0)
	for _, p := range dev.pools {
		sum += p.reserved
	}
	return sum
}

// trimPools gives back what pools hold above their thresholds: the host has synchronised.
func (dev *device) trimPools() {
	dev.parked = slices.DeleteFunc(dev.parked, func(r *region) bool {
		if r.release != nil && !r.release.by.retired {
			return false
		}
		if r.release != nil {
			r.free()
		}
		return true
	})
	for _, p := range dev.pools {
		p.trim(p.threshold)
	}
}

// trim gives unused memory back down to keep bytes.
func (p *pool) trim(keep uint64) {
	p.reserved = min(p.reserved, roundUp(max(p.used, min(keep, 1<<60)), poolStep))
}

// charge counts full bytes as used, which n bytes take.
func (p *pool) charge(n, full uint64, what string) error {
	mem := &p.dev.memory
	switch {
	case full < n || full > mem.total():
		return refuse(cu.ErrorOutOfMemory, what, "device %d has %s", p.dev.ordinal, size(mem.total()))
	case p.max > 0 && p.used+full > p.max:
		return refuse(cu.ErrorOutOfMemory, what, "the pool holds %s of at most %s", size(p.used), size(p.max))
	}
	before := p.reserved
	if p.used+full > p.reserved {
		p.reserved = roundUp(p.used+full, poolStep)
		p.dev.drv.host += p.dev.drv.prof.Own.PoolGrow.Ns(float64(n))
		if mem.used() > mem.total() {
			for _, other := range p.dev.pools {
				if other != p {
					other.trim(0)
				}
			}
		}
		if mem.used() > mem.total() {
			p.reserved = before
			return refuse(cu.ErrorOutOfMemory, what, "device %d has %s free of %s", p.dev.ordinal, size(mem.free()), size(mem.total()))
		}
	}
	p.live++
	p.used += full
	p.usedHigh = max(p.usedHigh, p.used)
	p.reservedHigh = max(p.reservedHigh, p.reserved)
	return nil
}

// alloc takes n bytes from p for s: those of the same size that s freed last, or
// others.
func (p *pool) alloc(s *streamState, n uint64, what string) (*region, error) {
	if r := s.retake(p, n, what); r != nil {
		return r, nil
	}
	c, full := s.ctx, roundUp(n, allocAlign)
	if err := p.charge(n, full, what); err != nil {
		return nil, err
	}
	r := c.newRegion(kindPool)
	r.pool = p
	if err := p.dev.memory.alloc(r, n, what); err != nil {
		p.used -= full
		p.live--
		return nil, err
	}
	c.regions[r] = struct{}{}
	return r, nil
}

// gone takes r's bytes back into the pool.
func (p *pool) gone(r *region) {
	p.used -= r.charge
	p.live--
	if p.destroyed && p.live == 0 {
		p.dev.pools = slices.DeleteFunc(p.dev.pools, func(x *pool) bool { return x == p })
	}
}

// MemAllocAsync takes device memory from the current pool.
func (d *Driver) MemAllocAsync(h cu.Context, bytes uintptr, stream cu.Stream) (cu.DevicePtr, error) {
	return d.allocAsync(h, bytes, stream, func(s *streamState) (*pool, error) { return s.ctx.dev.pool, nil })
}

// MemAllocFromPoolAsync takes it from a given pool.
func (d *Driver) MemAllocFromPoolAsync(h cu.Context, bytes uintptr, mp cu.MemPool, stream cu.Stream) (cu.DevicePtr, error) {
	return d.allocAsync(h, bytes, stream, func(*streamState) (*pool, error) { return d.pool(mp, "allocate from a pool") })
}

func (d *Driver) allocAsync(h cu.Context, bytes uintptr, stream cu.Stream, choose func(*streamState) (*pool, error)) (cu.DevicePtr, error) {
	what := "allocate " + size(uint64(bytes)) + " in stream order"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return 0, err
	}
	if c.dev.attr(cu.DeviceAttributeMemoryPoolsSupported) == 0 {
		return 0, c.dev.lacks(what, cu.DeviceAttributeMemoryPoolsSupported)
	}
	p, err := choose(s)
	if err != nil || bytes == 0 {
		return 0, err
	}
	if err := s.valid(what); err != nil {
		return 0, err
	}
	if err := s.mayRun(what); err != nil {
		return 0, err
	}
	d.host += d.prof.Own.PoolAllocate.Value
	r, err := p.alloc(s, uint64(bytes), what)
	if err != nil {
		return 0, err
	}
	if s.capture != nil {
		r.graph = s.capture.graph
		r.graph.owned = append(r.graph.owned, r)
	}
	_, err = s.enqueue(&work{kind: cu.GraphNodeTypeMemAlloc, what: what, touches: r.touches, done: func(*op) {
		r.state.CompareAndSwap(statePending, stateLive)
	}}, what)
	return cu.DevicePtr(r.base), err
}

// MemFreeAsync frees at this point of the stream, what MemAlloc gave too.
func (d *Driver) MemFreeAsync(h cu.Context, dptr cu.DevicePtr, stream cu.Stream) error {
	const what = "free in stream order"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	d.host += d.prof.Own.PoolAllocate.Value
	x, ok := d.space.find(uint64(dptr))
	r := x.region
	switch {
	case !ok || x.base != uint64(dptr):
		return refuse(cu.ErrorInvalidValue, what, "%#x is not the start of an allocation: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case r.kind != kindPool && r.kind != kindDevice:
		return refuse(cu.ErrorInvalidValue, what, "%#x is a %v, not device memory", uint64(dptr), r.kind)
	case r.kind == kindDevice && s.capture != nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x was not allocated in this capture, and a graph frees only its own", uint64(dptr))
	case r.release != nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x is being freed already", uint64(dptr))
	case r.graph != nil && s.capture == nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x belongs to a graph: free it there", uint64(dptr))
	}
	rel := &release{stream: s, site: here()}
	w := &work{kind: cu.GraphNodeTypeMemFree, what: what, touches: r.touches, done: func(*op) { rel.end(r) }}
	if r.graph != nil { // the next launch has it again
		w.done = func(*op) { r.state.CompareAndSwap(stateLive, statePending) }
	}
	r.release = rel
	if rel.by, err = s.enqueue(w, what); err != nil {
		r.release = nil
		return err
	}
	if r.kind == kindPool && r.graph == nil {
		s.freed = append(s.freed, r)
	}
	return nil
}

// release is a free of a region in stream order. Memory of a pool stays known
// then until the host synchronises, so that its stream can have it again.
type release struct {
	stream *streamState
	by     *op
	site   site // the call
	done   bool
	taken  bool // the stream has it again before it was freed
}

// end is the free itself.
func (rel *release) end(r *region) {
	rel.done = true
	switch {
	case r.kind != kindPool:
		r.free()
	case r.state.CompareAndSwap(stateLive, statePending) && !rel.taken:
		r.pool.gone(r)
		r.parked.Store(true)
		r.dev.parked = append(r.dev.parked, r)
	}
}

// retake is memory of p that s freed and can have again at the same address, nil
// if there is none: what follows in s comes after the free.
func (s *streamState) retake(p *pool, n uint64, what string) *region {
	s.freed = slices.DeleteFunc(s.freed, func(r *region) bool { return r.release == nil || r.state.Load() == stateFreed })
	for _, r := range slices.Backward(s.freed) {
		rel := r.release
		if s.capture != nil || rel.stream != s || r.pool != p || r.size != n {
			continue
		}
		if !rel.done {
			rel.taken = true
		} else if p.charge(n, r.charge, what) != nil {
			return nil
		}
		r.release = nil
		r.parked.Store(false)
		s.ctx.drv.bufID++
		r.id = s.ctx.drv.bufID
		return r
	}
	return nil
}
