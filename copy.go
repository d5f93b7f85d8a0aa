package ferry

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Copy copies all elements of src to dst in the order of the stream. The lengths must
// be the same; copy ranges for parts. Between buffers it returns when the copy is
// queued: both buffers know that it is in flight, their Slice and Close wait for it. To
// copy nothing is a success.
//
// What moves the data, and what is not asynchronous:
//
//	from, to          Device                  Host                    Managed             Pageable
//	Device            cuMemcpyDtoDAsync*      cuMemcpyDtoHAsync       cuMemcpyAsync       waits: ring***
//	Host              cuMemcpyHtoDAsync       waits: cuMemcpyAsync**  cuMemcpyHtoDAsync   waits: CPU
//	Managed           cuMemcpyAsync           cuMemcpyDtoHAsync       cuMemcpyAsync       waits: cuMemcpyDtoHAsync
//	Pageable          until read: ring***     waits: CPU              until read: ring*** waits: CPU
//
// (*) cuMemcpyPeerAsync between two GPUs. (**) Without unified addressing the CPU
// copies, when the stream has reached the copy. (***) See [Pageable]; small ones by
// cuMemcpyHtoDAsync and cuMemcpyDtoHAsync. Where pageable memory takes part, Copy
// returns when it has been read or written; from host memory to host memory it returns
// when all is done. That may wait for earlier work of the stream, and on hardware for
// other streams, too. [Synchronous] tells beforehand, and [CopyContext] can end such a
// wait.
//
// An error says what, how much, from where to where: it wraps [ErrClosed] for a closed
// buffer or stream, cu.ErrorInvalidValue for lengths that differ or memory that the GPU
// cannot reach, or what the driver said. Copy is safe for concurrent use and, between
// buffers, allocates nothing. On a [Batch] it is added for later, between buffers only.
func Copy[T any](q Queue, dst, src Memory[T]) error {
	if b, ok := q.(*Batch); ok {
		return b.copy(spanOf(dst), spanOf(src))
	}
	return copySpans(context.Background(), streamOf(q), spanOf(dst), spanOf(src))
}

// CopyContext is [Copy] that ctx can end where it waits, for pageable and host memory.
// The error then wraps ctx.Err(): of a pageable source what was read by then is
// copied, of a pageable destination what was written stays. A copy between buffers is
// queued unless ctx has ended before. A nil ctx never ends.
func CopyContext[T any](ctx context.Context, s *Stream, dst, src Memory[T]) error {
	ctx = await.Context(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("copy to %v from %v on %v: %w", spanOf(dst), spanOf(src), s, err)
	}
	return copySpans(ctx, s, spanOf(dst), spanOf(src))
}

// Upload copies a slice to a new buffer on the GPU and returns when it is there. The
// caller closes the buffer.
func Upload[T any](g *GPU, s []T) (*Device[T], error) {
	d, err := Alloc[T](g, len(s))
	if err != nil {
		return nil, err
	}
	if err = copyNow(g, Memory[T](d), Memory[T](Pageable(s))); err == nil {
		err = d.Wait(context.Background())
	}
	if err != nil {
		_ = d.Close() // the copy's error says what is wrong
		return nil, err
	}
	return d, nil
}

// Download is a copy of a buffer's elements, once what writes them is done.
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
	return s, copyNow(r.a.g, Memory[T](Pageable(s)), m)
}

// copyNow copies on a stream of its own, which waits for no other.
func copyNow[T any](g *GPU, dst, src Memory[T]) error {
	s, err := NewStream(g, &StreamOptions{NonBlocking: true})
	if err != nil {
		return err
	}
	defer s.Close()
	return Copy(s, dst, src)
}

// Synchronous reports whether [Copy] of src to dst on the stream would wait: it does
// where pageable memory takes part, which is read or written before Copy returns, and
// from host memory to host memory, page-locked or not, which drivers do at once.
// Otherwise Copy only queues, as all other operations do. Synchronous itself queues
// nothing and waits for nothing. For what cannot be copied it is false.
//
// docs/ASYNC.md has the table of all calls.
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

