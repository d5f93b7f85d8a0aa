package ferry

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// Pair is one copy of [CopyAll].
type Pair[T any] struct{ Dst, Src Memory[T] }

// CopyAll makes many copies in the order of the stream, by the method that is fastest for
// their number and size. The copies have no order among each other: what one copy writes,
// no other copy may read or write. In race builds that is reported as a data race. Lengths,
// errors and in-flight tracking are as for [Copy]. If one pair is refused, nothing is
// queued.
//
//	many copies of up to 256 KiB on average    a kernel, if it has addresses for all memory
//	few or larger copies                       cuMemcpyBatchAsync (CUDA 12.8 or newer)
//	otherwise                                  one driver call per copy, submitted together
//
// cuMemcpyBatchAsync is not used on a [Batch], on the default stream and in a capture. On
// an H200, 1024 copies of 4 KiB from page-locked memory take 0.27 ms by the kernel, 1.1 ms
// by cuMemcpyBatchAsync and 2.4 ms by single calls (docs/PERFORMANCE.md).
//
// Pageable memory may take part. All pageable sides go together through the staging ring:
// see [Pageable]. CopyAll then returns when it has read the pageable sources and written
// the pageable destinations. As in Copy, the CPU copies between pageable and host memory.
// On a Batch and in a capture pageable memory is refused.
//
// If a copy fails after the checks, because the driver refuses it or a mapped file has been
// truncated, the error names the pair. Other pairs may be copied then, whole or in part.
// CopyAll is safe for concurrent use. Without pageable memory it allocates nothing.
func CopyAll[T any](q Queue, pairs []Pair[T]) error {
	if b, ok := q.(*Batch); ok {
		return addCopyAll(b, pairs)
	}
	c := copyAlls.Get().(*copyAll)
	defer c.done()
	pageable := slices.ContainsFunc(pairs, func(p Pair[T]) bool { return spanOf(p.Dst).isPageable() || spanOf(p.Src).isPageable() })
	st, err := streamOf(q).begin(&c.op, "copy", pageable)
	if err != nil {
		return err
	}
	c.begin(st, len(pairs))
	for i, p := range pairs {
		if err := c.add(i, spanOf(p.Dst), spanOf(p.Src)); err != nil {
			return c.pairError(i, spanOf(p.Dst), spanOf(p.Src), err)
		}
	}
	if unordered.Enabled {
		reportUnordered(pairs)
	}
	if len(c.pageable.copies) > 0 {
		return c.copyPageable()
	}
	return c.submit()
}

// reportUnordered reports pairs that conflict to the race detector. The driver cannot: to it
// the copies are one kernel, or follow each other in the stream. A list with memory of two
// drivers is refused when it is queued, so it is not reported.
func reportUnordered[T any](pairs []Pair[T]) {
	copies, driver := make([]unordered.Copy, len(pairs)), cu.Driver(nil)
	for i, p := range pairs {
		dst, src := spanOf(p.Dst), spanOf(p.Src)
		for _, r := range []*span{dst, src} {
			if r.a != nil && driver != nil && !sameDriver(driver, r.a.g.driver) {
				return
			}
			if r.a != nil {
				driver = r.a.g.driver
			}
		}
		copies[i] = unordered.Copy{Dst: dst.addresses(), Src: src.addresses()}
	}
	unordered.Report(copies, func(i int) string {
		return fmt.Sprintf("copy %d of %d to %v from %v", i+1, len(pairs), spanOf(pairs[i].Dst), spanOf(pairs[i].Src))
	})
}

// addresses returns the address range of the span. Host addresses are one address space. Each
// GPU has one of its own, because without unified addressing two may use the same addresses.
func (r *span) addresses() unordered.Range {
	if r.host == nil && r.a != nil {
		return unordered.Range{Space: 1 + int(r.a.g.device), From: uintptr(r.dev), Bytes: r.bytes}
	}
	return unordered.Range{From: uintptr(r.host), Bytes: r.bytes}
}

// copyAll is the memory that one CopyAll needs. It is reused, so that a call allocates
// nothing.
type copyAll struct {
	op       inflight.Op
	pairs    int // how many
	list     copyList
	pageable pageableCopies
	calls    cu.Batch
	params   []byte
	dst, src []cu.DevicePtr
	sizes    []uintptr
}

