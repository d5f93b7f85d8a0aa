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
	for _, p := range dev.pools {
		p.trim(p.threshold)
	}
}

// trim gives unused memory back down to keep bytes.
func (p *pool) trim(keep uint64) {
	p.reserved = min(p.reserved, roundUp(max(p.used, min(keep, 1<<60)), poolStep))
}

// alloc takes n bytes from p.
func (p *pool) alloc(c *contextState, n uint64, what string) (*region, error) {
	full := roundUp(n, allocAlign)
	mem := &p.dev.memory
	switch {
	case n == 0:
		return nil, refuse(cu.ErrorInvalidValue, what, "there is no allocation of zero bytes")
	case full < n || full > mem.total():
		return nil, refuse(cu.ErrorOutOfMemory, what, "device %d has %s", p.dev.ordinal, size(mem.total()))
	case p.max > 0 && p.used+full > p.max:
		return nil, refuse(cu.ErrorOutOfMemory, what, "the pool holds %s of at most %s", size(p.used), size(p.max))
	}
	before := p.reserved
	if p.used+full > p.reserved {
		p.reserved = roundUp(p.used+full, poolStep)
		if mem.used() > mem.total() {
			for _, other := range p.dev.pools {
				if other != p {
					other.trim(0)
				}
			}
		}
		if mem.used() > mem.total() {
			p.reserved = before
			return nil, refuse(cu.ErrorOutOfMemory, what, "device %d has %s free of %s", p.dev.ordinal, size(mem.free()), size(mem.total()))
		}
	}
	r := c.newRegion(kindPool)
	r.pool = p
	if err := mem.alloc(r, n, what); err != nil {
		p.reserved = before
		return nil, err
	}
	p.live++
	p.used += full
	p.usedHigh = max(p.usedHigh, p.used)
	p.reservedHigh = max(p.reservedHigh, p.reserved)
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
	if err != nil {
		return 0, err
	}
	if err := s.valid(what); err != nil {
		return 0, err
	}
	if err := s.mayRun(what); err != nil {
		return 0, err
	}
	d.host += d.prof.Own.PoolAllocate.Value
	r, err := p.alloc(s.ctx, uint64(bytes), what)
	if err != nil {
		return 0, err
	}
	if s.capture != nil {
		r.graph = s.capture.graph
		r.graph.owned = append(r.graph.owned, r)
	}
	_, err = s.enqueue(&work{kind: cu.GraphNodeTypeMemAlloc, what: what, done: func(*op) {
		r.state.CompareAndSwap(statePending, stateLive)
	}}, what)
	return cu.DevicePtr(r.base), err
}

// MemFreeAsync frees at this point of the stream.
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
	case r.kind != kindPool:
		return refuse(cu.ErrorInvalidValue, what, "%#x is a %v, not one from a pool", uint64(dptr), r.kind)
	case r.freeing:
		return refuse(cu.ErrorInvalidValue, what, "%#x is being freed already", uint64(dptr))
	case r.graph != nil && s.capture == nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x belongs to a graph: free it there", uint64(dptr))
	}
	w := &work{kind: cu.GraphNodeTypeMemFree, what: what, done: func(*op) { r.free() }}
	if r.graph != nil { // the next launch has it again
		w.done = func(*op) { r.state.CompareAndSwap(stateLive, statePending) }
	}
	if _, err := s.enqueue(w, what); err != nil {
		return err
	}
	r.freeing = true
	return nil
}