// streamOf is the stream that a queue is, nil if it is none.
func streamOf(q Queue) *Stream {
	s, _ := q.(*Stream)
	return s
}

// copySpans is Copy on a stream. A pageable slice of memory that the driver knows, as
// Host.Slice gives it, is treated as that memory: the hardware would use it after Copy
// has returned. Where it reaches across the edges of buffers it is copied in parts.
func copySpans(ctx context.Context, s *Stream, dst, src *span) error {
	if done, err := copyDirect(s, dst, src); done {
		return err
	}
	if s == nil || s.state == nil || !dst.isPageable() && !src.isPageable() || dst.check() != nil || src.check() != nil || dst.n != src.n {
		return copyOne(ctx, s, dst, src)
	}
	for off := uintptr(0); ; {
		to, err := runAt(s.state.g, dst, off)
		if err != nil {
			return fmt.Errorf("copy to %w", err)
		}
		from, err := runAt(s.state.g, src, off)
		if err != nil {
			return fmt.Errorf("copy from %w", err)
		}
		n := min(to.bytes, from.bytes)
		to, from = to.cut(0, n), from.cut(0, n)
		if n < dst.bytes {
			to.n, from.n = int(n), int(n) // bytes: an edge may be within an element
		}
		if err := copyOne(ctx, s, &to, &from); err != nil {
			return err
		}
		if off += n; off >= dst.bytes {
			return nil
		}
	}
}

// runAt is the longest part of a span from byte off on that is memory of one kind.
func runAt(g *GPU, r *span, off uintptr) (span, error) {
	rest := r.cut(off, r.bytes-off)
	if !r.isPageable() {
		return rest, nil
	}
	start := uint64(deviceAddress(rest.host))
	run := g.shared.hosts.First(start, start+uint64(rest.bytes))
	rest = rest.cut(0, uintptr(run.End-start))
	switch {
	case run.Owner != nil:
		return spanIn(run.Owner.Of.(*allocation), rest), nil
	case run.Lost:
		return span{}, refusal.Invalid("%v is in page-locked memory whose buffer was lost without Close: keep the buffer and copy from it", r)
	case run.Known: // a buffer is being closed, or more is page-locked than its owners have
		rest.untracked = true
	}
	return rest, nil
}

// spanIn is the part of an allocation where a pageable span is.
func spanIn(a *allocation, r span) span {
	r.a, r.generation, r.part = a, a.Generation(), true
	if a.dev != 0 {
		r.dev = a.dev + (deviceAddress(r.host) - deviceAddress(a.host))
	}
	return r
}

// copyDirect is a copy between a page-locked buffer and one on the device, up to a size
// that no other copy waits behind: nearly all copies are. It checks and tracks the same
// as copyOne does, with fewer instructions: on an H200 that is 40 ns of 1260. It is
// false, and nothing is done, where there is more to check.
func copyDirect(s *Stream, dst, src *span) (done bool, err error) {
	st := s.target()
	if st == nil || dst == nil || src == nil || dst.dstOf&src.srcOf == 0 || dst.n != src.n || dst.bytes == 0 {
		return false, nil
	}
	g := st.g
	if dst.a.g != g || src.a.g != g || st.capture != nil || dst.bytes >= g.largeCopy {
		return false, nil
	}
	way := dst.dstOf & src.srcOf
	if m := &g.largest[way-1]; m.unfinished(st) || !st.BeginShort() {
		return false, nil
	}
	defer func() { st.EndShort(done && err == nil) }()
	to, from := dst.a.UseOf(&st.Stream), src.a.UseOf(&st.Stream)
	if !dst.a.OpenIn(dst.generation) || !src.a.OpenIn(src.generation) {
		return false, nil
	}
	if way == hostToDevice {
		err = g.driver.MemcpyHtoDAsync(g.ctx, dst.dev, src.host, dst.bytes, st.handle)
	} else {
		err = g.driver.MemcpyDtoHAsync(g.ctx, dst.host, src.dev, dst.bytes, st.handle)
	}
	if err != nil {
		return true, copyError(st, dst, src, err)
	}
	n := st.Next()
	to.Note(inflight.Write, n)
	from.Note(inflight.Read, n)
	return true, nil
}

