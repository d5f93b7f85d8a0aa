package ferry

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// MemPool is a pool of GPU memory in the driver. [AllocAsync] takes memory from it, and
// Close of a buffer gives it back, without a new allocation on the device each time. It is
// safe for concurrent use.
type MemPool struct {
	g        *GPU
	handle   atomic.Uintptr // a cu.MemPool; of the default pool 0 before its first use
	own      bool           // made by NewMemPool
	zero     bool
	lifetime inflight.Lifetime
	leak     runtime.Cleanup
}

// MemPoolOptions are the options of [NewMemPool].
type MemPoolOptions struct {
	// Keep is how many bytes of unused memory the pool keeps when a program waits for the
	// GPU. The rest goes back to the device (CU_MEMPOOL_ATTR_RELEASE_THRESHOLD). The
	// default is 0: the pool keeps none.
	Keep int
	// Max is the largest size of the pool in bytes. 0 means the memory of the GPU.
	// Drivers before CUDA 12.3 do not support it.
	Max int
	// Zero clears the memory of each buffer in the order of its stream, before other work
	// can use it (cuMemsetD8Async). So no buffer has what another one has left. Without
	// Zero a buffer has any contents.
	Zero bool
}

// MemPoolStats is the memory of a pool, in bytes.
type MemPoolStats struct {
	Used, MostUsed         int // used by buffers: now, and the most so far
	Reserved, MostReserved int // taken from the GPU: now, and the most so far
}

// NewMemPool makes a pool of device memory (cuMemPoolCreate). GPUs that [GPU.EnablePeer] has
// given access to the memory of g can use its memory, too. If the device has no pools, the
// error wraps cu.ErrorNotSupported. o may be nil.
func NewMemPool(g *GPU, o *MemPoolOptions) (*MemPool, error) {
	if err := g.enter("make a memory pool"); err != nil {
		return nil, err
	}
	p, err := newMemPool(g, o)
	if err != nil {
		g.leave()
		return nil, err
	}
	return p, nil
}

