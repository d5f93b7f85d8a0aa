package ferry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/internal/unordered"
	"github.com/ferrygpu/ferry/kernels"
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
// The driver gets at most 4096 copies at once. From a Batch it gets all of them. If it refuses some
// after the checks, the copies that it got before are in flight, and it gets no more. The error says
// which copies or which call it refused. If a copy through the ring fails, because the driver refuses
// it or a mapped file has been truncated, the error names the pair. Other pairs may be copied then,
// whole or in part. Slice and Close wait for what is in flight after an error, too.
//
// CopyAll is safe for concurrent use. Without pageable memory it allocates nothing. On a 2-core
// virtual machine it takes 0.1 us of its own for each pair, at 16 pairs as at a million.
func CopyAll[T any](q Queue, pairs []Pair[T]) error {
	if b, ok := q.(*Batch); ok {
		return addCopyAll(b, pairs)
	}
	c := copyAlls.Get().(*copyAll)
	defer c.done()
	pageable := slices.ContainsFunc(pairs, func(p Pair[T]) bool { return spanOf(p.Dst).isPageable() || spanOf(p.Src).isPageable() })
	return c.steps(streamOf(q), pageable, func() error {
		c.list.begin(c.st)
		c.list.reserve(len(pairs))
		c.pairs = len(pairs)
		for i, p := range pairs {
			if err := c.add(i, spanOf(p.Dst), spanOf(p.Src)); err != nil {
				return c.pairError(i, spanOf(p.Dst), spanOf(p.Src), err)
			}
		}
		if unordered.Enabled {
			reportUnordered(pairs)
		}
		return nil
	}, c.holdError, c.carryOut)
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
		copies[i] = unordered.Copy{Dst: addressesOf(dst), Src: addressesOf(src)}
	}
	unordered.Report(copies, func(i int) string {
		return fmt.Sprintf("copy %d of %d to %v from %v", i+1, len(pairs), spanOf(pairs[i].Dst), spanOf(pairs[i].Src))
	})
}

// copyAll is the memory that one CopyAll needs. It is reused, so that a call allocates
// nothing.
type copyAll struct {
	copying
	pairs    int // how many
	list     copyList
	pageable pageableCopies
	calls    cu.Batch
	params   []byte
	dst, src []cu.DevicePtr
	sizes    []uintptr
}

var copyAlls = sync.Pool{New: func() any { return new(copyAll) }}

// done ends the operation and returns c to the pool.
func (c *copyAll) done() {
	c.pageable.reset()
	c.end()
	c.st = nil
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
	return fmt.Errorf("copy %d of %d to %v from %v on %v: %w", pair+1, c.pairs, dst, src, c.st, err)
}

// holdError returns an error of the hold.
func (c *copyAll) holdError(err error) error {
	return fmt.Errorf("%d copies on %v: %w", c.pairs, c.st, err)
}

// add checks a pair, acquires it, and adds its copies. A pageable slice can be a part of a
// buffer: see copySpans.
func (c *copyAll) add(pair int, dst, src *span) error {
	if !dst.isPageable() && !src.isPageable() || dst.check() != nil || src.check() != nil || dst.n != src.n {
		return c.list.addQueued(dst, src, c.acquireSpan)
	}
	return copyRuns(c.st.g, dst, src, &c.pageable.run, func(to, from *span) error {
		var plan copyPlan
		if err := c.list.plan(&plan, to, from, c.acquireSpan); err != nil {
			return err
		}
		c.hold.add(&plan, to, from)
		switch plan.path {
		case pathCPU:
			c.pageable.cpu = append(c.pageable.cpu, pageableCopy{pair: pair, dst: *to, src: *from})
		case pathRing:
			c.pageable.staged = append(c.pageable.staged, pageableCopy{pair: pair, dst: *to, src: *from, plan: plan})
		case pathDriver:
			c.list.add(&plan, to, from)
		}
		return nil
	})
}

func (c *copyAll) acquireSpan(r *span, a inflight.Access) error {
	return r.acquire(&c.op, c.st, a)
}

// carryOut makes the copies. Those by the CPU come first, because they wait. Copies that the
// driver queues come before those through the ring.
func (c *copyAll) carryOut() error {
	if len(c.pageable.cpu)+len(c.pageable.staged) == 0 {
		return c.submit()
	}
	job := staging.Job{}
	if len(c.pageable.staged) > 0 {
		job = stagingJob(c.st, stagingRing(c.st.g))
	}
	if err := c.copyOnCPU(); err != nil {
		return err
	}
	if err := c.submit(); err != nil {
		return err
	}
	for _, in := range []bool{true, false} {
		if err := c.stage(job, in); err != nil {
			return err
		}
	}
	return nil
}

