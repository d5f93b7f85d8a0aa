package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
// Copy is safe for concurrent use. Between buffers it allocates nothing. On a [Batch], Copy
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
	ctx = await.Context(ctx)
	if err := ctx.Err(); err != nil {
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
		_ = d.Close() // the error of the copy is the cause
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
		if t.kind() == pageableMemory || f.kind() == pageableMemory || t.kind().onHost() && f.kind().onHost() {
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
	if done, err := copyDirect(s, dst, src); done {
		return err
	}
	if s == nil || s.state == nil || !dst.isPageable() && !src.isPageable() || dst.check() != nil || src.check() != nil || dst.n != src.n {
		var hold pageableHold
		defer hold.end()
		return copyOne(ctx, s, dst, src, &hold)
	}
	run := copyRunPool.Get().(*copyRun)
	err := copyRuns(s.state.g, dst, src, run, func(to, from *span) error { return copyOne(ctx, s, to, from, &run.hold) })
	*run = copyRun{}
	copyRunPool.Put(run)
	return err
}

// copyRun is a part of a copy with a pageable side. Each of its sides is memory of one kind.
type copyRun struct {
	to, from span
	hold     pageableHold
}

// copyRunPool has memory for runs, so that a copy of a small slice does not allocate it.
var copyRunPool = sync.Pool{New: func() any { return new(copyRun) }}

// attempt calls one for a run of dst and src. If the call failed because the memory has
// changed since the run was found, changed is true. one may begin the run's hold: attempt
// ends it, after it has asked what the memory is now. Until then nothing that the driver
// has seen in the call can be unregistered, so the reason of a failure is still to be found.
func (run *copyRun) attempt(g *GPU, dst, src *span, one func(dst, src *span) error) (changed bool, err error) {
	defer run.hold.end()
	err = one(&run.to, &run.from)
	return err != nil && (dst.isStale(g, &run.to, err) || src.isStale(g, &run.from, err)), err
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
func (r *span) isStale(g *GPU, part *span, err error) bool {
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

// copyDirect copies between a page-locked buffer and a buffer on the device, if the copy is
// small. Most copies are. copyDirect makes the same checks as copyOne and records the same
// uses, with fewer instructions. On an H200 it saves 40 ns of 1260. If done is false,
// nothing was queued, and copyOne must make the copy.
func copyDirect(s *Stream, dst, src *span) (done bool, err error) {
	st := s.target()
	if st == nil || dst == nil || src == nil || dst.dstOf&src.srcOf == 0 || dst.n != src.n || dst.bytes == 0 {
		return false, nil
	}
	g := st.g
	if dst.a.g != g || src.a.g != g || st.capture != nil || dst.bytes >= g.largeCopy {
		return false, nil
	}
	dir := dst.dstOf & src.srcOf
	if m := &g.largest[dir-1]; m.unfinished(st) || !st.BeginShort() {
		return false, nil
	}
	defer func() { st.EndShort(done && err == nil) }()
	to, from := dst.a.UseOf(&st.Stream), src.a.UseOf(&st.Stream)
	if !dst.a.OpenIn(dst.generation) || !src.a.OpenIn(src.generation) {
		return false, nil
	}
	if dir == hostToDevice {
		err = g.driver.MemcpyHtoDAsync(g.ctx, dst.dev, src.host, dst.bytes, st.handle)
	} else {
		err = g.driver.MemcpyDtoHAsync(g.ctx, dst.host, src.dev, dst.bytes, st.handle)
	}
	if err != nil {
		return true, copyError(st, dst, src, err)
	}
	n := st.Next()
	to.Record(inflight.Write, n)
	from.Record(inflight.Read, n)
	return true, nil
}

// copyError returns an error that describes the copy that failed.
func copyError(st *streamState, dst, src *span, err error) error {
	return fmt.Errorf("copy %s to %v from %v on %v: %w", refusal.Size(dst.bytes), dst, src, st, err)
}

// copyOne copies between two spans that are each memory of one kind. If one of them is
// pageable, it begins a hold, which the caller must end.
func copyOne(ctx context.Context, s *Stream, dst, src *span, hold *pageableHold) error {
	var op inflight.Op
	st, err := s.begin(&op, "copy", takesLong(dst, src))
	if err != nil {
		return err
	}
	defer op.End()
	if err := acquireBoth(&op, st, dst, src); err != nil {
		return err
	}
	path, err := planCopy(st, dst, src)
	if err != nil {
		return fmt.Errorf("copy on %v: %w", st, err)
	}
	if path == copyByDriver || path == copyStaged {
		if err := hold.begin(st, dst, src); err != nil {
			return copyError(st, dst, src, err)
		}
	}
	queued, late := false, false
	switch path {
	case copyNothing:
		return nil
	case copyByCPU:
		if err = waitBoth(ctx, st, dst, src); err == nil {
			copy(address.Bytes(dst.host, dst.bytes), address.Bytes(src.host, src.bytes))
		}
	case copyStaged:
		queued = true
		late, err = copyPageable(ctx, st, dst, src)
	default:
		if takesLong(dst, src) {
			err = waitToCopy(ctx, st)
		}
		if err == nil {
			queued, err = queueCopy(st, dst, src)
		}
	}
	if queued {
		op.Queued()
		recordLarge(st, dst, src)
	}
	if err == nil && late {
		err = st.Wait(context.Background())
	}
	if err != nil {
		return copyError(st, dst, src, err)
	}
	return nil
}

// takesLong reports whether a copy waits for the CPU or for the stream, so that it must be
// a long operation.
func takesLong(dst, src *span) bool {
	return dst != nil && src != nil && (dst.a == nil || src.a == nil || dst.a.kind.onHost() && src.a.kind.onHost())
}

// waitToCopy waits for the stream before a copy that waits in the driver. It does so only
// if ctx can end the wait, because a wait in the driver cannot be ended.
func waitToCopy(ctx context.Context, st *streamState) error {
	if ctx.Done() == nil || st.capture != nil {
		return nil
	}
	return st.Wait(ctx)
}

// acquireBoth counts a copy as a user of its destination and its source.
func acquireBoth(op *inflight.Op, st *streamState, dst, src *span) error {
	if err := dst.acquire(op, st, inflight.Write); err != nil {
		return fmt.Errorf("copy to %w", err)
	}
	if err := src.acquire(op, st, inflight.Read); err != nil {
		return fmt.Errorf("copy from %w", err)
	}
	return nil
}

// copyPath is a way to make a copy.
type copyPath uint8

const (
	copyByDriver copyPath = iota // one driver call for each registration
	copyNothing                  // no bytes, or the same bytes on both sides
	copyByCPU                    // Go copies, when both sides are ready
	copyStaged                   // through the staging ring
)

// planCopy checks a copy between acquired spans, and chooses its path. Copy, CopyAll and
// batches share it.
func planCopy(st *streamState, dst, src *span) (copyPath, error) {
	if err := checkCopy(st, dst, src); err != nil {
		return 0, err
	}
	if overlap(dst, src) {
		return 0, refusal.Invalid("the source and the destination overlap within %v: copy through another buffer", dst.a)
	}
	if dst.bytes == 0 || addressesComparable(dst, src) && dst.address() == src.address() {
		return copyNothing, nil
	}
	return pathOf(st, dst, src), nil
}

// planQueued is planCopy for copies that are queued together. It returns an error if the
// CPU must make the copy.
func planQueued(st *streamState, dst, src *span) (copyPath, error) {
	path, err := planCopy(st, dst, src)
	if err == nil && path == copyByCPU {
		err = errCopiedByCPU
	}
	return path, err
}

// errCopiedByCPU is the error for a copy that cannot be queued, because the CPU makes it.
var errCopiedByCPU = refusal.Invalid("without unified addressing the CPU makes a copy from host to host memory: use Copy, or copy through a Device buffer")

// refusePageable refuses pageable memory for copies on a batch.
func refusePageable(dst, src *span) error {
	if dst.isPageable() || src.isPageable() {
		return refusal.Invalid("a batch cannot keep pageable memory: use Copy or CopyAll on a Stream, or a buffer of AllocHost or Register")
	}
	return nil
}

// pathOf returns the path of a copy between two kinds of memory. The CPU copies from host
// memory to host memory if one side is pageable, or if there is no unified addressing.
func pathOf(st *streamState, dst, src *span) copyPath {
	to, from := dst.kind(), src.kind()
	pageable := to == pageableMemory || from == pageableMemory
	switch {
	case to.onHost() && from.onHost() && (pageable || !st.g.caps.Unified):
		return copyByCPU
	case pageable:
		return copyStaged
	}
	return copyByDriver
}

// checkCopy returns an error for a copy that the driver would refuse or would not make
// correctly.
func checkCopy(st *streamState, dst, src *span) error {
	switch {
	case dst.n != src.n:
		return refusal.Invalid("the destination, %v, has %d elements, and the source, %v, has %d: copy ranges of one length", dst, dst.n, src, src.n)
	case dst.a != nil && dst.a.readOnly:
		return refusal.Invalid("%v is registered read-only", dst)
	case st.capture == nil || dst.bytes == 0:
	case dst.a == nil || src.a == nil:
		return refusal.Invalid("a graph would copy from %v to %v at every launch, but cannot keep pageable memory: capture with a buffer of AllocHost or Register", src, dst)
	case pathOf(st, dst, src) == copyByCPU:
		return refusal.Invalid("on this device the CPU copies from %v to %v, which a graph cannot do: capture copies through a Device buffer", src, dst)
	}
	if dst.a != nil && dst.a.g != st.g {
		if err := dst.reaches(st, src); err != nil {
			return err
		}
	}
	if src.a != nil && src.a.g != st.g {
		return src.reaches(st, dst)
	}
	return nil
}

// addressesComparable reports whether the addresses of two spans can be compared. They can in one
// allocation, and between registered buffers, which may share memory.
func addressesComparable(x, y *span) bool {
	return x.a != nil && (x.a == y.a || x.kind() == registeredMemory && y.kind() == registeredMemory)
}

// overlap reports whether two spans that begin at different addresses share bytes.
func overlap(x, y *span) bool {
	if !addressesComparable(x, y) {
		return false
	}
	a, b := x.address(), y.address()
	return a != b && a < b+uint64(y.bytes) && b < a+uint64(x.bytes)
}

// waitBoth waits until the stream has reached a copy by the CPU, and the host may access
// both sides. The copy follows.
func waitBoth(ctx context.Context, st *streamState, dst, src *span) error {
	if err := st.Wait(ctx); err != nil {
		return err
	}
	if err := dst.waitHost(ctx, inflight.Write); err != nil {
		return err
	}
	st.g.moveByCPU(src.host, src.bytes)
	return src.waitHost(ctx, inflight.Read)
}

// queueCopy queues a copy by the driver, or by the kernel copy path.
func queueCopy(st *streamState, dst, src *span) (queued bool, err error) {
	if behindLarge(st, dst, src) {
		if queued, err = copyByKernel(st, dst, src); queued || err != nil {
			return queued, err
		}
	}
	if !dst.crossesBoundary() && !src.crossesBoundary() {
		err = memcpyAsync(st, dst, src)
		return err == nil, err
	}
	for to, from := range registrations(dst, src) {
		if err := memcpyAsync(st, to, from); err != nil {
			return queued, err
		}
		queued = true
	}
	return queued, nil
}

// memcpyAsync makes one copy with the driver call for its kinds of memory. Between host
// and device memory it calls the driver directly, because a cu.Call takes 20 ns more.
func memcpyAsync(st *streamState, dst, src *span) (err error) {
	switch to, from := dst.kind(), src.kind(); {
	case from.onHost() && !to.onHost():
		err = st.g.driver.MemcpyHtoDAsync(st.g.ctx, dst.dev, src.host, dst.bytes, st.handle)
	case to.onHost() && !from.onHost():
		err = st.g.driver.MemcpyDtoHAsync(st.g.ctx, dst.host, src.dev, dst.bytes, st.handle)
	default:
		c := copyCall(st, dst, src)
		err = c.Do(st.g.driver, st.g.ctx)
	}
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

// copyCall returns the driver call of one copy, for its kinds of memory.
func copyCall(st *streamState, dst, src *span) cu.Call {
	c := cu.Call{Dst: dst.dev, Src: src.dev, Bytes: dst.bytes, Stream: st.handle}
	to, from := dst.kind(), src.kind()
	switch {
	case to.onHost() && from.onHost():
		c.Op, c.Dst, c.Src = cu.OpMemcpyAsync, address.Device(dst.host), address.Device(src.host)
	case to.onHost():
		c.Op, c.Host = cu.OpMemcpyDtoHAsync, dst.host
	case from.onHost():
		c.Op, c.Host = cu.OpMemcpyHtoDAsync, src.host
	case to == managedMemory || from == managedMemory:
		c.Op = cu.OpMemcpyAsync
	case betweenGPUs(dst, src) && st.capture != nil: // which cuMemcpyPeerAsync refuses
		c.Op = cu.OpMemcpyAsync
	case betweenGPUs(dst, src):
		c.Op, c.DstCtx, c.SrcCtx = cu.OpMemcpyPeerAsync, dst.a.g.ctx, src.a.g.ctx
	default:
		c.Op = cu.OpMemcpyDtoDAsync
	}
	return c
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
	path, err := planQueued(st, dst, src)
	if err != nil || path == copyNothing {
		return err
	}
	for to, from := range registrations(dst, src) {
		b.calls.Append(copyCall(st, to, from))
	}
	return nil
}

// reaches returns an error if a copy on a stream cannot use a span of another GPU. other is the
// other side of the copy. Copies between two GPUs need access to pools only in a capture.
func (r *span) reaches(st *streamState, other *span) error {
	g := st.g
	if err := r.reachableFrom(g); err != nil {
		return err
	}
	if r.farPool(g) && (st.capture != nil || !betweenGPUs(r, other)) && r.closedTo(g) {
		return refusal.Invalid("%v is memory of a pool that is not open to %s: use a stream of its own GPU, or call EnablePeer of %s first", r.String(), g.label, g.label)
	}
	return nil
}

// betweenGPUs reports whether a copy is between the memory of two devices. The driver makes it
// by cuMemcpyPeerAsync or, in a capture, by cuMemcpyAsync.
func betweenGPUs(dst, src *span) bool {
	return dst.kind() == deviceMemory && src.kind() == deviceMemory && dst.a.g.device != src.a.g.device
}