var copyAlls = sync.Pool{New: func() any { return new(copyAll) }}

// begin begins a CopyAll of a number of pairs.
func (c *copyAll) begin(st *streamState, pairs int) {
	c.pairs = pairs
	c.list.begin(st)
}

// done ends the operation and returns c to the pool.
func (c *copyAll) done() {
	c.pageable.reset()
	c.op.End()
	c.list.begin(nil)
	c.forgetCalls()
	copyAlls.Put(c)
}

// forgetCalls removes the calls that were made.
func (c *copyAll) forgetCalls() {
	c.calls.Reset()
	c.params, c.dst, c.src, c.sizes = c.params[:0], c.dst[:0], c.src[:0], c.sizes[:0]
}

// pairError returns an error that names a pair.
func (c *copyAll) pairError(pair int, dst, src *span, err error) error {
	return fmt.Errorf("copy %d of %d to %v from %v on %v: %w", pair+1, c.pairs, dst, src, c.list.st, err)
}

// add checks a pair, acquires it, and adds its copies. A pageable slice can be a part of a
// buffer: see copySpans.
func (c *copyAll) add(pair int, dst, src *span) error {
	if !dst.isPageable() && !src.isPageable() || dst.check() != nil || src.check() != nil || dst.n != src.n {
		return c.list.addQueued(dst, src, c.acquire)
	}
	return copyRuns(c.list.st.g, dst, src, &c.pageable.run, func(to, from *span) error {
		path, err := c.list.add(to, from, c.acquire)
		if err == nil && (path == copyByCPU || path == copyStaged) {
			c.pageable.add(pair, to, from, path)
		}
		return err
	})
}

func (c *copyAll) acquire(r *span, a inflight.Access) error {
	return r.acquire(&c.op, c.list.st, a)
}

// submit queues the copies by the fastest method.
func (c *copyAll) submit() error {
	n, st := len(c.list.calls), c.list.st
	if n == 0 {
		return nil
	}
	if c.list.byBatch() {
		if err := c.memcpyBatch(st); err != nil {
			return fmt.Errorf("%d copies (%s) on %v: %w", n, refusal.Size(c.list.bytes), st, err)
		}
		c.op.Queued()
		return nil
	}
	c.params = c.list.appendTo(&c.calls, c.params)
	done, err := st.g.driver.Submit(st.g.ctx, &c.calls)
	if done > 0 {
		c.op.Queued()
	}
	if err != nil {
		return fmt.Errorf("%v, call %d of %d for %d copies (%s) on %v: %w", c.calls.Calls()[done].Op, done+1, c.calls.Len(), c.pairs, refusal.Size(c.list.bytes), st, err)
	}
	return nil
}

// memcpyBatch queues the copies with cuMemcpyBatchAsync.
func (c *copyAll) memcpyBatch(st *streamState) error {
	for i := range c.list.calls {
		x := &c.list.calls[i]
		dst, src := x.Dst, x.Src
		switch x.Op {
		case cu.OpMemcpyHtoDAsync:
			src = address.Device(x.Host)
		case cu.OpMemcpyDtoHAsync:
			dst = address.Device(x.Host)
		}
		c.dst, c.src, c.sizes = append(c.dst, dst), append(c.src, src), append(c.sizes, x.Bytes)
	}
	return st.g.driver.MemcpyBatchAsync(st.g.ctx, c.dst, c.src, c.sizes, st.handle)
}

// copyList is a list of copies that are checked and acquired.
type copyList struct {
	st     *streamState
	calls  []cu.Call   // one per copy
	ranges []copyRange // the copies by device address, complete if direct is set
	direct bool        // kernels can address all of the memory
	single bool        // the driver must get copies one by one: see betweenGPUs
	bytes  uintptr
}

// begin empties the list for copies of a stream.
func (l *copyList) begin(st *streamState) {
	clear(l.calls)
	l.st, l.calls, l.ranges, l.bytes = st, l.calls[:0], l.ranges[:0], 0
	l.direct, l.single = st != nil && st.g.caps.Unified, false
}

