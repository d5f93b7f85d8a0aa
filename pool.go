package ferry

import (
	"errors"
	"fmt"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// Pool is GPU memory that [AllocAsync] takes from and gives back to without
// asking the driver for more each time. It is safe for concurrent use.
type Pool struct {
	g      *GPU
	handle cu.MemPool
	own    bool // made by NewPool
	life   lifetime
}

// PoolOptions say how a pool is made.
type PoolOptions struct {
	// Keep is how many bytes of unused memory the pool keeps when somebody waits
	// for the GPU; what is more goes back to the driver
	// (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD). With 0 it keeps none.
	Keep int
	// Max is the most bytes that the pool holds; 0 is what the GPU has. Drivers
	// before CUDA 12.3 do not know it.
	Max int
}

// PoolStats is the memory of a pool, in bytes.
type PoolStats struct {
	Used, MostUsed         int // by buffers
	Reserved, MostReserved int // taken from the GPU
}

// Pool is the pool that the device starts with (cuDeviceGetDefaultMemPool), from
// which [AllocAsync] takes if not told otherwise, as long as nobody sets another
// through the driver. It is shared by all of the process; its Close does nothing.
// A device without pools is cu.ErrorNotSupported.
func (g *GPU) Pool() (*Pool, error) {
	if err := g.enter("find the memory pool"); err != nil {
		return nil, err
	}
	defer g.leave()
	if err := g.hasPools(); err != nil {
		return nil, err
	}
	handle, err := g.driver.DeviceGetDefaultMemPool(g.device)
	if err != nil {
		return nil, fmt.Errorf("find the memory pool of %s: %w", g.label, err)
	}
	return &Pool{g: g, handle: handle}, nil
}

// NewPool makes a pool of the device's memory (cuMemPoolCreate). A device without
// pools is cu.ErrorNotSupported. o may be nil.
func (g *GPU) NewPool(o *PoolOptions) (*Pool, error) {
	if err := g.enter("make a memory pool"); err != nil {
		return nil, err
	}
	p, err := g.newPool(o)
	if err != nil {
		g.leave()
		return nil, err
	}
	return p, nil
}

func (g *GPU) newPool(o *PoolOptions) (*Pool, error) {
	if err := g.hasPools(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &PoolOptions{}
	}
	if o.Keep < 0 || o.Max < 0 {
		return nil, refuse("make a memory pool on %s: keep %d, at most %d bytes: they cannot be negative", g.label, o.Keep, o.Max)
	}
	handle, err := g.driver.MemPoolCreate(&cu.MemPoolProps{
		AllocType:    cu.MemAllocationTypePinned,
		LocationType: cu.MemLocationTypeDevice,
		LocationID:   int32(g.device),
		MaxSize:      uintptr(o.Max),
	})
	if err != nil {
		return nil, fmt.Errorf("make a memory pool on %s: %w", g.label, err)
	}
	p := &Pool{g: g, handle: handle, own: true}
	if o.Keep > 0 {
		if err := p.SetKeep(o.Keep); err != nil {
			return nil, errors.Join(err, g.driver.MemPoolDestroy(handle))
		}
	}
	return p, nil
}

// hasPools refuses where the device has none.
func (g *GPU) hasPools() error {
	if g.caps.pools {
		return nil
	}
	return g.lacking("use memory pools", cu.DeviceAttributeMemoryPoolsSupported, "AllocAsync without a pool takes memory as Alloc does")
}

// enter begins a use of the pool; leave ends it.
func (p *Pool) enter(what string) error {
	if p == nil {
		return refuse("%s: no memory pool given (nil)", what)
	}
	if !p.life.enter() {
		return fmt.Errorf("%s: a memory pool of %s: %w", what, p.g.label, ErrClosed)
	}
	if !p.own { // nothing else holds the GPU
		if err := p.g.enter(what); err != nil {
			p.life.leave()
			return err
		}
	}
	return nil
}

func (p *Pool) leave() {
	if !p.own {
		p.g.leave()
	}
	if p.life.leave() {
		_ = p.g.soon(p.destroy)
	}
}

// SetKeep sets how many bytes of unused memory the pool keeps when somebody waits
// for the GPU: see [PoolOptions]. math.MaxInt is all.
func (p *Pool) SetKeep(bytes int) error {
	const what = "set what a memory pool keeps"
	if err := p.enter(what); err != nil {
		return err
	}
	defer p.leave()
	if bytes < 0 {
		return refuse("%s on %s: %d bytes: it cannot be negative", what, p.g.label, bytes)
	}
	if err := p.g.driver.MemPoolSetAttribute(p.handle, cu.MemPoolAttrReleaseThreshold, uint64(bytes)); err != nil {
		return fmt.Errorf("%s on %s to %s: %w", what, p.g.label, sizeText(uintptr(bytes)), err)
	}
	return nil
}

// Trim gives unused memory back to the driver, down to keep bytes
// (cuMemPoolTrimTo). Memory counts as unused when the work before its Close is
// known to be done: wait for the stream first.
func (p *Pool) Trim(keep int) error {
	if err := p.enter("trim a memory pool"); err != nil {
		return err
	}
	defer p.leave()
	if keep < 0 {
		return refuse("trim a memory pool of %s: %d bytes: it cannot be negative", p.g.label, keep)
	}
	if err := p.g.driver.MemPoolTrimTo(p.handle, uintptr(keep)); err != nil {
		return fmt.Errorf("trim a memory pool of %s to %s: %w", p.g.label, sizeText(uintptr(keep)), err)
	}
	return nil
}

// Stats says how much memory the pool has.
func (p *Pool) Stats() (PoolStats, error) {
	if err := p.enter("read a memory pool"); err != nil {
		return PoolStats{}, err
	}
	defer p.leave()
	var failed error
	read := func(a cu.MemPoolAttribute) int {
		v, err := p.g.driver.MemPoolGetAttribute(p.handle, a)
		failed = errors.Join(failed, err)
		return int(min(v, math.MaxInt))
	}
	stats := PoolStats{
		Used: read(cu.MemPoolAttrUsedMemCurrent), MostUsed: read(cu.MemPoolAttrUsedMemHigh),
		Reserved: read(cu.MemPoolAttrReservedMemCurrent), MostReserved: read(cu.MemPoolAttrReservedMemHigh),
	}
	if failed != nil {
		return PoolStats{}, fmt.Errorf("read a memory pool of %s: %w", p.g.label, failed)
	}
	return stats, nil
}

// Close gives the pool up (cuMemPoolDestroy). Buffers of it stay good; its memory
// goes with the last of them. Close of the device's own, a closed or a nil pool is
// nil.
func (p *Pool) Close() error {
	if p == nil || !p.own {
		return nil
	}
	if _, last := p.life.close(); last {
		return p.g.soon(p.destroy)
	}
	return nil
}

// destroy is the driver's part of Close.
func (p *Pool) destroy() error {
	err := p.g.driver.MemPoolDestroy(p.handle)
	if inCallback(err) {
		return err
	}
	p.g.leave()
	if err != nil {
		return fmt.Errorf("close a memory pool of %s: %w", p.g.label, err)
	}
	return nil
}

// AllocAsync takes memory for n elements in the order of the stream, from a pool
// (cuMemAllocFromPoolAsync) or, with nil, the device's (cuMemAllocAsync). It does
// not wait, and neither does the buffer's Close: that frees in the order of a
// stream, after all uses that the buffer knows of (cuMemFreeAsync). Any stream may
// use the buffer; those that do wait for the allocation by themselves.
//
// On a device that has no pools (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED is 0)
// AllocAsync without a pool is [Alloc]: the same buffer, but both ends of its life
// may wait for the GPU. [GPU.Pool] tells. In a capture it is refused: allocate
// before, the graph keeps the buffer. Errors are as for Alloc.
func AllocAsync[T any](s *Stream, n int, p *Pool) (*Device[T], error) {
	q, err := s.enter("allocate in stream order")
	if err != nil {
		return nil, err
	}
	queued := false
	var a *allocation
	var l *lane
	defer func() {
		seq := q.finish(queued)
		if queued {
			a.order.seq = seq
			a.end(l, writes, seq)
		}
	}()
	if q.c != nil {
		return nil, fmt.Errorf("allocate on %v: %w", q, &refusal{cu.ErrorStreamCaptureUnsupported, "it captures: allocate before, the graph keeps the buffer"})
	}
	if p == nil && !q.g.caps.pools {
		return Alloc[T](q.g, n)
	}
	if p != nil {
		if err := p.enter("allocate"); err != nil {
			return nil, err
		}
		defer p.leave()
		if !sameDriver(p.g.driver, q.g.driver) || p.g.ctx != q.g.ctx {
			return nil, refuse("allocate on %v from a memory pool of %s: they must be of one GPU", q, p.g.label)
		}
	}
	if a, err = newAllocation[T](q.g, deviceMemory, n); err != nil {
		return nil, err
	}
	if a.bytes > 0 {
		if a.dev, err = q.allocAsync(a.bytes, p); err != nil {
			return nil, a.fail("allocate", err, q.g.room(a.bytes, err))
		}
		a.order = &order{home: q}
		l = a.begin(q, writes)
		queued = true
	}
	a.start()
	return &Device[T]{a.whole()}, nil
}

// allocAsync is the driver's part.
func (q *queue) allocAsync(bytes uintptr, p *Pool) (cu.DevicePtr, error) {
	if p == nil {
		return q.g.driver.MemAllocAsync(q.g.ctx, bytes, q.handle)
	}
	return q.g.driver.MemAllocFromPoolAsync(q.g.ctx, bytes, p.handle, q.handle)
}
