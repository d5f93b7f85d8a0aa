package ferry

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/pin"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// PinnedPool keeps page-locked memory of one GPU for buffers that are used for a short
// time. [Host.Alloc] takes a buffer from it without a driver call, in some 50 ns. Close of
// the buffer returns it to the pool without waiting. If the buffer is in flight then, the
// pool reuses it when the streams that used it have passed that point. The memory of a
// buffer is larger than requested by less than an eighth, or by less than 256 bytes. It
// begins at a multiple of 256 bytes. A PinnedPool is safe for concurrent use.
//
// The pool page-locks memory when no closed buffer and no free range is large enough, at
// least 32 MiB at once, but no more than a quarter of what [GPU.LimitHost] leaves, unless a
// buffer needs more. The profile can set another size. For buffers of one size of up to
// 1 MiB, it page-locks what was in use or in flight at once, at most a thirtieth more, and
// 32 MiB. The number of processors and goroutines adds nothing. With buffers of many sizes,
// used memory can lie between free ranges that are too small. At the limit
// [PinnedPoolOptions].Max, [Host.Alloc] fails, and [Host.AllocContext] waits. Requests for which
// memory is being page-locked are served in the order of arrival.
type PinnedPool struct {
	g      *GPU
	host   HostOptions // for its memory
	zero   bool
	pool   *pin.Pool
	closed atomic.Bool
	retry  closing.Retry // the next Close disposes again: a wait or a free of an earlier one failed
	leak   runtime.Cleanup

	mu     sync.Mutex
	events []cu.Event // not in use
}

// PinnedPoolOptions are the options of [NewPinnedPool].
type PinnedPoolOptions struct {
	// Max is the most bytes that the pool page-locks, in whole pages of 4 KiB: what is left over is
	// not used. 0 means no limit. [GPU.LimitHost] limits all
	// page-locked memory together.
	Max int
	// Mapped, NotPortable and NUMANode apply to all memory of the pool: see
	// [HostOptions].
	Mapped, NotPortable bool
	NUMANode            *int
	// Zero clears the memory of each buffer before a request gets it, so that no request
	// sees what another one has left. That takes the time of writing the memory once.
	// Without Zero a buffer has any contents.
	Zero bool
}

// PinnedPoolStats are statistics of a pool. Amounts of memory are in bytes.
type PinnedPoolStats struct {
	Used               int           // memory of open buffers, which may be larger than requested
	InFlight           int           // in closed buffers; the pool asks whether they are done when it needs memory
	Pinned, MostPinned int           // page-locked: now, and the most so far
	Hits               int           // allocations that got the memory of a closed buffer of their size
	DriverCalls        int           // calls that page-locked or freed memory
	DriverTime         time.Duration // spent in these calls
	// PinnedBy divides Pinned among the lines of the program, such as "main.go:62", whose
	// requests made the pool page-lock memory.
	PinnedBy map[string]int
}

// NewPinnedPool makes a pool of page-locked memory. The pool page-locks no memory before
// the first request, or [PinnedPool.Warm]. If Mapped is set and the device cannot map
// memory, the error wraps cu.ErrorNotSupported. o may be nil.
func NewPinnedPool(g *GPU, o *PinnedPoolOptions) (*PinnedPool, error) {
	const what = "make a pool of page-locked memory"
	if err := g.enter(what); err != nil {
		return nil, err
	}
	if o == nil {
		o = &PinnedPoolOptions{}
	}
	var err error
	switch {
	case o.Max < 0:
		err = refusal.Invalid("%s on %s: at most %d bytes: it cannot be negative", what, g.label, o.Max)
	case o.Mapped && !g.caps.Mapping:
		err = g.lacking("map page-locked memory", cu.DeviceAttributeCanMapHostMemory, "make the pool without Mapped and copy")
	}
	if err != nil {
		g.leave()
		return nil, err
	}
	p := &PinnedPool{g: g, host: HostOptions{Mapped: o.Mapped, NotPortable: o.NotPortable, NUMANode: o.NUMANode}, zero: o.Zero}
	p.pool = pin.NewPool(pin.Source{Take: p.pageLock, Site: callSite, Now: g.Now, Max: uintptr(o.Max), Left: g.account.Room, Room: g.account.Less, Stayed: p.retry.Failed}, g.tuning.Pin)
	p.leak = leak.Watch(p, p.String)
	return p, nil
}

// GPU returns the GPU of the pool.
func (p *PinnedPool) GPU() *GPU {
	if p == nil {
		return nil
	}
	return p.g
}