// copyError says which copy failed.
func copyError(st *streamState, dst, src *span, err error) error {
	return fmt.Errorf("copy %s to %v from %v on %v: %w", refusal.Size(dst.bytes), dst, src, st, err)
}

// copyOne is Copy of memory that is of one kind on each side.
func copyOne(ctx context.Context, s *Stream, dst, src *span) error {
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
	queued := false
	switch path {
	case copyNothing:
		return nil
	case copyByCPU:
		if err = waitBoth(ctx, st, dst, src); err == nil {
			copy(bytesAt(dst.host, dst.bytes), bytesAt(src.host, src.bytes))
		}
	case copyStaged:
		queued, err = true, copyPageable(ctx, st, dst, src)
	default:
		queued, err = queueCopy(st, dst, src)
	}
	if queued {
		op.Queued()
		noteLarge(st, dst, src)
	}
	if err == nil && (dst.untracked || src.untracked) {
		err = st.Wait(ctx)
	}
	if err != nil {
		return copyError(st, dst, src, err)
	}
	return nil
}

// takesLong reports whether a copy waits for the CPU, or for the stream.
func takesLong(dst, src *span) bool {
	return dst != nil && src != nil && (dst.a == nil || src.a == nil || dst.a.kind.onHost() && src.a.kind.onHost())
}

// acquireBoth counts a copy as a user of both sides.
func acquireBoth(op *inflight.Op, st *streamState, dst, src *span) error {
	if err := dst.acquire(op, st, inflight.Write); err != nil {
		return fmt.Errorf("copy to %w", err)
	}
	if err := src.acquire(op, st, inflight.Read); err != nil {
		return fmt.Errorf("copy from %w", err)
	}
	return nil
}

// copyPath is how a copy is carried out.
type copyPath uint8

const (
	copyByDriver copyPath = iota // one call of the driver for each registration
	copyNothing                  // no bytes, or bytes onto themselves
	copyByCPU                    // Go copies, when both sides are ready
	copyStaged                   // through the staging ring
)

// planCopy checks a copy between spans that are acquired, and chooses its path. Copy,
// CopyAll, CopyRect and batches share it.
func planCopy(st *streamState, dst, src *span) (copyPath, error) {
	if err := checkCopy(st, dst, src); err != nil {
		return 0, err
	}
	if overlap(dst, src) {
		return 0, refusal.Invalid("the source and the destination overlap within %v: copy through another buffer", dst.a)
	}
	if dst.bytes == 0 || alike(dst, src) && dst.address() == src.address() {
		return copyNothing, nil
	}
	return pathOf(st, dst, src), nil
}

// planQueued is planCopy for copies that are queued together, which the CPU cannot
// make.
func planQueued(st *streamState, dst, src *span) (copyPath, error) {
	path, err := planCopy(st, dst, src)
	if err == nil && path == copyByCPU {
		err = errCopiedByCPU
	}
	return path, err
}

// errCopiedByCPU refuses to queue what the CPU must copy.
var errCopiedByCPU = refusal.Invalid("on this device the CPU copies between them: use Copy, or copy by way of a Device buffer")

// refusePageable refuses pageable memory for copies that are queued together.
func refusePageable(dst, src *span) error {
	if dst.isPageable() || src.isPageable() {
		return refusal.Invalid("pageable memory is copied by the CPU, at once: use Copy on a Stream for it, or a buffer of AllocHost or Register")
	}
	return nil
}

// pathOf is the path of a copy by the kinds of memory. Between host memory the CPU
// copies where the driver does not know both sides, or cannot address them as one.
func pathOf(st *streamState, dst, src *span) copyPath {
	to, from := dst.kind(), src.kind()
	pageable := to == pageableMemory || from == pageableMemory
	switch {
	case to.onHost() && from.onHost() && (pageable || !st.g.caps.unified):
		return copyByCPU
	case pageable:
		return copyStaged
	}
	return copyByDriver
}