// submit queues the copies by the fastest method, in lists of at most listedCopies.
func (c *copyAll) submit() error {
	if len(c.list.copies) == 0 {
		return nil
	}
	c.op.Queued() // also if a call fails: it can have queued copies
	if c.list.byBatch() {
		return c.list.inLists(listedCopies, func(from, end int) error {
			if err := c.memcpyBatch(from, end); err != nil {
				return c.listError(from, end, err)
			}
			return nil
		})
	}
	kernel, calls := c.list.byKernel(), len(c.list.copies)
	done, err := c.submitCalls(kernel)
	if err == nil {
		return nil
	}
	op := c.list.copies[min(done, calls-1)].op
	if kernel {
		op, done, calls = cu.OpLaunchKernel, done/kernels.GatherRanges, (calls+kernels.GatherRanges-1)/kernels.GatherRanges
	}
	return fmt.Errorf("%v, call %d of %d for %d copies (%s) on %v: %w", op, done+1, calls, c.pairs, refusal.Size(c.list.bytes), c.list.st, err)
}

// listError returns an error of a list that the driver refused.
func (c *copyAll) listError(from, end int, err error) error {
	n, size := len(c.list.copies), refusal.Size(c.list.bytes)
	if end-from == n {
		return fmt.Errorf("%d copies (%s) on %v: %w", n, size, c.list.st, err)
	}
	return fmt.Errorf("copies %d to %d of %d (%s) on %v: %w", from+1, end, n, size, c.list.st, err)
}

// memcpyBatch queues copies from to end-1 of the list with cuMemcpyBatchAsync.
func (c *copyAll) memcpyBatch(from, end int) error {
	c.forgetCalls()
	for i := range c.list.copies[from:end] {
		x := &c.list.copies[from+i]
		dst, src := x.dst, x.src
		switch x.op {
		case cu.OpMemcpyHtoDAsync:
			src = address.Device(x.host)
		case cu.OpMemcpyDtoHAsync:
			dst = address.Device(x.host)
		}
		c.dst, c.src, c.sizes = append(c.dst, dst), append(c.src, src), append(c.sizes, x.bytes)
	}
	st := c.list.st
	return st.g.driver.MemcpyBatchAsync(st.g.ctx, c.dst, c.src, c.sizes, st.handle)
}

// submitCalls queues the copies by calls, in lists of at most listedCopies: by launches of the kernel,
// or by one call for each copy. After an error, done is how many copies stand before the refused call.
func (c *copyAll) submitCalls(kernel bool) (done int, err error) {
	most, each := listedCopies, 1
	if kernel {
		most, each = listedCopies/kernels.GatherRanges*kernels.GatherRanges, kernels.GatherRanges
	}
	g := c.list.st.g
	err = c.list.inLists(most, func(from, end int) error {
		c.forgetCalls()
		c.params = c.list.appendTo(&c.calls, from, end, kernel, c.params)
		calls, err := g.driver.Submit(g.ctx, &c.calls)
		done = from + calls*each
		return err
	})
	return done, err
}

// pageableCopies are the copies with a pageable side of a CopyAll.
type pageableCopies struct {
	cpu    []pageableCopy // by the CPU
	staged []pageableCopy // through the ring, or by the driver
	list   staging.List   // the parts of a transfer
	order  []int          // for each part of list, the index of its copy in staged
	pieces []int          // for each call of a chunk of the transfer, the part of list
	run    copyRun        // of copyRuns
}

// pageableCopy is a copy between two runs of memory. At least one is pageable.
type pageableCopy struct {
	pair     int
	dst, src span
	plan     copyPlan
	direct   bool // the driver makes it, without the ring
	late     bool // the driver may use the pageable side after its call: see memcpyPageable
}

// log logs that the copies in one direction wait, if there are any.
func (p *pageableCopies) log(g *GPU, in bool) {
	bytes := uintptr(0)
	for i := range p.staged {
		if p.staged[i].plan.fromHost == in {
			bytes += p.staged[i].dst.bytes
		}
	}
	if bytes > 0 {
		oplog.Bytes(slog.LevelInfo, oplog.StagedCopy, "", bytes, g.label)
	}
}

// host returns the pageable side of a staged copy.
func (x *pageableCopy) host() *span { return x.plan.host(&x.dst, &x.src) }

// device returns the other side.
func (x *pageableCopy) device() *span { return x.plan.device(&x.dst, &x.src) }

// isDirect reports whether the driver makes a copy in one direction.
func (x *pageableCopy) isDirect(in bool) bool { return x.plan.fromHost == in && x.direct }