// String returns a description of the pool: "a pool of page-locked memory of cuda:0".
func (p *PinnedPool) String() string {
	if p == nil || p.g == nil {
		return "no pool"
	}
	return "a pool of page-locked memory of " + p.g.label
}

// Alloc makes h a buffer of n elements from a pool, for the GPU of the pool. The options of
// the pool apply. It allocates no Go memory:
//
//	var h ferry.Host[float32]
//	err := h.Alloc(pool, n)
//
// h must be new or closed, and no other goroutine may use it during the call. The memory
// is not cleared, unless the pool does that: [PinnedPoolOptions].Zero. Ranges of an earlier
// buffer in h stay closed. Errors are as for [AllocHost]. If the pool has reached its limit,
// the error wraps cu.ErrorOutOfMemory.
func (h *Host[T]) Alloc(p *PinnedPool, n int) error {
	return h.alloc(context.Background(), p, n, false)
}

// AllocContext is [Host.Alloc] that waits while the pool is at its limit or the GPU is at that of
// [GPU.LimitHost], until memory comes back or ctx ends. Then the error wraps ctx.Err() and
// cu.ErrorOutOfMemory. A nil ctx never ends.
//
// Calls of AllocContext get memory in the order in which they came. Calls of Alloc do not queue, and may
// take memory before them. Closed buffers that are in flight are waited for. A request that is larger
// than the limit of the pool fails at once. One that is larger than that of the GPU, or for which the
// machine lacks memory, fails when its turn comes. If the pool is closed meanwhile, the error wraps [ErrClosed]. In a host function, where a wait could be for that
// function, the error wraps cu.ErrorNotPermitted.
//
// A goroutine that has buffers of the pool and waits for another one can wait for ever, if others do so,
// too. Take all that a request needs at once, or let ctx end.
func (h *Host[T]) AllocContext(ctx context.Context, p *PinnedPool, n int) error {
	return h.alloc(await.Context(ctx), p, n, true)
}

// alloc implements Alloc and AllocContext. wait says whether it waits at a limit.
func (h *Host[T]) alloc(ctx context.Context, p *PinnedPool, n int, wait bool) error {
	switch {
	case h == nil || p == nil || p.g == nil:
		return refusal.Invalid("allocate page-locked memory from %v: no buffer or no pool given (nil)", p)
	case forked.Child():
		return forked.New("allocate page-locked memory")
	case h.span.a != nil && h.span.a.OpenIn(h.span.generation):
		return refusal.Invalid("allocate from %v: %v is open: close it first", p, h)
	}
	bytes, err := h.bytes(n)
	if err != nil {
		return fmt.Errorf("allocate from %v: %w", p, err)
	}
	if bytes == 0 {
		if err := p.check("allocate", n); err != nil {
			return err
		}
		a, err := newAllocation[T](p.g, hostMemory, n)
		if err == nil {
			a.start()
			h.span = a.whole()
		}
		return err
	}
	b, err := p.take(ctx, bytes, p.blockOf(&h.span), wait)
	if err == nil {
		err = p.open(&h.span, b, n, bytes)
	}
	if err != nil {
		return p.explain(fmt.Sprintf("allocate %s from %v", refusal.Size(bytes), p), err)
	}
	return nil
}

// bytes returns the size of n elements. If h had a buffer before, its element type is
// valid and needs no check.
func (h *Host[T]) bytes(n int) (uintptr, error) {
	if size := address.SizeOf[T](); h.span.a != nil && size > 0 && n >= 0 && uintptr(n) <= math.MaxInt/size {
		return uintptr(n) * size, nil
	}
	e, err := kernelargs.ElementOf[T]()
	if err != nil {
		return 0, err
	}
	return e.Bytes(n)
}

// pooledBuffer is the allocation of a block of a pool. It is opened and closed many times,
// each time in a new generation.
type pooledBuffer struct {
	allocation
	pool  *PinnedPool
	block *pin.Block
	marks []mark

	// The method values drainBack and giveBack, so that Close allocates nothing.
	drainTask, giveBackTask func() error
}

// mark represents the operations of one stream that were in flight on a buffer when it was
// closed.
type mark struct {
	st    *streamState
	last  uint64   // number of the last of these operations
	seen  uint64   // operations of the stream that are done when the event has completed
	event cu.Event // 0 if none could be recorded: then the stream is queried
}

