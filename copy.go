package ferry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/hostmap"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Copy copies all elements of src to dst in the order of the stream. Both must have the
// same length: use ranges to copy parts. A copy of zero elements does nothing and returns
// nil. Between buffers, Copy returns when the copy is queued. The copy is then in flight
// on both buffers, whose Slice, Wait and Close wait for it.
//
// The kinds of memory decide what makes the copy and for what Copy waits:
//
//	from      to Device             to Host                   to Managed           to Pageable
//	Device    cuMemcpyDtoDAsync(1)  cuMemcpyDtoHAsync         cuMemcpyAsync        ring(3), waits
//	Host      cuMemcpyHtoDAsync     cuMemcpyAsync(2), waits   cuMemcpyHtoDAsync    CPU, waits
//	Managed   cuMemcpyAsync         cuMemcpyDtoHAsync         cuMemcpyAsync        ring(3), waits
//	Pageable  ring(3), reads        CPU, waits                ring(3), reads       CPU, waits
//
// "waits" means that Copy returns when the copy is done. "reads" means that Copy returns
// when it has read the source. Both can include a wait for earlier work of the stream
// and, on hardware, for other streams. [Synchronous] reports beforehand whether Copy
// would wait, and [CopyContext] takes a context that can end the wait.
//
// (1) Between two GPUs it is cuMemcpyPeerAsync, in a capture cuMemcpyAsync. (2) Without
// unified addressing the CPU copies, when the stream has reached the copy. (3) This is a ring
// of page-locked memory: see [Pageable]. For small copies it is cuMemcpyHtoDAsync or
// cuMemcpyDtoHAsync.
//
// An error says what was copied, how much, from where and to where. It wraps [ErrClosed]
// for a closed buffer or stream. It wraps cu.ErrorInvalidValue for different lengths, and
// for memory that the GPU cannot reach. Otherwise it wraps the error of the driver.
//
// Copy is safe for concurrent use. Between buffers it allocates nothing, and with a pageable slice
// nothing once the ring has slots and goroutines for as many copies as run at once. On a [Batch], Copy
// adds the copy to the batch, which takes copies between buffers only.
func Copy[T any](q Queue, dst, src Memory[T]) error {
	if b, ok := q.(*Batch); ok {
		return b.copy(spanOf(dst), spanOf(src))
	}
	return copySpans(context.Background(), streamOf(q), spanOf(dst), spanOf(src))
}

// CopyContext is [Copy] with a context that can end its waits for pageable and host
// memory. When ctx ends first, the error wraps ctx.Err(). The part of a pageable source
// that was read is still copied. The part of a pageable destination that was written
// keeps its new values. A copy between buffers is queued, unless ctx has ended before the
// call. A nil ctx never ends.
func CopyContext[T any](ctx context.Context, s *Stream, dst, src Memory[T]) error {
	if err := await.Err(ctx); err != nil {
		return fmt.Errorf("copy to %v from %v on %v: %w", spanOf(dst), spanOf(src), s, err)
	}
	return copySpans(ctx, s, spanOf(dst), spanOf(src))
}

// Upload allocates a buffer on the GPU, copies a slice to it, and returns when the copy is
// done. The caller must close the buffer. Errors are those of [Alloc] and [Copy]. Upload
// is safe for concurrent use.
func Upload[T any](g *GPU, s []T) (*Device[T], error) {
	d, err := Alloc[T](g, len(s))
	if err != nil {
		return nil, err
	}
	if err = copyNow(g, Memory[T](d), Memory[T](Pageable(s))); err == nil {
		err = d.Wait(context.Background())
	}
	if err != nil {
		_ = g.closeOrLeave(d.Close) // the error of the copy is the cause
		return nil, err
	}
	return d, nil
}

// Download waits until the operations in flight that write the memory are done, and
// returns a copy of its elements in a new slice. Errors are those of [Copy] and
// [Host.Wait]. Download is safe for concurrent use.
func Download[T any](m Memory[T]) ([]T, error) {
	r := spanOf(m)
	if err := r.enter(); err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer r.leave()
	if r.bytes == 0 {
		return make([]T, r.n), nil
	}
	if r.host != nil {
		s, err := hostSlice[T](context.Background(), r, inflight.Read)
		return slices.Clone(s), err
	}
	if err := r.waitHost(context.Background(), inflight.Read); err != nil {
		return nil, err
	}
	s := make([]T, r.n)
	if err := copyNow(r.a.g, Memory[T](Pageable(s)), m); err != nil {
		return nil, err
	}
	return s, nil
}