// add checks a pair, acquires it with the function acquire, and plans its copy. It adds the
// copy if the driver makes it.
func (l *copyList) add(dst, src *span, acquire func(*span, inflight.Access) error) (copyPath, error) {
	if err := errors.Join(dst.check(), src.check()); err != nil {
		return 0, err
	}
	if err := acquire(dst, inflight.Write); err != nil {
		return 0, err
	}
	if err := acquire(src, inflight.Read); err != nil {
		return 0, err
	}
	path, err := planCopy(l.st, dst, src)
	if err != nil || path != copyByDriver {
		return path, err
	}
	for to, from := range registrations(dst, src) {
		l.calls = append(l.calls, copyCall(l.st, to, from))
		l.single = l.single || betweenGPUs(to, from) && (to.farPool(l.st.g) || from.farPool(l.st.g)) // which a batch needs access to
		l.bytes += to.bytes
		l.addRange(to, from)
	}
	return path, nil
}

// addQueued is add for a copy that the CPU must not make.
func (l *copyList) addQueued(dst, src *span, acquire func(*span, inflight.Access) error) error {
	path, err := l.add(dst, src, acquire)
	if err == nil && path == copyByCPU {
		err = errCopiedByCPU
	}
	return err
}

// addRange adds a copy by device address. It clears direct if kernels cannot address the
// memory.
func (l *copyList) addRange(dst, src *span) {
	if !l.direct {
		return
	}
	to, ok := addressForKernel(l.st, dst)
	from, also := addressForKernel(l.st, src)
	if l.direct = ok && also; l.direct {
		l.ranges = append(l.ranges, copyRange{to, from, dst.bytes})
	}
}

// byKernel reports whether the kernel is the fastest method.
func (l *copyList) byKernel() bool {
	t, n := &l.st.g.tuning.Copy, len(l.calls)
	return l.st.g.copyKernel.f != 0 && l.direct && n >= t.KernelCopies && l.bytes/uintptr(n) <= t.KernelCopyBytes
}

// byBatch reports whether cuMemcpyBatchAsync is the fastest method.
func (l *copyList) byBatch() bool {
	return !l.byKernel() && !l.single && len(l.calls) > 1 && l.st.g.caps.BatchCopies && l.st.capture == nil && l.st.number != 0
}

// appendTo appends the calls that make the copies: launches of the kernel, or one call per
// copy. params is memory for the parameters of launches: see appendKernelCopies.
func (l *copyList) appendTo(b *cu.Batch, params []byte) []byte {
	if l.byKernel() {
		return appendKernelCopies(b, l.st, l.ranges, params)
	}
	b.Append(l.calls...)
	return params
}

// addCopyAll adds a CopyAll to a batch.
func addCopyAll[T any](b *Batch, pairs []Pair[T]) error {
	op, err := b.add("copy all", prepareCopyAll)
	if err != nil {
		return err
	}
	op.spans.from = len(b.spans)
	for i, p := range pairs {
		dst, src := spanOf(p.Dst), spanOf(p.Src)
		err := errors.Join(dst.check(), src.check())
		if err == nil {
			err = refusePageable(dst, src)
		}
		if err != nil {
			clear(b.spans[op.spans.from:])
			b.spans, b.ops = b.spans[:op.spans.from], b.ops[:len(b.ops)-1]
			return fmt.Errorf("copy %d of %d in a batch: %w", i+1, len(pairs), err)
		}
		b.spans = append(b.spans, *dst, *src)
	}
	op.spans.to = len(b.spans)
	if unordered.Enabled {
		reportUnordered(pairs)
	}
	return nil
}

func prepareCopyAll(b *Batch, st *streamState, op *batchOp) error {
	c := copyAlls.Get().(*copyAll)
	defer c.done()
	l := &c.list
	l.begin(st)
	acquire := func(r *span, a inflight.Access) error { return b.acquireSpan(st, r, a) }
	spans := b.spans[op.spans.from:op.spans.to]
	for i := 0; i < len(spans); i += 2 {
		if err := l.addQueued(&spans[i], &spans[i+1], acquire); err != nil {
			return fmt.Errorf("copy %d of %d to %v from %v: %w", i/2+1, len(spans)/2, &spans[i], &spans[i+1], err)
		}
	}
	if len(l.calls) > 0 {
		b.kernelParams = l.appendTo(&b.calls, b.kernelParams)
	}
	return nil
}