// take takes a block out of the pool. wait says whether it waits at a limit.
func (p *PinnedPool) take(ctx context.Context, bytes uintptr, before *pin.Block, wait bool) (*pin.Block, error) {
	if wait {
		return p.pool.GetWait(ctx, bytes, before, p.g.mayWait)
	}
	return p.pool.Get(ctx, bytes, before)
}

// blockOf returns the block of the pool that a handle had last, or nil. Another handle may
// have the block now.
func (p *PinnedPool) blockOf(r *span) *pin.Block {
	if r.a != nil {
		if b, ok := r.a.pooled.(*pooledBuffer); ok && b.pool == p {
			return b.block
		}
	}
	return nil
}

// open opens the buffer of a block and stores its span in r.
func (p *PinnedPool) open(r *span, b *pin.Block, n int, bytes uintptr) error {
	buffer, known := b.Owner.(*pooledBuffer)
	if !known {
		var err error
		if buffer, err = p.attach(b); err != nil {
			return refusal.Join(err, p.put(b))
		}
	}
	if p.zero {
		clear(address.Bytes(buffer.host, bytes))
	}
	buffer.Forget() // otherwise Close would wait for operations of streams of earlier users
	generation := buffer.Reopen()
	if leak.Watching() {
		buffer.leak = leak.Watch(buffer, buffer.String)
	}
	*r = buffer.whole()
	r.generation, r.n, r.bytes = generation, n, bytes
	return nil
}

// attach makes the allocation of a new block.
func (p *PinnedPool) attach(b *pin.Block) (*pooledBuffer, error) {
	g := p.g
	buffer := &pooledBuffer{pool: p, block: b}
	a := &buffer.allocation
	a.g, a.kind, a.number, a.name = g, hostMemory, g.bufferCount.Add(1), "byte"
	a.count, a.bytes, a.host, a.boundaries = int(b.Bytes), b.Bytes, b.Start, b.Boundaries()
	a.oneGPU, a.pooled = p.host.NotPortable, buffer
	a.close, buffer.drainTask, buffer.giveBackTask = buffer.closeNow, buffer.drainBack, buffer.giveBack
	a.Init()
	a.Close() // until open opens it
	var err error
	if a.dev, err = mappedAddress(g, a.host, p.host.Mapped); err != nil {
		return nil, err
	}
	b.Owner = buffer
	a.list()
	return buffer, nil
}

// closeNow closes a buffer. It does nothing if the generation of the handle is over.
func (b *pooledBuffer) closeNow(generation uint32) error {
	if !b.CloseIn(generation) {
		if b.Lent() && b.Generation() == generation {
			return b.errLent(inflight.ErrLent)
		}
		return nil
	}
	b.leak.Stop()
	return closing.AfterHostFunction(b.drainTask)
}

// drainBack waits for the calls that use the closed buffer. It gives the block back once
// no graph owns the buffer.
func (b *pooledBuffer) drainBack() error {
	if err := b.TryDrain(b.g.mayWait); err != nil {
		return err
	}
	return b.errLent(b.AfterOwners(b.giveBackTask))
}

// giveBack gives the block to the pool. The pool can reuse it at once, or when it is no
// longer in flight. A closed pool does not check that later, so giveBack then waits.
func (b *pooledBuffer) giveBack() error {
	p := b.pool
	for s, last := range b.Pending(inflight.Write) {
		b.marks = append(b.marks, mark{st: stateOfStream(s), last: last})
	}
	if len(b.marks) == 0 {
		return p.put(b.block)
	}
	for i := range b.marks {
		b.marks[i].event = p.record(&b.marks[i])
	}
	p.pool.PutInFlight(b.block)
	if p.closed.Load() {
		return closing.AfterHostFunction(p.drain)
	}
	return nil
}

// put gives a block back. In a host function it defers the driver calls for that.
func (p *PinnedPool) put(b *pin.Block) error {
	err := p.pool.Put(b)
	if closing.InHostFunction(err) {
		return closing.AfterHostFunction(p.pool.Release)
	}
	return err
}

// Idle reports whether the hardware is done with a closed buffer. It implements pin.Owner.
func (b *pooledBuffer) Idle() bool {
	for len(b.marks) > 0 {
		m := &b.marks[len(b.marks)-1]
		if !m.st.Completed(m.last) && !b.pool.passed(m) {
			return false
		}
		b.unmark()
	}
	return true
}