// copyNow copies on a new stream, which does not wait for other streams. One of the sides
// is an open buffer of the GPU, which may be closed itself.
func copyNow[T any](g *GPU, dst, src Memory[T]) (err error) {
	g.lifetime.AddUser()
	s, err := newStream(g, &StreamOptions{NonBlocking: true})
	if err != nil {
		return err
	}
	defer func() { err = refusal.Join(err, s.Close()) }()
	return Copy(s, dst, src)
}

// Synchronous reports whether [Copy] of src to dst on the stream would wait. Copy waits
// for pageable memory, which it reads or writes before it returns. It also waits for
// copies from host memory to host memory, page-locked or not, because drivers make them
// during the call. All other copies are only queued. Synchronous itself queues nothing and
// does not wait. It returns false if the sizes differ or a range is not valid.
//
// docs/ASYNC.md has a table of all calls.
func Synchronous[T any](s *Stream, dst, src Memory[T]) bool {
	to, from := spanOf(dst), spanOf(src)
	if s == nil || s.state == nil || to.check() != nil || from.check() != nil || to.n != from.n {
		return false
	}
	for off := uintptr(0); off < to.bytes; {
		t, err := runAt(s.state.g, to, off)
		if err != nil {
			return false
		}
		f, err := runAt(s.state.g, from, off)
		if err != nil {
			return false
		}
		if planOf(&t, &f).long {
			return true
		}
		off += min(t.bytes, f.bytes)
	}
	return false
}

// copySpans copies on a stream. A pageable slice can be a part of a buffer, for example a
// result of Host.Slice. copySpans then copies a range of that buffer, because the hardware
// uses the memory after Copy has returned. A slice that crosses the end of a buffer is
// copied in parts.
func copySpans(ctx context.Context, s *Stream, dst, src *span) error {
	if done, err := copyPlain(s, dst, src); done {
		return err
	}
	ctx = await.Context(ctx) // not before copyPlain: it can allocate
	if s == nil || s.state == nil || !dst.isPageable() && !src.isPageable() || dst.check() != nil || src.check() != nil || dst.n != src.n {
		var c copying
		defer c.end()
		return c.copyOne(ctx, s, dst, src)
	}
	run := copyRunPool.Get().(*copyRun)
	err := copyRuns(s.state.g, dst, src, run, func(to, from *span) error { return run.copyOne(ctx, s, to, from) })
	run.st, run.to, run.from = nil, span{}, span{} // the memory of the operation is used again
	copyRunPool.Put(run)
	return err
}

// copying is a call of Copy, CopyRect or CopyAll while it is made. steps makes it, and end
// must follow.
type copying struct {
	op   inflight.Op
	st   *streamState
	hold pageableHold
	late bool // the driver may use pageable memory after its calls: see memcpyPageable
}

// steps are the steps that all copies take. The stream's operation begins. prepare acquires
// and checks each pair of sides, plans its copy, and adds to the hold what the plan says.
// Nothing is queued before the hold has begun. Then carryOut makes the copies as they are
// planned, and steps waits for the stream if carryOut has set late. explain adds to errors of
// the hold and of that wait what was copied.
func (c *copying) steps(s *Stream, long bool, prepare func() error, explain func(error) error, carryOut func() error) (err error) {
	c.late = false
	if c.st, err = s.begin(&c.op, "copy", long); err != nil {
		return err
	}
	if err = prepare(); err != nil {
		return err
	}
	if err = c.hold.begin(c.st); err != nil {
		return explain(err)
	}
	if err = carryOut(); err != nil || !c.late {
		return err
	}
	if err = c.st.Wait(context.Background()); err != nil {
		return explain(err)
	}
	return nil
}

// end ends the operation and the hold.
func (c *copying) end() {
	c.op.End()
	c.hold.end()
}

// acquire counts the call as a user of both sides, plans their copy, and adds it to the hold.
func (c *copying) acquire(dst, src *span) (p copyPlan, err error) {
	if err := dst.acquire(&c.op, c.st, inflight.Write); err != nil {
		return p, fmt.Errorf("copy to %w", err)
	}
	if err := src.acquire(&c.op, c.st, inflight.Read); err != nil {
		return p, fmt.Errorf("copy from %w", err)
	}
	p = planCopy(c.st, dst, src)
	c.hold.add(&p, dst, src)
	return p, nil
}