func (p *pageableCopies) reset() {
	clear(p.cpu)
	clear(p.staged)
	p.list.Reset()
	p.cpu, p.staged, p.run = p.cpu[:0], p.staged[:0], copyRun{}
}

// copyOnCPU copies between pageable and host memory, when the stream has reached the copies.
func (c *copyAll) copyOnCPU() error {
	for i := range c.pageable.cpu {
		x := &c.pageable.cpu[i]
		if err := waitBoth(context.Background(), c.st, &x.dst, &x.src); err != nil {
			return c.pairError(x.pair, &x.dst, &x.src, err)
		}
		copy(address.Bytes(x.dst.host, x.dst.bytes), address.Bytes(x.src.host, x.src.bytes))
	}
	return nil
}

// stage makes the staged copies in one direction: those that are small or untracked by the
// driver, all others in one transfer through the ring.
func (c *copyAll) stage(job staging.Job, in bool) error {
	p := &c.pageable
	if oplog.On() {
		p.log(c.st.g, in)
	}
	p.divide(c.st.g, in)
	if err := c.stageDirect(in); err != nil {
		return err
	}
	if len(p.order) == 0 {
		return nil
	}
	c.op.Queued()
	n, err := c.transfer(job, in)
	if errors.Is(err, staging.ErrBusy) {
		oplog.NoSlot(uintptr(p.list.Bytes()-n), c.st.g.label)
		return c.copyRest(n)
	}
	if failed := (*placedError)(nil); errors.As(err, &failed) {
		x := &p.staged[p.order[failed.part]]
		return c.pairError(x.pair, &x.dst, &x.src, failed.err)
	}
	if err != nil {
		part, at := p.list.Find(n)
		x := &p.staged[p.order[min(part, len(p.order)-1)]]
		if located := (*staging.OffsetError)(nil); errors.As(err, &located) {
			err = fmt.Errorf("byte %d: %w", at, located.Err)
		}
		return c.pairError(x.pair, &x.dst, &x.src, err)
	}
	for _, i := range p.order {
		recordLarge(c.st, &p.staged[i].plan, p.staged[i].dst.bytes)
	}
	return nil
}

// divide decides which staged copies in one direction the driver makes, and lists the others
// for a transfer. Small ones come first: then one call, usually a launch of the copy
// kernel, makes all copies of a chunk.
func (p *pageableCopies) divide(g *GPU, in bool) {
	count, bytes := 0, uintptr(0)
	for i := range p.staged {
		if x := &p.staged[i]; x.plan.fromHost == in {
			count, bytes = count+1, bytes+x.dst.bytes
		}
	}
	direct := g.tuning.Directly(in, count, bytes)
	p.list.Reset()
	p.order = p.order[:0]
	for _, small := range []bool{true, false} {
		for i := range p.staged {
			x := &p.staged[i]
			if x.plan.fromHost != in || (x.dst.bytes <= g.tuning.Copy.KernelCopyBytes) != small {
				continue
			}
			if x.direct = direct || x.dst.untracked || x.src.untracked; !x.direct {
				p.order = append(p.order, i)
				p.list.Add(address.Bytes(x.host().host, x.host().bytes), x.device().dev)
			}
		}
	}
}

// stageDirect gives the driver the copies in one direction that divide left to it. They have one
// place among the active transfers of the ring, as in stageCopy, except copies to the
// device in which the driver waits for the stream. No copy of the CopyAll to the device is
// queued yet, except those of submit.
func (c *copyAll) stageDirect(in bool) error {
	st, p := c.st, &c.pageable
	count, bytes, waits := 0, uintptr(0), false
	for i := range p.staged {
		if x := &p.staged[i]; x.isDirect(in) {
			count, bytes, waits = count+1, bytes+x.dst.bytes, waits || x.dst.untracked || x.src.untracked
		}
	}
	var err error
	switch idle := len(c.list.copies) == 0 && st.Alone(); {
	case count == 0:
		return nil
	case !in:
		err = copyOutByDriver(context.Background(), st, func() error { return c.giveToDriver(in) })
	case waits || bytes > stagedByDriver && (count > 1 || !idle):
		err = c.giveToDriver(in)
	default:
		err = stagingRing(st.g).Call(context.Background(), func() error { return c.giveToDriver(in) })
	}
	for i := 0; i < len(p.staged) && err == nil; i++ {
		if x := &p.staged[i]; x.isDirect(in) {
			err = c.awaitLate(x)
		}
	}
	return err
}

