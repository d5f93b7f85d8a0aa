package softgpu

import (
	"slices"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// pool is device memory that streams allocate from. The address of an
// allocation is known at once, and valid from its place in the stream on. Freed
// memory stays with the pool until the host synchronizes. After that the pool
// keeps as much as its threshold says.
type pool struct {
	dev       *device
	handle    cu.MemPool
	isDefault bool
	destroyed bool
	max       uint64

	reuseSettings [4]uint64 // by MemPoolAttrReuse*
	threshold     uint64

	used, usedHigh         uint64
	reserved, reservedHigh uint64
	live                   int

	access atomic.Pointer[poolAccess]
	shared *sharedPool // of a pool that processes share, else nil
}

// poolStep is the unit in which a pool grows and shrinks.
const poolStep = 32 << 20

// poolReserved returns the bytes that all pools of dev have reserved.
func (dev *device) poolReserved() uint64 {
	sum := uint64(0)
	for _, p := range dev.pools {
		sum += p.reserved
	}
	return sum
}

// trimPools frees what pools hold above their thresholds, after the host has
// synchronized.
func (dev *device) trimPools() {
	dev.streamFreed = slices.DeleteFunc(dev.streamFreed, func(r *region) bool {
		if r.streamFree != nil && !r.streamFree.op.retired {
			return false
		}
		if r.streamFree != nil {
			r.free()
		}
		return true
	})
	for _, p := range dev.pools {
		p.trim(p.threshold)
	}
}

// trim frees unused memory until keep bytes are left.
func (p *pool) trim(keep uint64) { p.reserved = p.trimmed(keep) }

// trimmed returns how many bytes p reserves after a trim.
func (p *pool) trimmed(keep uint64) uint64 {
	return min(p.reserved, roundUp(max(p.used, min(keep, 1<<60)), poolStep))
}

// growth is what an allocation from a pool changes, before anything changes.
type growth struct {
	full     uint64 // bytes of the allocation
	reserved uint64 // bytes that the pool has reserved with it
	trims    bool   // the other pools of the device give back what they do not use
}

// grow returns what an allocation of n bytes, full with its padding, would change. It
// changes nothing, so that an allocation that fails later leaves all counters as they were.
func (p *pool) grow(n, full uint64, what string) (growth, error) {
	mem := &p.dev.memory
	g := growth{full: full, reserved: p.reserved}
	switch {
	case full < n || full > mem.total():
		return g, refuse(cu.ErrorOutOfMemory, what, "device %d has %s of memory", p.dev.ordinal, size(mem.total()))
	case p.max > 0 && p.used+full > p.max:
		return g, refuse(cu.ErrorOutOfMemory, what, "the pool holds %s of at most %s", size(p.used), size(p.max))
	case p.used+full <= p.reserved:
		return g, nil
	}
	g.reserved = roundUp(p.used+full, poolStep)
	free, need := mem.free(), g.reserved-p.reserved
	if need <= free {
		return g, nil
	}
	g.trims = true
	for _, other := range p.dev.pools {
		if other != p {
			free += other.reserved - other.trimmed(0)
		}
	}
	if need > free {
		return g, refuse(cu.ErrorOutOfMemory, what, "device %d has %s free of %s", p.dev.ordinal, size(free), size(mem.total()))
	}
	return g, nil
}

// charge counts an allocation of n bytes as made.
func (p *pool) charge(n uint64, g growth) {
	if g.trims {
		for _, other := range p.dev.pools {
			if other != p {
				other.trim(0)
			}
		}
	}
	if g.reserved > p.reserved {
		p.dev.drv.spend(p.dev.drv.prof.Own.PoolGrow.Ns(float64(n)))
	}
	p.reserved = g.reserved
	p.live++
	p.used += g.full
	p.usedHigh = max(p.usedHigh, p.used)
	p.reservedHigh = max(p.reservedHigh, p.reserved)
}

// alloc allocates n bytes for s. It prefers memory of the same size that s has
// freed.
func (p *pool) alloc(s *streamState, n uint64, what string) (*region, error) {
	if r := p.reuseFreed(s, n, what); r != nil {
		return r, nil
	}
	g, err := p.grow(n, roundUp(n, allocAlign), what)
	if err != nil {
		return nil, err
	}
	c := s.ctx
	r := c.newRegion(kindPool)
	r.pool = p
	if err := p.dev.memory.alloc(r, n, what); err != nil {
		return nil, err
	}
	p.charge(n, g)
	c.regions[r] = struct{}{}
	return r, nil
}

// uncharge returns r's bytes to the pool.
func (p *pool) uncharge(r *region) {
	p.used -= r.charge
	p.live--
	if p.destroyed && p.live == 0 {
		p.dev.pools = slices.DeleteFunc(p.dev.pools, func(x *pool) bool { return x == p })
	}
}

// MemAllocAsync allocates device memory from the current pool.
func (d *Driver) MemAllocAsync(h cu.Context, bytes uintptr, stream cu.Stream) (cu.DevicePtr, error) {
	return d.allocAsync(h, bytes, stream, func(s *streamState) (*pool, error) { return s.ctx.dev.pool, nil })
}

// MemAllocFromPoolAsync allocates device memory from a given pool.
func (d *Driver) MemAllocFromPoolAsync(h cu.Context, bytes uintptr, mp cu.MemPool, stream cu.Stream) (cu.DevicePtr, error) {
	return d.allocAsync(h, bytes, stream, func(*streamState) (*pool, error) { return d.pool(mp, "allocate from a pool") })
}

func (d *Driver) allocAsync(h cu.Context, bytes uintptr, stream cu.Stream, choose func(*streamState) (*pool, error)) (cu.DevicePtr, error) {
	what := "allocate " + size(uint64(bytes)) + " in stream order"
	c, err := d.beginIn(h, what)
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
	if err := p.allocates(what); err != nil {
		return 0, err
	}
	if err := s.valid(what); err != nil {
		return 0, err
	}
	if err := s.mayRun(what); err != nil {
		return 0, err
	}
	d.spend(d.prof.Own.PoolAllocate.Value)
	alloc := p.alloc
	if s.capture != nil {
		if d.prof.Driver.Value < 11040 {
			return 0, refuse(cu.ErrorStreamCaptureUnsupported, what, "graphs allocate memory from CUDA 11.4 on")
		}
		alloc = p.allocateInGraph
	}
	r, err := alloc(s, uint64(bytes), what)
	if err != nil {
		return 0, err
	}
	_, err = s.enqueue(&work{kind: cu.GraphNodeTypeMemAlloc, what: what, touches: r.touches, done: func(*op) {
		r.given()
		d.values.allocated(r.base, r.size)
	}}, what)
	return cu.DevicePtr(r.base), err
}

// MemFreeAsync frees memory in stream order, also memory of MemAlloc.
func (d *Driver) MemFreeAsync(h cu.Context, dptr cu.DevicePtr, stream cu.Stream) error {
	const what = "free in stream order"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	d.spend(d.prof.Own.PoolAllocate.Value)
	x, ok := d.space.find(uint64(dptr))
	r := x.region
	switch {
	case !ok || x.base != uint64(dptr):
		return refuse(cu.ErrorInvalidValue, what, "%#x is not the start of an allocation: %s", uint64(dptr), d.space.near(uint64(dptr)))
	case r.kind == kindDevice && r.opened != nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x is memory of another process: use IpcCloseMemHandle", uint64(dptr))
	case r.kind != kindPool && r.kind != kindDevice:
		return refuse(cu.ErrorInvalidValue, what, "%#x is a %v, not device memory", uint64(dptr), r.shownKind())
	case s.capture != nil:
		return s.freeInGraph(r, what)
	case r.graph != nil:
		_, err := d.freeHeld(r, s, what)
		return err
	case r.streamFree != nil:
		return refuse(cu.ErrorInvalidValue, what, "%#x is being freed already", uint64(dptr))
	}
	rel := &streamFree{stream: s, site: d.space.site()}
	w := &work{kind: cu.GraphNodeTypeMemFree, what: what, touches: r.touches, done: func(*op) { rel.finish(r) }}
	r.streamFree = rel
	if rel.op, err = s.enqueue(w, what); err != nil {
		r.streamFree = nil
		return err
	}
	if r.kind == kindPool {
		s.reusable = append(s.reusable, r)
	}
	return nil
}

// streamFree is a free of a region in stream order. Pool memory keeps its
// region until the host synchronizes, so that the same stream can reuse it.
type streamFree struct {
	stream *streamState
	op     *op
	site   site // the line of the call
	done   bool
	reused bool // the stream allocated it again before the free ran
}

// finish frees the region.
func (rel *streamFree) finish(r *region) {
	rel.done = true
	switch {
	case r.kind != kindPool:
		r.free()
	case r.state.CompareAndSwap(stateLive, statePending) && !rel.reused:
		r.pool.uncharge(r)
		r.streamFreed.Store(true)
		r.dev.streamFreed = append(r.dev.streamFreed, r)
	}
}

// reuseFreed returns memory of p that s has freed, at the same address, or nil.
// s may reuse it at once because its later work follows the free.
func (p *pool) reuseFreed(s *streamState, n uint64, what string) *region {
	s.reusable = slices.DeleteFunc(s.reusable, func(r *region) bool { return r.streamFree == nil || r.state.Load() == stateFreed })
	for _, r := range slices.Backward(s.reusable) {
		rel := r.streamFree
		if s.capture != nil || rel.stream != s || r.pool != p || r.size != n {
			continue
		}
		if !rel.done {
			rel.reused = true
		} else if g, err := p.grow(n, r.charge, what); err != nil {
			return nil
		} else {
			p.charge(n, g)
		}
		r.streamFree = nil
		r.streamFreed.Store(false)
		s.ctx.drv.bufID++
		r.id = s.ctx.drv.bufID
		return r
	}
	return nil
}

// pool returns the pool with the given handle.
func (d *Driver) pool(h cu.MemPool, what string) (*pool, error) {
	p, err := lookup[*pool](d, uintptr(h), what, "memory pool")
	if err != nil && h == 0 {
		return nil, refuse(cu.ErrorInvalidValue, what, "the pool is zero")
	}
	return p, err
}

// poolCall runs a call about a pool.
func (d *Driver) poolCall(h cu.MemPool, what string, f func(*pool) error) error {
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	p, err := d.pool(h, what)
	if err != nil {
		return err
	}
	return f(p)
}

// hasPools fails if the device has no memory pools.
func (dev *device) hasPools(what string) error {
	if dev.attr(cu.DeviceAttributeMemoryPoolsSupported) == 0 {
		return dev.lacks(what, cu.DeviceAttributeMemoryPoolsSupported)
	}
	return nil
}

// DeviceGetDefaultMemPool returns the pool that a device starts with.
func (d *Driver) DeviceGetDefaultMemPool(h cu.Device) (cu.MemPool, error) {
	const what = "get the default pool"
	return deviceCall(d, h, what, func(dev *device) (cu.MemPool, error) {
		return dev.defaultPool.handle, dev.hasPools(what)
	})
}

// DeviceGetMemPool returns the device's current pool.
func (d *Driver) DeviceGetMemPool(h cu.Device) (cu.MemPool, error) {
	const what = "get the current pool"
	return deviceCall(d, h, what, func(dev *device) (cu.MemPool, error) {
		return dev.pool.handle, dev.hasPools(what)
	})
}

// DeviceSetMemPool makes a pool the current one.
func (d *Driver) DeviceSetMemPool(h cu.Device, mp cu.MemPool) error {
	const what = "set the current pool"
	_, err := deviceCall(d, h, what, func(dev *device) (int, error) {
		if err := dev.hasPools(what); err != nil {
			return 0, err
		}
		return 0, dev.setPool(mp, what)
	})
	return err
}

// setPool makes a pool the current one of the device.
func (dev *device) setPool(mp cu.MemPool, what string) error {
	p, err := dev.drv.pool(mp, what)
	if err == nil {
		err = p.allocates(what)
	}
	if err != nil {
		return err
	}
	if p.dev != dev {
		return refuse(cu.ErrorInvalidValue, what, "the pool belongs to device %d", p.dev.ordinal)
	}
	dev.pool = p
	return nil
}

// MemPoolCreate makes a pool of device memory.
func (d *Driver) MemPoolCreate(props *cu.MemPoolProps) (cu.MemPool, error) {
	const what = "create a pool"
	if props == nil {
		return 0, refuse(cu.ErrorInvalidValue, what, "the properties are nil")
	}
	q := *props
	if q.AllocType != cu.MemAllocationTypePinned || q.LocationType != cu.MemLocationTypeDevice {
		return 0, d.noPoolAt(q, what)
	}
	if q.LocationID < 0 || int(q.LocationID) >= len(d.devices) {
		return 0, refuse(cu.ErrorInvalidValue, what, "no device %d, there are %d", q.LocationID, len(d.devices))
	}
	return deviceCall(d, cu.Device(q.LocationID), what, func(dev *device) (cu.MemPool, error) {
		if err := dev.hasPools(what); err != nil {
			return 0, err
		}
		types := cu.MemAllocationHandleType(q.HandleTypes)
		if err := dev.canShare(types, what); err != nil {
			return 0, err
		}
		p := &pool{dev: dev, max: uint64(q.MaxSize)}
		if types != 0 {
			p.shared = &sharedPool{}
		}
		p.reset()
		p.handle = cu.MemPool(d.newHandle(p))
		dev.pools = append(dev.pools, p)
		return p.handle, nil
	})
}

// reset sets the initial settings of a pool.
func (p *pool) reset() {
	p.reuseSettings = [4]uint64{1: 1, 2: 1, 3: 1}
	p.access.Store(&poolAccess{})
}

// MemPoolDestroy frees a pool once its last allocation is freed.
func (d *Driver) MemPoolDestroy(h cu.MemPool) error {
	const what = "destroy a pool"
	return d.poolCall(h, what, func(p *pool) error {
		if p.isDefault {
			return refuse(cu.ErrorInvalidValue, what, "the default pool of a device cannot be destroyed")
		}
		delete(d.handles, uintptr(h))
		p.destroyed = true
		if p.shared != nil && p.shared.file != nil {
			p.shared.file.Close()
		}
		if p.dev.pool == p {
			p.dev.pool = p.dev.defaultPool
		}
		if p.live == 0 {
			p.dev.pools = slices.DeleteFunc(p.dev.pools, func(x *pool) bool { return x == p })
		}
		return nil
	})
}

// MemPoolTrimTo frees unused memory until keep bytes are left.
func (d *Driver) MemPoolTrimTo(h cu.MemPool, keep uintptr) error {
	const what = "trim a pool"
	return d.poolCall(h, what, func(p *pool) error {
		if err := p.allocates(what); err != nil {
			return err
		}
		p.trim(uint64(keep))
		return nil
	})
}

// MemPoolGetAttribute returns a setting or a counter.
func (d *Driver) MemPoolGetAttribute(h cu.MemPool, attr cu.MemPoolAttribute) (value uint64, err error) {
	const what = "read a pool's attribute"
	err = d.poolCall(h, what, func(p *pool) error {
		switch attr {
		case cu.MemPoolAttrReuseFollowEventDependencies, cu.MemPoolAttrReuseAllowOpportunistic, cu.MemPoolAttrReuseAllowInternalDependencies:
			value = p.reuseSettings[attr]
		case cu.MemPoolAttrReleaseThreshold:
			value = p.threshold
		case cu.MemPoolAttrReservedMemCurrent:
			value = p.reserved
		case cu.MemPoolAttrReservedMemHigh:
			value = p.reservedHigh
		case cu.MemPoolAttrUsedMemCurrent:
			value = p.used
		case cu.MemPoolAttrUsedMemHigh:
			value = p.usedHigh
		default:
			return refuse(cu.ErrorInvalidValue, what, "attribute %d is not known", attr)
		}
		return nil
	})
	return value, err
}

// MemPoolSetAttribute changes a setting, or resets a high-water mark.
func (d *Driver) MemPoolSetAttribute(h cu.MemPool, attr cu.MemPoolAttribute, value uint64) error {
	const what = "set a pool's attribute"
	return d.poolCall(h, what, func(p *pool) error {
		high := attr == cu.MemPoolAttrReservedMemHigh || attr == cu.MemPoolAttrUsedMemHigh
		switch {
		case high && value != 0:
			return refuse(cu.ErrorInvalidValue, what, "a high-water mark can only be set to 0, not %d", value)
		case attr == cu.MemPoolAttrReservedMemHigh:
			p.reservedHigh = p.reserved
		case attr == cu.MemPoolAttrUsedMemHigh:
			p.usedHigh = p.used
		case attr == cu.MemPoolAttrReleaseThreshold:
			p.threshold = value
		case attr >= cu.MemPoolAttrReuseFollowEventDependencies && attr <= cu.MemPoolAttrReuseAllowInternalDependencies:
			if value > 1 {
				return refuse(cu.ErrorInvalidValue, what, "%d is neither 0 nor 1", value)
			}
			p.reuseSettings[attr] = value
		default:
			return refuse(cu.ErrorInvalidValue, what, "attribute %d cannot be set", attr)
		}
		return nil
	})
}