// queued records that the driver has accepted a copy of the call, or may have.
func (c *copying) queued(p *copyPlan, bytes uintptr) {
	c.op.Queued()
	recordLarge(c.st, p, bytes)
}

// copyOne copies between two spans that are each memory of one kind.
func (c *copying) copyOne(ctx context.Context, s *Stream, dst, src *span) error {
	var plan copyPlan
	prepare := func() (err error) {
		if plan, err = c.acquire(dst, src); err != nil {
			return err
		}
		if err = plan.checkWhole(c.st, dst, src); err != nil {
			return fmt.Errorf("copy on %v: %w", c.st, err)
		}
		return nil
	}
	explain := func(err error) error { return copyError(c.st, dst, src, err) }
	return c.steps(s, planOf(dst, src).long, prepare, explain, func() error {
		if err := c.move(ctx, &plan, dst, src); err != nil {
			return explain(err)
		}
		return nil
	})
}

// move makes a copy of copyOne.
func (c *copying) move(ctx context.Context, plan *copyPlan, dst, src *span) (err error) {
	switch plan.path {
	case pathCPU:
		if err = waitBoth(ctx, c.st, dst, src); err == nil {
			copy(address.Bytes(dst.host, dst.bytes), address.Bytes(src.host, src.bytes))
		}
	case pathRing:
		c.late, err = stageCopy(ctx, c.st, plan, dst, src)
		c.queued(plan, dst.bytes)
	case pathDriver:
		if plan.long {
			if err = waitToCopy(ctx, c.st); err != nil {
				return err
			}
		}
		var queued bool
		if queued, err = queueCopy(c.st, plan, dst, src); queued {
			c.queued(plan, dst.bytes)
		}
	}
	return err
}

// copyRun is a part of a copy with a pageable side. Each of its sides is memory of one kind.
type copyRun struct {
	copying
	to, from span
}

// copyRunPool has memory for runs, so that a copy of a small slice does not allocate it.
var copyRunPool = sync.Pool{New: func() any { return new(copyRun) }}

// attempt calls one for a run of dst and src. If the call failed because the memory has
// changed since the run was found, changed is true. attempt ends what one has begun after it
// has asked what the memory is now. Until then nothing that the driver has seen in the call
// can be unregistered, so the reason of a failure is still to be found.
func (run *copyRun) attempt(g *GPU, dst, src *span, one func(dst, src *span) error) (changed bool, err error) {
	defer run.end()
	err = one(&run.to, &run.from)
	return err != nil && (isStale(g, dst, &run.to, err) || isStale(g, src, &run.from, err)), err
}

// copyRuns divides a copy with a pageable side into the longest runs, and calls one for each.
// It repeats a call that failed because the memory has changed since. run is memory for
// the run.
func copyRuns(g *GPU, dst, src *span, run *copyRun, one func(dst, src *span) error) (err error) {
	for off := uintptr(0); off < dst.bytes; {
		if run.to, err = runAt(g, dst, off); err != nil {
			return fmt.Errorf("copy to %w", err)
		}
		if run.from, err = runAt(g, src, off); err != nil {
			return fmt.Errorf("copy from %w", err)
		}
		n := min(run.to.bytes, run.from.bytes)
		run.to, run.from = run.to.cut(0, n), run.from.cut(0, n)
		if n < dst.bytes {
			run.to.n, run.from.n = int(n), int(n) // in bytes, because an edge may be within an element
		}
		switch changed, err := run.attempt(g, dst, src, one); {
		case changed: // find what the memory is now
		case err != nil:
			return err
		default:
			off += n
		}
	}
	return nil
}

// isStale reports whether a copy failed because the memory has changed since runAt found
// part of the pageable span r: its buffer was closed, or a part of it was registered. The
// hold of the copy must not have ended: else the registration may be gone again.
func isStale(g *GPU, r, part *span, err error) bool {
	switch {
	case !r.isPageable():
		return false
	case part.a != nil:
		return errors.Is(err, ErrClosed) && !part.a.OpenIn(part.generation)
	case !errors.Is(err, cu.ErrorInvalidValue):
		return false
	}
	end := part.address() + uint64(part.bytes)
	run := g.hosts.First(part.address(), end)
	return run != hostmap.Run{End: end, Known: part.untracked}
}