func newMemPool(g *GPU, o *MemPoolOptions) (*MemPool, error) {
	if err := hasPools(g); err != nil {
		return nil, err
	}
	if o == nil {
		o = &MemPoolOptions{}
	}
	if o.Keep < 0 || o.Max < 0 {
		return nil, refusal.Invalid("make a memory pool on %s: keep %d, at most %d bytes: they cannot be negative", g.label, o.Keep, o.Max)
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
	p := &MemPool{g: g, own: true, zero: o.Zero}
	p.handle.Store(uintptr(handle))
	if o.Keep > 0 {
		err = p.SetKeep(o.Keep)
	}
	if err == nil {
		err = g.shared.addPool(p)
	}
	if err != nil {
		g.shared.dropPool(p)
		return nil, refusal.Join(err, g.driver.MemPoolDestroy(handle))
	}
	p.leak = leak.Watch(p, p.String)
	return p, nil
}

// String returns a description of the pool: "a memory pool of cuda:0" or "the default memory
// pool of cuda:0".
func (p *MemPool) String() string {
	if p == nil || p.g == nil {
		return "no memory pool"
	}
	if !p.own {
		return "the default memory pool of " + p.g.label
	}
	return "a memory pool of " + p.g.label
}

// GPU returns the GPU of the pool.
func (p *MemPool) GPU() *GPU {
	if p == nil {
		return nil
	}
	return p.g
}

// Handle returns the driver's handle of the pool (a CUmemoryPool), for another library. It must
// not destroy the pool. Of the default pool it is 0 if the device has no pools, or if the driver
// refuses to name it. After Close the handle is dead: see [Stream.Handle].
func (p *MemPool) Handle() cu.MemPool {
	if p == nil || p.g == nil {
		return 0
	}
	if !p.own && p.g.lifetime.Enter() {
		_ = p.find() // a use of the pool says why it fails
		p.g.leave()
	}
	return p.driverPool()
}

// hasPools returns an error if the device has no pools.
func hasPools(g *GPU) error {
	if g.caps.Pools {
		return nil
	}
	return g.lacking("use memory pools", cu.DeviceAttributeMemoryPoolsSupported, "AllocAsync without a pool takes memory as Alloc does")
}

// enter counts a use of the pool. It fails when the pool is nil or closed. leave ends the
// use.
func (p *MemPool) enter(what string) error {
	if p == nil || p.g == nil {
		return refusal.Invalid("%s: no memory pool given (nil)", what)
	}
	if forked.Child() {
		return forked.New(what)
	}
	if !p.lifetime.Enter() {
		return fmt.Errorf("%s: %v: %w", what, p, ErrClosed)
	}
	if !p.own { // unlike a pool of NewMemPool, the default pool does not keep the GPU open
		if err := p.g.enter(what); err != nil {
			p.lifetime.Leave()
			return err
		}
		if err := p.find(); err != nil {
			p.leave()
			return err
		}
	}
	return nil
}

// find finds the driver's handle of the default pool at its first use.
func (p *MemPool) find() error {
	if p.handle.Load() != 0 {
		return nil
	}
	if err := hasPools(p.g); err != nil {
		return err
	}
	handle, err := p.g.driver.DeviceGetDefaultMemPool(p.g.device)
	if err != nil {
		return fmt.Errorf("find %v: %w", p, err)
	}
	p.handle.Store(uintptr(handle))
	return nil
}

// driverPool returns the driver's handle of the pool.
func (p *MemPool) driverPool() cu.MemPool { return cu.MemPool(p.handle.Load()) }

func (p *MemPool) leave() {
	if !p.own {
		p.g.leave()
	}
	if p.lifetime.Leave() {
		_ = closing.AfterHostFunction(p.destroy)
	}
}

// SetKeep sets how many bytes of unused memory the pool keeps when a program waits for the
// GPU (cuMemPoolSetAttribute): see [MemPoolOptions]. With math.MaxInt it keeps all memory.
func (p *MemPool) SetKeep(bytes int) error {
	const what = "set what a memory pool keeps"
	if err := p.enter(what); err != nil {
		return err
	}
	defer p.leave()
	if bytes < 0 {
		return refusal.Invalid("%s on %s: %d bytes: it cannot be negative", what, p.g.label, bytes)
	}
	if err := p.g.driver.MemPoolSetAttribute(p.driverPool(), cu.MemPoolAttrReleaseThreshold, uint64(bytes)); err != nil {
		return fmt.Errorf("%s on %s to %s: %w", what, p.g.label, refusal.Size(uintptr(bytes)), err)
	}
	return nil
}

// Trim gives unused memory back to the device, until the pool has no more than keep bytes
// (cuMemPoolTrimTo). The memory of a closed buffer is unused when the work before its
// Close is known to be done: wait for the stream first.
func (p *MemPool) Trim(keep int) error {
	if err := p.enter("trim a memory pool"); err != nil {
		return err
	}
	defer p.leave()
	if keep < 0 {
		return refusal.Invalid("trim %v: %d bytes: it cannot be negative", p, keep)
	}
	if err := p.g.driver.MemPoolTrimTo(p.driverPool(), uintptr(keep)); err != nil {
		return fmt.Errorf("trim %v to %s: %w", p, refusal.Size(uintptr(keep)), err)
	}
	return nil
}

// Stats returns how much memory the pool has (cuMemPoolGetAttribute).
func (p *MemPool) Stats() (MemPoolStats, error) {
	if err := p.enter("read a memory pool"); err != nil {
		return MemPoolStats{}, err
	}
	defer p.leave()
	var failed error
	read := func(a cu.MemPoolAttribute) int {
		if failed != nil {
			return 0
		}
		var v uint64
		v, failed = p.g.driver.MemPoolGetAttribute(p.driverPool(), a)
		return int(min(v, math.MaxInt))
	}
	stats := MemPoolStats{
		Used: read(cu.MemPoolAttrUsedMemCurrent), MostUsed: read(cu.MemPoolAttrUsedMemHigh),
		Reserved: read(cu.MemPoolAttrReservedMemCurrent), MostReserved: read(cu.MemPoolAttrReservedMemHigh),
	}
	if failed != nil {
		return MemPoolStats{}, fmt.Errorf("read %v: %w", p, failed)
	}
	return stats, nil
}

// Close closes the pool (cuMemPoolDestroy). Its buffers stay valid, and its memory is
// freed when the last of them is closed. Close of the default pool, or of a closed or nil
// pool, does nothing and returns nil.
func (p *MemPool) Close() error {
	if p == nil || !p.own {
		return nil
	}
	p.leak.Stop()
	if _, unused := p.lifetime.Close(); unused {
		return closing.AfterHostFunction(p.destroy)
	}
	return nil
}

// destroy destroys the driver's pool and leaves the GPU.
func (p *MemPool) destroy() error {
	p.g.shared.dropPool(p)
	err := p.g.driver.MemPoolDestroy(p.driverPool())
	if closing.InHostFunction(err) {
		return err
	}
	p.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", p, err)
	}
	return nil
}