// Waiter implements pin.Owner.
func (b *pooledBuffer) Waiter() func(ctx context.Context) error {
	var streams []*streamState
	for i := range b.marks {
		streams = append(streams, b.marks[i].st)
	}
	return func(ctx context.Context) error {
		for _, st := range streams {
			if err := st.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// unmark removes the last mark.
func (b *pooledBuffer) unmark() {
	m := &b.marks[len(b.marks)-1]
	if m.event != 0 {
		b.pool.keepEvent(m.event)
	}
	*m = mark{}
	b.marks = b.marks[:len(b.marks)-1]
}

// Retire removes the buffer from the host map, because the pool ends its block. It
// implements pin.Owner.
func (b *pooledBuffer) Retire() { b.unlist() }

// record records an event for a mark. It returns 0 if the stream is closed or belongs to
// another GPU.
func (p *PinnedPool) record(m *mark) cu.Event {
	st := m.st
	if !st.g.sameContext(p.g) || st.g.released.Load() || !st.Enter() {
		return 0
	}
	defer st.Leave()
	e, err := p.takeEvent()
	if err != nil {
		return 0
	}
	m.seen = st.Issued()
	if err := st.g.driver.EventRecord(st.g.ctx, e, st.handle); err != nil {
		p.keepEvent(e)
		return 0
	}
	return e
}

// passed asks the driver whether the operations of a mark are done. It does not wait. If
// the context is lost, no operation runs any more.
func (p *PinnedPool) passed(m *mark) bool {
	if m.event == 0 {
		return m.st.query()
	}
	err := p.g.driver.EventQuery(p.g.ctx, m.event)
	if err == nil {
		m.st.Complete(m.seen)
	}
	return err == nil || refusal.Sticky(err)
}

// takeEvent returns an event that is not in use.
func (p *PinnedPool) takeEvent() (cu.Event, error) {
	p.mu.Lock()
	if n := len(p.events); n > 0 {
		e := p.events[n-1]
		p.events = p.events[:n-1]
		p.mu.Unlock()
		return e, nil
	}
	p.mu.Unlock()
	return p.g.driver.EventCreate(p.g.ctx, cu.EventDisableTiming)
}

func (p *PinnedPool) keepEvent(e cu.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// destroyEvents destroys the events that are not in use. In a host function, where that is
// not allowed, they remain until the context is released.
func (p *PinnedPool) destroyEvents() error {
	p.mu.Lock()
	all := p.events
	p.events = nil
	p.mu.Unlock()
	var failed error
	for _, e := range all {
		failed = refusal.Join(failed, p.g.driver.EventDestroy(p.g.ctx, e))
	}
	return failed
}

// drain waits for the buffers that were in flight when they were closed. After an error, the
// next Close of the pool continues. Events of a closed pool are destroyed before their block is
// given back, because the context may end with the last block.
func (p *PinnedPool) drain() error {
	err := p.pool.Drain(func(o pin.Owner) error {
		b := o.(*pooledBuffer)
		if err := b.Wait(context.Background(), inflight.Write); err != nil && !refusal.Sticky(err) {
			return err
		}
		for len(b.marks) > 0 {
			b.unmark()
		}
		if p.closed.Load() {
			return p.destroyEvents()
		}
		return nil
	})
	if err != nil && !closing.InHostFunction(err) {
		p.retry.Failed()
	}
	return err
}

// pageLock page-locks memory for the pool. Each segment is a user of the GPU.
func (p *PinnedPool) pageLock(ctx context.Context, bytes uintptr) (pin.Segment, error) {
	if err := p.g.enter("page-lock memory"); err != nil {
		return nil, err
	}
	m, err := pageLock(ctx, p.g, account.Pooled, bytes, &p.host)
	if err != nil {
		p.g.leave()
		return nil, err
	}
	return &pinnedSegment{p.g, m}, nil
}

// pinnedSegment is memory that was page-locked for a pool. It implements pin.Segment.
type pinnedSegment struct {
	g *GPU
	pinned
}

func (c *pinnedSegment) Start() cu.HostPtr     { return c.host }
func (c *pinnedSegment) Bytes() uintptr        { return c.pinned.bytes }
func (c *pinnedSegment) Boundaries() []uintptr { return c.boundaries() }

func (c *pinnedSegment) Close() error {
	err := c.free(c.g)
	switch {
	case closing.InHostFunction(err):
		return err
	case err != nil && !refusal.Sticky(err) && c.isWhole():
		return &pin.Stays{Err: err}
	}
	c.g.leave()
	return err
}

// isWhole reports whether the driver knows all parts of the memory.
func (c *pinnedSegment) isWhole() bool {
	start := address.Device(c.host)
	unknown := func(off uintptr) bool { return !c.g.driverKnows(start + cu.DevicePtr(off)) }
	return !unknown(0) && !slices.ContainsFunc(c.Boundaries(), unknown)
}

// callSite returns the line of the program that called this package.
func callSite() string {
	stack := make([]uintptr, 32)
	for f := range callsite.Foreign(stack[:runtime.Callers(2, stack)]) {
		return callsite.Line(f.File, f.Line)
	}
	return ""
}

// explain returns an error of the pool with what was tried.
func (p *PinnedPool) explain(what string, err error) error {
	if p.closed.Load() {
		return fmt.Errorf("%s: %w", what, ErrClosed)
	}
	return fmt.Errorf("%s: %w", what, explainPin(err))
}

// Warm page-locks a number of bytes now, more than the pool has, so that later buffers need no
// driver call. Call it before the first request: beyond Max it is an error. When
// ctx ends first, the error wraps ctx.Err(). A nil ctx never ends.
func (p *PinnedPool) Warm(ctx context.Context, bytes int) error {
	if err := p.check("warm a pool", bytes); err != nil {
		return err
	}
	if err := p.pool.Warm(await.Context(ctx), uintptr(bytes)); err != nil {
		return p.explain(fmt.Sprintf("warm %v with %s", p, refusal.Size(uintptr(bytes))), err)
	}
	return nil
}

// Trim frees memory that no buffer uses, until no more than keep bytes are page-locked.
// Memory that is in flight, and memory that was page-locked together with an open buffer,
// stays.
func (p *PinnedPool) Trim(keep int) error {
	if err := p.check("trim a pool", keep); err != nil {
		return err
	}
	if err := p.pool.Trim(uintptr(keep)); err != nil {
		return p.explain(fmt.Sprintf("trim %v to %s", p, refusal.Size(uintptr(keep))), err)
	}
	return nil
}

// check returns an error for a nil or closed pool, and for a negative number of bytes.
func (p *PinnedPool) check(what string, bytes int) error {
	switch {
	case p == nil || p.g == nil:
		return refusal.Invalid("%s: no pool given (nil)", what)
	case bytes < 0:
		return refusal.Invalid("%s to %d bytes: it cannot be negative", what, bytes)
	case forked.Child():
		return forked.New(what)
	case p.closed.Load():
		return fmt.Errorf("%s: %v: %w", what, p, ErrClosed)
	}
	return nil
}

// Stats returns the statistics of the pool, also of a closed pool, whose open buffers still
// use memory. The error is that of a nil pool.
func (p *PinnedPool) Stats() (PinnedPoolStats, error) {
	if p == nil || p.g == nil {
		return PinnedPoolStats{}, refusal.Invalid("read statistics: no pool given (nil)")
	}
	s := p.pool.Stats()
	out := PinnedPoolStats{Used: int(s.Used), InFlight: int(s.InFlight), Pinned: int(s.Pinned), MostPinned: int(s.MostPinned),
		Hits: int(s.Hits), DriverCalls: s.Calls, DriverTime: s.Driver, PinnedBy: map[string]int{}}
	for _, site := range s.Sites {
		out.PinnedBy[site.Place] = int(site.Bytes)
	}
	return out, nil
}

// Close closes the pool. It waits for the operations in flight on closed buffers, and
// frees the memory that no open buffer uses. Open buffers stay valid, and their memory is
// freed when they are closed. If a wait or a free fails, also in the Close of such a buffer,
// another Close of the pool frees what is left. Otherwise, Close of a closed or nil pool does
// nothing and returns nil.
func (p *PinnedPool) Close() error {
	if p == nil || p.g == nil {
		return nil
	}
	if p.closed.Swap(true) {
		return p.retry.Close(p.disposeAgain)
	}
	p.leak.Stop()
	return closing.AfterHostFunction(p.dispose)
}

// disposeAgain waits for the closed buffers and frees the memory that an earlier Close could not.
func (p *PinnedPool) disposeAgain() error {
	err := p.drain()
	if !closing.InHostFunction(err) {
		err = refusal.Join(err, p.pool.Release())
	}
	return err
}

// dispose waits for closed buffers, frees the memory and leaves the GPU.
func (p *PinnedPool) dispose() error {
	err := p.drain()
	if !closing.InHostFunction(err) {
		err = refusal.Join(err, p.pool.Close())
	}
	if !closing.InHostFunction(err) {
		err = refusal.Join(err, p.destroyEvents())
	}
	if closing.InHostFunction(err) {
		return cu.ErrorNotPermitted
	}
	p.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", p, err)
	}
	return nil
}
