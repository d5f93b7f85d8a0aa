package ferry

import (
	"context"
	"fmt"
	"iter"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

// Copy copies all elements of src to dst in the order of the stream. The lengths
// must be the same; copy ranges for parts. Between buffers it returns when the
// copy is queued: both buffers know that it is in flight, their Slice and Close
// wait for it. Copy of nothing is a success.
//
// Who moves the data, and what is not asynchronous:
//
//	from, to          Device                  Host                    Managed             Slice (plain)
//	Device            cuMemcpyDtoDAsync*      cuMemcpyDtoHAsync       cuMemcpyAsync       waits: ring***
//	Host              cuMemcpyHtoDAsync       waits: cuMemcpyAsync**  cuMemcpyHtoDAsync   waits: CPU
//	Managed           cuMemcpyAsync           cuMemcpyDtoHAsync       cuMemcpyAsync       waits: cuMemcpyDtoHAsync
//	Slice (plain)     until read: ring***     waits: CPU              until read: ring*** waits: CPU
//
// (*) cuMemcpyPeerAsync between two GPUs. (**) Without unified addressing the CPU
// copies, when the stream has come to it. (***) See [Plain]; small ones
// by cuMemcpyHtoDAsync and cuMemcpyDtoHAsync. Where a plain slice takes part, Copy
// returns when it has been read or written; from host memory to host memory it
// returns when all is done. That may wait for earlier work of the stream, and on
// hardware for other streams, too. [Synchronous] tells beforehand.
//
// An error says what, how much, from where to where: it wraps [ErrClosed] for a
// closed buffer or stream, cu.ErrorInvalidValue for lengths that differ or memory
// that the GPU cannot reach, or what the driver said. Copy is safe for concurrent
// use and, between buffers, allocates nothing. On a [Batch] it is noted for later,
// between buffers only.
func Copy[T any](q Queue, dst, src Memory[T]) error {
	s, ok := q.(*Stream)
	if !ok {
		return copyOn(q, dst, src)
	}
	// What they nearly always are is told without a call.
	if d, ok := dst.(*Device[T]); ok && d != nil {
		if h, ok := src.(*Host[T]); ok && h != nil {
			return s.copy(&d.region, &h.region)
		}
	} else if h, ok := dst.(*Host[T]); ok && h != nil {
		if d, ok := src.(*Device[T]); ok && d != nil {
			return s.copy(&h.region, &d.region)
		}
	}
	return copyOn(q, dst, src)
}

// copyOn is Copy of any memory.
func copyOn[T any](q Queue, dst, src Memory[T]) error {
	if b, ok := q.(*Batch); ok {
		return b.copy(regionOf(dst), regionOf(src))
	}
	return streamOf(q).copyOther(regionOf(dst), regionOf(src))
}

// Queue is what operations are put on: a [Stream], now, or a [Batch], to be
// handed to a stream together. No other types implement it.
type Queue interface {
	// Launch runs a kernel: see [Stream.Launch].
	Launch(k *Kernel, shape Shape, args ...any) error
	// Record makes an event stand for the work before it: see [Stream.Record].
	Record(e *Event) error
	// WaitEvent holds later work back: see [Stream.WaitEvent].
	WaitEvent(e *Event) error

	queue()
}

func (s *Stream) queue() {}

// streamOf is the stream that a queue is, nil if it is none.
func streamOf(q Queue) *Stream {
	s, _ := q.(*Stream)
	return s
}

// regionOf is the memory behind an interface that may be nil.
func regionOf[T any](m Memory[T]) *region {
	if m == nil {
		return nil
	}
	return m.where(nil)
}

// way is a direction of copies between page-locked and device memory.
type way uint8

const (
	toDevice way = 1 + iota
	toHost
)

// copy is Copy of buffers. Where there is nothing to it, as nearly always, between one
// on the GPU and one on the host, one call of the driver is all. This touches little
// memory, as all of it is cold when the driver has run.
func (s *Stream) copy(dst, src *region) error {
	q, w := s.callFor(dst, src)
	if q == nil {
		return s.copyOther(dst, src)
	}
	to, from := &dst.a.first, &src.a.first
	if to.q.Load() != q || from.q.Load() != q {
		to, from = lendBoth(&dst.a.flight, &src.a.flight, q)
	}
	open, also := dst.a.openIn(dst.age), src.a.openIn(src.age)
	if !open || !also {
		return s.copyAfter(q, dst, src)
	}
	var err error
	if w == toDevice {
		err = q.g.driver.MemcpyHtoDAsync(q.g.ctx, dst.dev, src.host, dst.bytes, q.handle)
	} else {
		err = q.g.driver.MemcpyDtoHAsync(q.g.ctx, dst.host, src.dev, dst.bytes, q.handle)
	}
	if err != nil {
		return q.refused(dst, src, err)
	}
	seq := q.next()
	to.note(writes, seq)
	from.note(reads, seq)
	q.called(queued)
	return nil
}

// callFor begins a use of the stream by queue.call for a copy that is one call of
// the driver, and says which way. Where more is to be looked at q is nil.
func (s *Stream) callFor(dst, src *region) (q *queue, w way) {
	if s == nil {
		return nil, 0
	}
	q, w = s.now.Load(), dst.into&src.outOf
	if q == nil || w == 0 {
		return nil, 0
	}
	g := q.g
	if dst.a.g != g || src.a.g != g || dst.bytes != src.bytes || dst.bytes-1 >= largeCopy-1 {
		return nil, 0
	}
	m := &g.engines[w&1]
	if large := m.q.Load(); large != nil && large != q { // in whose wake a small copy would be
		if large.passed.Load() < m.seq.Load() {
			return nil, 0
		}
	}
	if !q.call() {
		return nil, 0
	}
	return q, w
}

// copyOther is copy where there is more to it, or something wrong.
func (s *Stream) copyOther(dst, src *region) error {
	if s != nil && s.q != nil && (dst.isPlain() && src.check() == nil || src.isPlain() && dst.check() == nil) && dst.n == src.n {
		return s.copyStretches(dst, src)
	}
	return s.copyOne(dst, src)
}

// copyAfter is copyOther after a use by queue.call that came to nothing.
func (s *Stream) copyAfter(q *queue, dst, src *region) error {
	q.called(notQueued)
	return s.copyOther(dst, src)
}

// refused ends a use by queue.call for a copy that the driver refused.
func (q *queue) refused(dst, src *region, err error) error {
	q.called(notQueued)
	return q.failed(dst, src, err)
}

// failed is the error of a copy that the driver refused.
func (q *queue) failed(dst, src *region, err error) error {
	return fmt.Errorf("copy %s to %v from %v on %v: %w", sizeText(dst.bytes), dst, src, q, err)
}

// copyStretches copies plain memory, which may lie in buffers, and reach across
// their edges.
func (s *Stream) copyStretches(dst, src *region) error {
	for off := uintptr(0); ; {
		to, err := s.q.g.stretch(dst, off)
		if err != nil {
			return fmt.Errorf("copy to %w", err)
		}
		from, err := s.q.g.stretch(src, off)
		if err != nil {
			return fmt.Errorf("copy from %w", err)
		}
		n := min(to.bytes, from.bytes)
		to, from = to.cut(0, n), from.cut(0, n)
		if n < dst.bytes {
			to.n, from.n = int(n), int(n) // bytes: an edge may be within an element
		}
		if err := s.copyOne(&to, &from); err != nil {
			return err
		}
		if off += n; off >= dst.bytes {
			return nil
		}
	}
}

// copyOne is Copy of memory that is of one kind on each side.
func (s *Stream) copyOne(dst, src *region) error {
	q, err := s.enter("copy")
	if err != nil {
		return err
	}
	return q.operate2("copy", dst, src, (*queue).copy)
}

// operate2 runs an operation from one buffer to another and leaves the queue. f
// says whether it queued anything.
func (q *queue) operate2(what string, dst, src *region, f func(q *queue, dst, src *region) (bool, error)) error {
	to, err := dst.begin(q, writes)
	if err != nil {
		q.leave()
		return fmt.Errorf("%s to %w", what, err)
	}
	from, err := src.begin(q, reads)
	if err != nil {
		dst.end(to, writes, 0)
		q.leave()
		return fmt.Errorf("%s from %w", what, err)
	}
	queued, err := f(q, dst, src)
	seq := q.finish(queued)
	if dst.bytes >= largeCopy {
		q.noteLarge(dst, src, seq)
	}
	dst.end(to, writes, seq)
	src.end(from, reads, seq)
	if err == nil && (dst.settle || src.settle) {
		err = q.settle(context.Background())
	}
	return err
}

// copy checks and moves. It says whether it queued anything.
func (q *queue) copy(dst, src *region) (queued bool, err error) {
	err = q.checkCopy(dst, src)
	if err == nil && overlap(dst, src) {
		err = refuse("the source and the destination overlap within %v: copy through another buffer", dst.a)
	}
	if err != nil {
		return false, fmt.Errorf("copy on %v: %w", q, err)
	}
	if dst.bytes == 0 || same(dst, src) {
		return false, nil
	}
	switch {
	case q.byCPU(dst, src):
		err = q.copyByCPU(dst, src)
	case dst.kind() == plainMemory || src.kind() == plainMemory:
		queued, err = true, q.copyPlain(dst, src)
	default:
		queued, err = q.transfer(dst, src)
	}
	if err != nil {
		return queued, q.failed(dst, src, err)
	}
	return queued, nil
}

// checkCopy refuses what the driver would, or would get wrong.
func (q *queue) checkCopy(dst, src *region) error {
	switch {
	case dst.n != src.n:
		return refuse("%v has %d elements, %v has %d: copy ranges of one length", dst, dst.n, src, src.n)
	case q.c != nil && (dst.a == nil || src.a == nil) && dst.bytes > 0:
		return refuse("a graph would copy from %v to %v whenever it is launched, and cannot keep the plain one: capture with a buffer of AllocHost or Register", src, dst)
	case q.c != nil && q.byCPU(dst, src) && dst.bytes > 0:
		return refuse("on this device the CPU copies from %v to %v, which a graph cannot have done: capture copies by way of a Device buffer", src, dst)
	case dst.a != nil && dst.a.readOnly:
		return refuse("%v is registered read-only", dst)
	}
	if err := dst.reach(q.g); err != nil {
		return err
	}
	return src.reach(q.g)
}

// alike says that addresses of two regions can be compared: those of one
// allocation, and of registered memory, of which several buffers may have a part.
func alike(x, y *region) bool {
	return x.a != nil && (x.a == y.a || x.kind() == registeredMemory && y.kind() == registeredMemory)
}

// place is an address of a region, to compare with one that is alike.
func (r *region) place() uint64 {
	if r.host != nil {
		return uint64(deviceAddress(r.host))
	}
	return uint64(r.dev)
}

// same says that two regions of one size are one.
func same(x, y *region) bool { return alike(x, y) && x.place() == y.place() }

// overlap says whether two different ranges share bytes.
func overlap(x, y *region) bool {
	a, b := x.place(), y.place()
	return alike(x, y) && a != b && a < b+uint64(y.bytes) && b < a+uint64(x.bytes)
}

// byCPU says that Go copies: between host memory of which the driver does not
// know both sides, or that it cannot address as one.
func (q *queue) byCPU(dst, src *region) bool {
	to, from := dst.kind(), src.kind()
	return to.onHost() && from.onHost() && (to == plainMemory || from == plainMemory || !q.g.caps.unified)
}

// transfer moves the bytes, in parts where registrations border on each other.
func (q *queue) transfer(dst, src *region) (queued bool, err error) {
	if q.mustOvertake(dst, src) {
		if queued, err = q.overtake(dst, src); queued || err != nil {
			return queued, err
		}
	}
	for to, from := range parts(dst, src) {
		if err := q.move(to, from); err != nil {
			return queued, err
		}
		queued = true
	}
	return queued, nil
}

// parts are the two sides of a copy, cut so that no part crosses from one
// registration to the next.
func parts(dst, src *region) iter.Seq2[*region, *region] {
	return func(yield func(*region, *region) bool) {
		if !dst.broken() && !src.broken() {
			yield(dst, src)
			return
		}
		for off := uintptr(0); off < dst.bytes; {
			n := min(dst.unbroken(off), src.unbroken(off))
			to, from := dst.cut(off, n), src.cut(off, n)
			if !yield(&to, &from) {
				return
			}
			off += n
		}
	}
}

// broken says that a region may be of several registrations.
func (r *region) broken() bool { return r.a != nil && len(r.a.cuts) > 0 }

// unbroken is how many bytes of a region, from byte off on, are of one registration.
func (r *region) unbroken(off uintptr) uintptr {
	n := r.bytes - off
	if !r.broken() {
		return n
	}
	start, _ := r.a.span()
	at := uintptr(r.place()-start) + off
	for _, cut := range r.a.cuts {
		if cut > at {
			return min(n, cut-at)
		}
	}
	return n
}

// move queues one copy.
func (q *queue) move(dst, src *region) error {
	c := q.copyCall(dst, src)
	err := c.Do(q.g.driver, q.g.ctx)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

// copyCall is one copy by the call of the driver that fits.
func (q *queue) copyCall(dst, src *region) cu.Call {
	c := cu.Call{Dst: dst.dev, Src: src.dev, Bytes: dst.bytes, Stream: q.handle}
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

// copyByCPU copies within host memory when the stream and the buffers are ready.
func (q *queue) copyByCPU(dst, src *region) error {
	if err := q.readyBoth(dst, src); err != nil {
		return err
	}
	copy(bytesAt(dst.host, dst.bytes), bytesAt(src.host, src.bytes))
	return nil
}

// readyBoth waits until the stream has come to a copy by the CPU, and the CPU may
// access both sides.
func (q *queue) readyBoth(dst, src *region) error {
	if err := q.settle(context.Background()); err != nil {
		return err
	}
	if err := dst.ready(context.Background(), writes); err != nil {
		return err
	}
	return src.ready(context.Background(), reads)
}