// AllocAsync allocates memory for n elements in the order of the stream. It takes the
// memory from pool p (cuMemAllocFromPoolAsync) or, if p is nil, from the default pool
// (cuMemAllocAsync). Neither AllocAsync nor Close of the buffer waits: Close frees the
// memory in the order of a stream, after all operations in flight on the buffer
// (cuMemFreeAsync). Any stream may use the buffer, and waits for the allocation if
// necessary. Rely on no more than that: a stream that reads what s writes needs an event of
// s, at its first use of the buffer, too. On hardware the first use waits by chance for all
// that is queued on s then. On a software GPU and under FERRY_CHECK it waits for the
// allocation alone, so that a missing event is seen. The contents are undefined, as for
// [Alloc]: memory that the pool gives out again holds what was in it.
//
// If the device has no pools (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED is 0), AllocAsync
// without a pool is [Alloc]. The buffer is the same, but its allocation and its Close may
// wait for the GPU. With [GPU.DefaultMemPool] it is an error then. Errors are as for Alloc.
//
// In a capture the allocation becomes part of the graph, and each launch makes it anew at the same
// address. A buffer that is closed in the capture is scratch memory of the graph: it is freed there,
// behind all that the capture has recorded until then. Any other buffer has its memory from the
// first launch on; before that, its use outside of captures is an error (cu.ErrorInvalidValue). The
// next launch gives it new contents, so finish or order what reads the last ones before. The graph
// keeps such a buffer as it keeps all that it uses: Close gives the memory back when the graph is
// closed, too. A graph that allocates cannot be updated. Without pools the error wraps
// cu.ErrorStreamCaptureUnsupported: allocate before the capture, and the graph keeps the buffer.
func AllocAsync[T any](s *Stream, n int, p *MemPool) (*Device[T], error) {
	const what = "allocate in stream order"
	if p != nil {
		if err := p.enter(what); err != nil {
			return nil, err
		}
		defer p.leave()
	}
	var op inflight.Op
	st, err := s.begin(&op, what, false)
	if err != nil {
		return nil, err
	}
	defer op.End()
	if st.capture != nil && !st.g.caps.Pools {
		return nil, fmt.Errorf("allocate on %v: %w", st, refusal.New(cu.ErrorStreamCaptureUnsupported, "it captures, and the device has no memory pools: allocate before, the graph keeps the buffer"))
	}
	if p == nil && !st.g.caps.Pools {
		return Alloc[T](st.g, n)
	}
	if p != nil && !p.g.sameContext(st.g) {
		return nil, refusal.Invalid("allocate on %v from %v: they must belong to one GPU", st, p)
	}
	a, err := newAllocation[T](st.g, deviceMemory, n)
	if err != nil {
		return nil, err
	}
	switch {
	case a.bytes == 0:
	case st.capture != nil:
		if err := st.capture.allocate(a, st, &op, p); err != nil {
			return nil, a.fail("allocate", err, a.memoryHint(a.bytes, err))
		}
	default:
		if a.dev, err = allocOn(st, a.bytes, p); err != nil {
			return nil, a.fail("allocate", err, a.memoryHint(a.bytes, err))
		}
		a.SetBirth(&st.Stream, st.Next(), birthEvent(st))
		op.Acquire(&a.Tracker, inflight.Write, 0)
		op.Queued()
	}
	a.start()
	return &Device[T]{span: a.whole()}, nil
}

// allocOn queues an allocation, and the clearing of its memory if the pool has Zero.
func allocOn(st *streamState, bytes uintptr, p *MemPool) (cu.DevicePtr, error) {
	if p == nil {
		return st.g.driver.MemAllocAsync(st.g.ctx, bytes, st.handle)
	}
	dev, err := st.g.driver.MemAllocFromPoolAsync(st.g.ctx, bytes, p.driverPool(), st.handle)
	if err != nil || !p.zero {
		return dev, err
	}
	if err := st.g.driver.MemsetD8Async(st.g.ctx, dev, 0, bytes, st.handle); err != nil {
		return 0, refusal.Join(fmt.Errorf("clear it: %w", err), st.g.driver.MemFreeAsync(st.g.ctx, dev, st.handle))
	}
	return dev, nil
}
