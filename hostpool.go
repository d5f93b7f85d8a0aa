package ferry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// HostPool keeps page-locked memory of one GPU for buffers that come and go.
// [Host.Alloc] takes from it without asking the driver, in some 50 ns, and Close of
// the buffer gives back: at once, or, if it is in flight, when the streams that used
// it have passed, without waiting. A buffer is larger than asked for by less than an
// eighth, or by less than 256 bytes, and starts at a multiple of 256. It is safe for
// concurrent use.
type HostPool struct {
	g      *GPU
	host   HostOptions // of its memory
	pool   *pin.Pool
	closed atomic.Bool
	leak   runtime.Cleanup

	mu     sync.Mutex
	events []cu.Event // of the GPU, not in use
}

// HostPoolOptions say how a pool of page-locked memory is made.
type HostPoolOptions struct {
	// Max is the most bytes that the pool page-locks; 0 is no limit.
	Max int
	// Mapped, NotPortable and NUMANode are those of [HostOptions], for all of it.
	Mapped, NotPortable bool
	NUMANode            *int
}

// HostPoolStats is what a pool of page-locked memory has, in bytes, and has done.
type HostPoolStats struct {
	Used               int           // by open buffers, with what they are larger than asked for
	InFlight           int           // of closed buffers that the pool has not seen to be done
	Pinned, MostPinned int           // had from the driver
	Hits               int           // buffers that were there at once
	DriverCalls        int           // to get and to give back memory
	DriverTime         time.Duration // in them
	// PinnedBy is the bytes of Pinned by the place in the program, a function and a
	// line, whose request the pool could not serve without the driver.
	PinnedBy map[string]int
}

// NewHostPool makes a pool. It has no memory until it is asked for some: see
// [HostPool.Warm]. o may be nil.
func (g *GPU) NewHostPool(o *HostPoolOptions) (*HostPool, error) {
	const what = "make a pool of page-locked memory"
	if err := g.enter(what); err != nil {
		return nil, err
	}
	if o == nil {
		o = &HostPoolOptions{}
	}
	err := error(nil)
	switch {
	case o.Max < 0:
		err = refuse("%s on %s: at most %d bytes: it cannot be negative", what, g.label, o.Max)
	case o.Mapped && !g.caps.mapping:
		err = g.lacking("map page-locked memory", cu.DeviceAttributeCanMapHostMemory, "make the pool without Mapped and copy")
	}
	if err != nil {
		g.leave()
		return nil, err
	}
	p := &HostPool{g: g, host: HostOptions{Mapped: o.Mapped, NotPortable: o.NotPortable, NUMANode: o.NUMANode}}
	p.pool = pin.NewPool(pin.Source{Take: p.take, Site: callSite, Now: g.Now, Max: uintptr(o.Max)})
	p.leak = watchLeak(p, p.String)
	return p, nil
}

// String names the pool's GPU.
func (p *HostPool) String() string {
	if p == nil {
		return "no pool"
	}
	return "a pool of page-locked memory of " + p.g.label
}

// Alloc makes h a buffer of n elements from a pool. It is [AllocHost] with
// HostOptions.Pool for a Host that the program has, so that nothing is allocated:
//
//	var h ferry.Host[float32]
//	err := h.Alloc(pool, n)
//
// h must be new or closed, and nobody else may be using it. What is in the memory
// is what somebody left there. Ranges of an earlier buffer in h stay closed. Errors
// are as for AllocHost; a pool at its limit is cu.ErrorOutOfMemory.
func (h *Host[T]) Alloc(p *HostPool, n int) error { return h.alloc(context.Background(), nil, p, n) }

// alloc is Alloc, from a pool of g, which may be nil, until ctx ends.
func (h *Host[T]) alloc(ctx context.Context, g *GPU, p *HostPool, n int) error {
	switch {
	case h == nil || p == nil:
		return refuse("allocate page-locked memory from %v: no buffer or no pool given (nil)", p)
	case g != nil && g != p.g:
		return refuse("allocate page-locked memory on %s from %v: it is another GPU's", g.label, p)
	case h.a != nil && h.a.life.openIn(h.age):
		return refuse("allocate from %v: %v is open: close it first", p, &h.region)
	}
	bytes, known := h.again(n)
	if !known {
		e, err := elementOf[T]()
		if err == nil {
			bytes, err = e.bytes(n)
		}
		if err != nil {
			return fmt.Errorf("allocate from %v: %w", p, err)
		}
	}
	if bytes == 0 {
		a, err := newAllocation[T](p.g, hostMemory, n)
		if err == nil {
			a.start()
			h.region = a.whole()
		}
		return err
	}
	b, err := p.pool.Get(ctx, bytes, h.before(p))
	if err == nil {
		err = p.lend(&h.region, b, n, bytes)
	}
	if err != nil {
		return p.explain(fmt.Sprintf("allocate %s from %v", sizeText(bytes), p), err)
	}
	return nil
}

// again is the bytes of n elements in a handle that had a buffer before: T is good
// then, and need not be looked at. It is false for what must be looked at.
func (h *Host[T]) again(n int) (bytes uintptr, known bool) {
	size := sizeOf[T]()
	if h.a == nil || size == 0 || n < 0 || uintptr(n) > math.MaxInt/size {
		return 0, false
	}
	return uintptr(n) * size, true
}

// before is the block of the pool that the handle had last; it may be another's now.
func (h *Host[T]) before(p *HostPool) *pin.Block {
	if h.a == nil || h.a.pool != p {
		return nil
	}
	return h.a.block
}

