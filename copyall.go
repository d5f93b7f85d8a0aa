package ferry

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// Pair is one of the copies of [CopyAll].
type Pair[T any] struct{ Dst, Src Memory[T] }

// CopyAll makes many copies in the order of the stream, in the way that is the
// fastest for their number and size. They are in no order among themselves: what
// one writes, no other may read or write. Lengths, errors and buffers in flight
// are as for [Copy]; plain slices are refused. If a pair is refused nothing is
// queued.
//
//	many copies of up to 256 KiB on average    a kernel, which needs Mapped host buffers
//	few, or larger ones                        cuMemcpyBatchAsync, from CUDA 12.8 on
//	otherwise                                  Copy for each, submitted together
//
// On an H200 1024 copies of 4 KiB from page-locked memory take 0.1 ms by the
// kernel, 1.4 ms by cuMemcpyBatchAsync and 2.7 ms one by one. CopyAll is safe for
// concurrent use and allocates nothing.
func CopyAll[T any](s *Stream, pairs []Pair[T]) error {
	c := copiesPool.Get().(*copies)
	defer c.done()
	for _, p := range pairs {
		c.to, c.from = append(c.to, regionOf(p.Dst)), append(c.from, regionOf(p.Src))
	}
	return s.copyAll(c)
}

// copies is what a CopyAll works with. It is reused.
type copies struct {
	to, from []*region
	held     frame
	last     [2]*allocation // held last, to write and to read
	calls    cu.Batch       // one copy each
	ranges   []span64       // the same by device addresses,
	direct   bool           // which kernels can use
	bytes    uintptr
	params   []byte
	dst, src []cu.DevicePtr
	sizes    []uintptr
}

var copiesPool = sync.Pool{New: func() any { return new(copies) }}

// done gives the room back.
func (c *copies) done() {
	clear(c.to)
	clear(c.from)
	c.to, c.from, c.ranges = c.to[:0], c.from[:0], c.ranges[:0]
	c.dst, c.src, c.sizes = c.dst[:0], c.src[:0], c.sizes[:0]
	c.last, c.bytes = [2]*allocation{}, 0
	c.calls.Reset()
	copiesPool.Put(c)
}

// copyAll is CopyAll.
func (s *Stream) copyAll(c *copies) error {
	q, err := s.enter("copy")
	if err != nil {
		return err
	}
	c.direct = q.g.caps.unified
	for i := range c.to {
		if err = c.add(q, c.to[i], c.from[i]); err != nil {
			err = fmt.Errorf("copy %d of %d to %v from %v on %v: %w", i+1, len(c.to), c.to[i], c.from[i], q, err)
			break
		}
	}
	queued := false
	if err == nil && c.calls.Len() > 0 {
		queued, err = c.submit(q)
	}
	c.held.release(q.finish(queued))
	return err
}

// add checks a pair and notes its copies.
func (c *copies) add(q *queue, dst, src *region) error {
	if err := errors.Join(dst.check(), src.check()); err != nil {
		return err
	}
	if dst.isPlain() || src.isPlain() {
		return refuse("plain memory is copied by the CPU: use Copy for it, or a buffer of AllocHost or Register")
	}
	if err := errors.Join(c.hold(q, dst, writes), c.hold(q, src, reads)); err != nil {
		return err
	}
	if err := q.checkCopy(dst, src); err != nil {
		return err
	}
	switch {
	case overlap(dst, src):
		return refuse("the source and the destination overlap within %v: copy through another buffer", dst.a)
	case q.byCPU(dst, src):
		return refuse("on this device the CPU copies between them: use Copy, or copy by way of a Device buffer")
	case dst.bytes == 0 || same(dst, src):
		return nil
	}
	for to, from := range parts(dst, src) {
		call := q.copyCall(to, from)
		c.calls.Append(call)
		c.bytes += call.Bytes
		c.note(q, to, from)
	}
	return nil
}

// hold marks a region as in use. Neighbours in the list are often of one buffer.
func (c *copies) hold(q *queue, r *region, a access) error {
	if c.last[a] == r.a && r.a.life.openIn(r.age) {
		return nil
	}
	if !c.held.hold(q, &r.a.flight, a, r.age) {
		return r.a.errClosed()
	}
	c.last[a] = r.a
	return r.a.ordered(q)
}

// note keeps the addresses that kernels have for a copy, as long as all have.
func (c *copies) note(q *queue, dst, src *region) {
	if !c.direct {
		return
	}
	to, ok := q.direct(dst)
	from, also := q.direct(src)
	if c.direct = ok && also; c.direct {
		c.ranges = append(c.ranges, span64{to, from, dst.bytes})
	}
}

// direct is the address that kernels of q's GPU have for memory that they read
// and write as fast as the engines do.
func (q *queue) direct(r *region) (cu.DevicePtr, bool) {
	k := r.kind()
	if r.dev == 0 || r.a.g.device != q.g.device || k == managedMemory {
		return 0, false
	}
	p, err := r.addressOn(q.g)
	return p, err == nil
}

// Where the ways of copying meet, measured on an H200: docs/PERFORMANCE.md.
const (
	gatherCount = 8         // copies for which a launch is worth it
	gatherMost  = 256 << 10 // bytes of a copy, on average, from which on the engines are no slower
)

// submit queues the copies in the way that is best for them.
func (c *copies) submit(q *queue) (queued bool, err error) {
	n := c.calls.Len()
	if f := q.g.gatherer.f; f != 0 && c.direct && n >= gatherCount && c.bytes/uintptr(n) <= gatherMost {
		c.calls.Reset()
		c.params = gather(&c.calls, f, q.handle, c.ranges, c.params)
		return c.together(q)
	}
	if n > 1 && q.g.caps.batchCopies && q.c == nil && q.number != 0 {
		if err := c.batch(q); err != nil {
			return false, fmt.Errorf("%d copies (%s) on %v: %w", n, sizeText(c.bytes), q, err)
		}
		return true, nil
	}
	return c.together(q)
}

// together makes the calls in one crossing.
func (c *copies) together(q *queue) (queued bool, err error) {
	done, err := q.g.driver.Submit(q.g.ctx, &c.calls)
	if err != nil {
		err = fmt.Errorf("%v, call %d of %d for %d copies (%s) on %v: %w", c.calls.Calls()[done].Op, done+1, c.calls.Len(), len(c.to), sizeText(c.bytes), q, err)
	}
	return done > 0, err
}

// batch is cuMemcpyBatchAsync.
func (c *copies) batch(q *queue) error {
	for _, x := range c.calls.Calls() {
		dst, src := x.Dst, x.Src
		switch x.Op {
		case cu.OpMemcpyHtoDAsync:
			src = deviceAddress(x.Host)
		case cu.OpMemcpyDtoHAsync:
			dst = deviceAddress(x.Host)
		}
		c.dst, c.src, c.sizes = append(c.dst, dst), append(c.src, src), append(c.sizes, x.Bytes)
	}
	return q.g.driver.MemcpyBatchAsync(q.g.ctx, c.dst, c.src, c.sizes, q.handle)
}