// giveToDriver makes the driver calls of stageDirect.
func (c *copyAll) giveToDriver(in bool) error {
	for i := range c.pageable.staged {
		if x := &c.pageable.staged[i]; x.isDirect(in) {
			if err := c.giveFrom(x, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// giveFrom gives the bytes of a staged copy from off on to the driver.
func (c *copyAll) giveFrom(x *pageableCopy, off uintptr) error {
	st, n := c.st, x.dst.bytes-off
	dst, src := x.dst.cut(off, n), x.src.cut(off, n)
	err := copyRuns(st.g, &dst, &src, &c.pageable.run, func(to, from *span) error {
		access := inflight.Write
		if x.plan.fromHost {
			access = inflight.Read
		}
		if err := c.acquireSpan(x.plan.host(to, from), access); err != nil { // it may be registered by now
			return err
		}
		plan := planCopy(st, to, from)
		if err := plan.checkWhole(st, to, from); err != nil {
			return err
		}
		for to, from := range registrations(to, from) {
			c.op.Queued()
			late, err := c.memcpy(&plan, to, from)
			if x.late = x.late || late; err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return c.pairError(x.pair, &dst, &src, err)
	}
	return nil
}

// memcpy makes one staged copy by the driver. If the memory has been registered since, its
// tracker knows the copy, and nobody must wait for it.
func (c *copyAll) memcpy(plan *copyPlan, to, from *span) (late bool, err error) {
	if plan.host(to, from).a != nil {
		return false, plan.do(c.st, to, from)
	}
	return memcpyPageable(c.st, plan, to, from)
}

// awaitLate waits for a copy by the driver that may use pageable memory after its call.
func (c *copyAll) awaitLate(x *pageableCopy) error {
	st := c.st
	if !x.late {
		return nil
	}
	if err := st.Wait(context.Background()); err != nil {
		return c.pairError(x.pair, &x.dst, &x.src, err)
	}
	return nil
}

// copyRest gives the driver what the ring did not copy, from byte n of the transfer on. The
// driver has memory of its own for it.
func (c *copyAll) copyRest(n int64) error {
	p := &c.pageable
	for part, at := p.list.Find(n); part < len(p.order); part, at = part+1, 0 {
		x := &p.staged[p.order[part]]
		if err := c.giveFrom(x, uintptr(at)); err != nil {
			return err
		}
		if err := c.awaitLate(x); err != nil {
			return err
		}
	}
	return nil
}

// transfer copies the listed copies through the ring.
func (c *copyAll) transfer(job staging.Job, in bool) (int64, error) {
	ring, list := stagingRing(c.st.g), &c.pageable.list
	job.Bytes = list.Bytes()
	job.Copy = c.queuePieces
	if in {
		return ring.In(context.Background(), job, list)
	}
	return ring.Out(context.Background(), job, list)
}

// queuePieces queues the copies of a chunk of a transfer, between a slot of the ring and the
// device.
func (c *copyAll) queuePieces(slot cu.HostPtr, off, n int64) error {
	st, p := c.st, &c.pageable
	c.list.begin(st)
	p.pieces = p.pieces[:0]
	for x := range p.list.Pieces(off, n) {
		y := &p.staged[p.order[x.Part]]
		c.list.addPiece(address.Add(slot, uintptr(x.At)), x.Device, uintptr(len(x.Memory)), &y.plan, y.device())
		p.pieces = append(p.pieces, x.Part)
	}
	if refused, err := c.queueSlot(); err != nil {
		return &placedError{place{partMemory{int32(p.pieces[refused]), -1}, 0}, err}
	}
	return nil
}

// queueSlot queues the listed copies, which are those of one slot. Where the driver refuses the
// fastest method, it gets single calls, so that refused is the copy that it refuses.
func (c *copyAll) queueSlot() (refused int, err error) {
	switch {
	case len(c.list.copies) == 0:
		return 0, nil
	case c.list.byBatch():
		if c.list.inLists(listedCopies, c.memcpyBatch) == nil {
			return 0, nil
		}
	case c.list.byKernel():
		if _, err := c.submitCalls(true); err == nil {
			return 0, nil
		}
	}
	if refused, err = c.submitCalls(false); err != nil {
		err = fmt.Errorf("%v: %w", c.list.copies[refused].op, err)
	}
	return refused, err
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
		err := refusal.Join(dst.check(), src.check())
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
		dst, src := &spans[i], &spans[i+1]
		if err := l.addQueued(dst, src, acquire); err != nil {
			return fmt.Errorf("copy %d of %d to %v from %v: %w", i/2+1, len(spans)/2, dst, src, err)
		}
	}
	if len(l.copies) > 0 {
		b.kernelParams = l.appendTo(&b.calls, 0, len(l.copies), l.byKernel(), b.kernelParams)
	}
	return nil
}