// lend makes a region of a block.
func (p *HostPool) lend(r *region, b *pin.Block, n int, bytes uintptr) error {
	a, known := b.Owner.(*allocation)
	if !known {
		var err error
		if a, err = p.attach(b); err != nil {
			return errors.Join(err, p.pool.Put(b))
		}
	}
	age := a.life.reopen()
	if leakReport.Load() != nil {
		a.leak = watchLeak(a, a.String)
	}
	*r = a.whole()
	r.age, r.n, r.bytes = age, n, bytes
	return nil
}

// attach gives a block what Ferry must know of memory.
func (p *HostPool) attach(b *pin.Block) (*allocation, error) {
	g := p.g
	a := &allocation{g: g, kind: hostMemory, number: g.buffers.Add(1), name: "byte", count: int(b.Bytes), bytes: b.Bytes,
		host: b.Start, cuts: b.Cuts(), only: p.host.NotPortable, block: b, pool: p}
	a.init()
	a.life.close() // until it is lent
	a.back = a.comeBack
	var err error
	if a.dev, err = g.mapped(a.host, p.host.Mapped, g.caps.unified); err != nil {
		return nil, err
	}
	b.Owner = a
	a.route()
	a.enlist()
	return a, nil
}

// take has memory page-locked for the pool, and holds the GPU for it.
func (p *HostPool) take(ctx context.Context, bytes uintptr) (pin.Chunk, error) {
	if err := p.g.enter("page-lock memory"); err != nil {
		return nil, err
	}
	m, err := p.g.pageLock(ctx, bytes, &p.host)
	if err != nil {
		p.g.leave()
		return nil, err
	}
	return &hostChunk{p.g, m, bytes}, nil
}

// hostChunk is memory of a pool, as the driver has it.
type hostChunk struct {
	g *GPU
	locked
	bytes uintptr
}

func (c *hostChunk) Start() cu.HostPtr { return c.host }
func (c *hostChunk) Bytes() uintptr    { return c.bytes }
func (c *hostChunk) Cuts() []uintptr   { return c.cuts() }

func (c *hostChunk) Close() error {
	err := c.free(c.g)
	if !inCallback(err) {
		c.g.leave()
	}
	return err
}

// callSite is where the program asked.
func callSite() string {
	stack := make([]uintptr, 32)
	for f := range othersFrames(stack[:runtime.Callers(2, stack)]) {
		return fmt.Sprintf("%s:%d", f.Function, f.Line)
	}
	return ""
}

// explain wraps an error of the pool.
func (p *HostPool) explain(what string, err error) error {
	if p.closed.Load() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	if found, ok := errors.AsType[*pin.Error](err); ok {
		err = publicPinError(found)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Warm page-locks so many bytes now that buffers can have without the driver
// later. When ctx ends first, the error wraps ctx.Err().
func (p *HostPool) Warm(ctx context.Context, bytes int) error {
	if err := p.check("warm a pool", bytes); err != nil {
		return err
	}
	if err := p.pool.Warm(ctx, uintptr(bytes)); err != nil {
		return p.explain(fmt.Sprintf("warm %v with %s", p, sizeText(uintptr(bytes))), err)
	}
	return nil
}

// Trim gives memory that no buffer has back to the driver, down to keep bytes that
// are page-locked. What is in flight, and what shares a piece of memory with an open
// buffer, stays.
func (p *HostPool) Trim(keep int) error {
	if err := p.check("trim a pool", keep); err != nil {
		return err
	}
	if err := p.pool.Trim(uintptr(keep)); err != nil {
		return p.explain(fmt.Sprintf("trim %v to %s", p, sizeText(uintptr(keep))), err)
	}
	return nil
}

func (p *HostPool) check(what string, bytes int) error {
	switch {
	case p == nil:
		return refuse("%s: no pool given (nil)", what)
	case bytes < 0:
		return refuse("%s to %d bytes: it cannot be negative", what, bytes)
	case p.closed.Load():
		return fmt.Errorf("%s: %v: %w", what, p, ErrClosed)
	}
	return nil
}

// Stats says what the pool has.
func (p *HostPool) Stats() HostPoolStats {
	if p == nil {
		return HostPoolStats{}
	}
	s := p.pool.Stats()
	out := HostPoolStats{Used: int(s.Used), InFlight: int(s.Late), Pinned: int(s.Pinned), MostPinned: int(s.MostPinned),
		Hits: int(s.Hits), DriverCalls: s.Calls, DriverTime: s.Driver, PinnedBy: map[string]int{}}
	for _, site := range s.Sites {
		out.PinnedBy[site.Place] = int(site.Bytes)
	}
	return out
}

// Close gives the pool up. It waits for what is in flight on closed buffers and
// gives their memory to the driver; that of open ones goes with them. Close of a
// closed or nil pool is nil.
func (p *HostPool) Close() error {
	if p == nil || p.closed.Swap(true) {
		return nil
	}
	p.leak.Stop()
	return p.g.soon(p.dispose)
}

// dispose is the driver's part of Close.
func (p *HostPool) dispose() error {
	err := p.drain()
	if !inCallback(err) {
		err = errors.Join(err, p.pool.Close())
	}
	if !inCallback(err) {
		err = errors.Join(err, p.dropEvents())
	}
	if inCallback(err) {
		return cu.ErrorNotPermitted
	}
	p.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", p, err)
	}
	return nil
}