// checkCopy refuses what the driver would refuse, or would get wrong.
func checkCopy(st *streamState, dst, src *span) error {
	switch {
	case dst.n != src.n:
		return refusal.Invalid("%v has %d elements, %v has %d: copy ranges of one length", dst, dst.n, src, src.n)
	case dst.a != nil && dst.a.readOnly:
		return refusal.Invalid("%v is registered read-only", dst)
	case st.capture == nil || dst.bytes == 0:
	case dst.a == nil || src.a == nil:
		return refusal.Invalid("a graph would copy from %v to %v whenever it is launched, and cannot keep the pageable one: capture with a buffer of AllocHost or Register", src, dst)
	case pathOf(st, dst, src) == copyByCPU:
		return refusal.Invalid("on this device the CPU copies from %v to %v, which a graph cannot have done: capture copies by way of a Device buffer", src, dst)
	}
	if dst.a != nil && dst.a.g != st.g {
		if err := dst.reachableFrom(st.g); err != nil {
			return err
		}
	}
	if src.a != nil && src.a.g != st.g {
		return src.reachableFrom(st.g)
	}
	return nil
}

// alike reports that addresses of two spans can be compared: those of one allocation,
// and of registered memory, of which several buffers may have a part.
func alike(x, y *span) bool {
	return x.a != nil && (x.a == y.a || x.kind() == registeredMemory && y.kind() == registeredMemory)
}

// overlap reports whether two different ranges share bytes.
func overlap(x, y *span) bool {
	if !alike(x, y) {
		return false
	}
	a, b := x.address(), y.address()
	return a != b && a < b+uint64(y.bytes) && b < a+uint64(x.bytes)
}

// waitBoth waits until the stream has reached a copy by the CPU, and the CPU may access
// both sides.
func waitBoth(ctx context.Context, st *streamState, dst, src *span) error {
	if err := st.Wait(ctx); err != nil {
		return err
	}
	if err := dst.waitHost(ctx, inflight.Write); err != nil {
		return err
	}
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

// memcpyAsync is one copy by the call of the driver that fits. Between page-locked
// memory and the device it makes the call itself, because a cu.Call takes 20 ns more.
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

// registrations is the two sides of a copy, cut so that no part crosses from one
// registration to the next.
func registrations(dst, src *span) iter.Seq2[*span, *span] {
	return func(yield func(*span, *span) bool) {
		if !dst.crossesBoundary() && !src.crossesBoundary() {
			yield(dst, src)
			return
		}
		for off := uintptr(0); off < dst.bytes; {
			n := min(dst.toBoundary(off), src.toBoundary(off))
			to, from := dst.cut(off, n), src.cut(off, n)
			if !yield(&to, &from) {
				return
			}
			off += n
		}
	}
}

// copyCall is one copy by the call of the driver that fits.
func copyCall(st *streamState, dst, src *span) cu.Call {
	c := cu.Call{Dst: dst.dev, Src: src.dev, Bytes: dst.bytes, Stream: st.handle}
	to, from := dst.kind(), src.kind()
	switch {
	case to.onHost() && from.onHost():
		c.Op, c.Dst, c.Src = cu.OpMemcpyAsync, deviceAddress(dst.host), deviceAddress(src.host)
	case to.onHost():
		c.Op, c.Host = cu.OpMemcpyDtoHAsync, dst.host
	case from.onHost():
		c.Op, c.Host = cu.OpMemcpyHtoDAsync, src.host
	case to == managedMemory || from == managedMemory:
		c.Op = cu.OpMemcpyAsync
	case dst.a.g.device != src.a.g.device:
		c.Op, c.DstCtx, c.SrcCtx = cu.OpMemcpyPeerAsync, dst.a.g.ctx, src.a.g.ctx
	default:
		c.Op = cu.OpMemcpyDtoDAsync
	}
	return c
}

// copy is Copy on a batch.
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