// copyPlain copies between a page-locked buffer and a buffer on the device, if the copy is
// small. Most copies are. copyPlain makes the same checks as copyOne and records the same
// uses, with fewer instructions. On an H200 it saves 40 ns of 1260. If done is false,
// nothing was queued, and copyOne must make the copy.
func copyPlain(s *Stream, dst, src *span) (done bool, err error) {
	st := s.target()
	if st == nil || dst == nil || src == nil || !dst.plain || !src.plain || dst.n != src.n || dst.bytes == 0 {
		return false, nil
	}
	g, plan := st.g, planOf(dst, src)
	if plan.link == 0 || dst.a.readOnly.Load() || dst.a.g != g || src.a.g != g || st.capture != nil || dst.bytes >= g.largeCopy {
		return false, nil
	}
	if plan.latestLarge(g).unfinished(st) || !st.BeginShort() {
		return false, nil
	}
	defer func() { st.EndShort(done) }()
	to, from := dst.a.UseOf(&st.Stream), src.a.UseOf(&st.Stream)
	if !dst.a.OpenIn(dst.generation) || !src.a.OpenIn(src.generation) {
		return false, nil
	}
	if plan.fromHost {
		err = g.driver.MemcpyHtoDAsync(g.ctx, dst.dev, src.host, dst.bytes, st.handle)
	} else {
		err = g.driver.MemcpyDtoHAsync(g.ctx, dst.host, src.dev, dst.bytes, st.handle)
	}
	n := st.Next() // also if the call failed: it can have queued the copy
	to.Record(inflight.Write, n)
	from.Record(inflight.Read, n)
	if err != nil {
		err = copyError(st, dst, src, err)
	}
	return true, err
}

// copyError returns an error that describes the copy that failed.
func copyError(st *streamState, dst, src *span, err error) error {
	return fmt.Errorf("copy %s to %v from %v on %v: %w", refusal.Size(dst.bytes), dst, src, st, err)
}

// waitBoth waits until the stream has reached a copy by the CPU, and the host may access
// both sides. The copy follows.
func waitBoth(ctx context.Context, st *streamState, dst, src *span) error {
	if err := st.Wait(ctx); err != nil {
		return err
	}
	st.g.moveByCPU(dst.host, src.host, src.bytes)
	if err := dst.waitHost(ctx, inflight.Write); err != nil {
		return err
	}
	return src.waitHost(ctx, inflight.Read)
}

// queueCopy queues a copy by the driver, or by the kernel copy path. A call of the driver that
// fails can have queued its work, so queued is true then, too.
func queueCopy(st *streamState, plan *copyPlan, dst, src *span) (queued bool, err error) {
	if plan.kernel && behindLarge(st, plan, dst.bytes) {
		if queued, err = copyByKernel(st, dst, src); queued {
			return queued, err
		}
	}
	for to, from := range registrations(dst, src) {
		queued = true
		if err := plan.do(st, to, from); err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// refusePageable refuses pageable memory for copies on a batch.
func refusePageable(dst, src *span) error {
	if dst.isPageable() || src.isPageable() {
		return refusal.Invalid("a batch cannot keep pageable memory: use Copy or CopyAll on a Stream, or a buffer of AllocHost or Register")
	}
	return nil
}

// copy adds a copy to the batch.
func (b *Batch) copy(dst, src *span) error {
	err := dst.check()
	if err == nil {
		err = src.check()
	}
	if err == nil {
		err = refusePageable(dst, src)
	}
	if err != nil {
		return fmt.Errorf("copy in a batch: %w", err)
	}
	op, err := b.add("copy", prepareCopy)
	if err == nil {
		op.dst, op.src = *dst, *src
	}
	return err
}

func prepareCopy(b *Batch, st *streamState, op *batchOp) error {
	dst, src := &op.dst, &op.src
	if err := b.acquireSpan(st, dst, inflight.Write); err != nil {
		return err
	}
	if err := b.acquireSpan(st, src, inflight.Read); err != nil {
		return err
	}
	plan := planCopy(st, dst, src)
	if err := plan.checkWhole(st, dst, src); err != nil {
		return err
	}
	some, err := plan.mustQueue()
	if some {
		for to, from := range registrations(dst, src) {
			b.calls.Append(plan.call(st, to, from))
		}
	}
	return err
}
