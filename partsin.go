package ferry

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// partsIn is a call of CopyParts.
type partsIn struct {
	partsCopy
	parts   []ReadPart
	memory  [2][]destination // that the CPU fills, and that goes through the ring
	extents *staging.Extents // of memory[viaRing]
	passes  passes           // copies from Dst to Also
}

// How a part is copied. The first two are indexes of partsIn.memory.
const (
	viaCPU = iota
	viaRing
	viaNothing // it has no bytes
)

// destination is one memory of a part.
type destination struct {
	part, also int32 // also is -1 for ReadPart.Dst
}

func (c *partsIn) span(d destination) *span {
	if d.also < 0 {
		return spanOf(c.parts[d.part].Dst)
	}
	return spanOf(c.parts[d.part].Also[d.also])
}

// run makes the call.
func (c *partsIn) run(ctx context.Context, s *Stream) (n int64, err error) {
	if c.st, err = s.begin(&c.op, copyPartsText, true); err != nil {
		return 0, err
	}
	defer func() { err = refusal.Join(err, c.end(ctx)) }() // also if a source panics, or ends the goroutine
	if err = c.prepare(); err != nil {
		return 0, err
	}
	if n, err = c.fillHost(ctx); err != nil {
		return n, err
	}
	k, err := c.fillDevice(ctx)
	return n + k, err
}

// prepare checks and acquires all memory.
func (c *partsIn) prepare() error {
	c.memory[viaRing] = make([]destination, 0, len(c.parts))
	for i := range c.parts {
		p := &c.parts[i]
		if err := c.prepareOne(destination{int32(i), -1}); err != nil {
			return err
		}
		for k := range p.Also {
			if err := c.prepareOne(destination{int32(i), int32(k)}); err != nil {
				return err
			}
		}
	}
	if unordered.Enabled {
		c.reportUnordered()
	}
	return nil
}

// prepareOne checks and acquires one memory, and lists it by the way in which it is filled.
func (c *partsIn) prepareOne(d destination) error {
	p, r := &c.parts[d.part], c.span(d)
	err := p.check(r)
	if err == nil {
		err = c.acquire(r, inflight.Write)
	}
	if err == nil {
		err = checkIO(c.st, r, inflight.Write)
	}
	if err != nil {
		return c.refused(d, err)
	}
	plan := planIO(c.st, r, inflight.Write)
	if r.a != nil && r.a.g != c.st.g {
		if err := plan.reaches(c.st, r); err != nil {
			return c.refused(d, err)
		}
	}
	ring := func() error {
		if d.also >= 0 && passable(spanOf(p.Dst), r) {
			c.passes.to = append(c.passes.to, d)
		} else {
			c.memory[viaRing] = append(c.memory[viaRing], d)
		}
		return nil
	}
	return plan.carryOut(func() error { c.memory[viaCPU] = append(c.memory[viaCPU], d); return nil }, ring, ring)
}

// check returns an error for a part that makes no sense with one of its memories.
func (p *ReadPart) check(r *span) error {
	switch bytes := int64(r.size()); {
	case p.Src == nil:
		return refusal.Invalid("no source given (nil)")
	case p.Off < 0:
		return refusal.Invalid("the offset in the source is %d: it must be 0 or more", p.Off)
	case p.Off > staging.MaxOffset-bytes:
		return refusal.Invalid("the offset in the source is %d: with %s the end is beyond %d, the largest offset", p.Off, refusal.Size(uintptr(bytes)), int64(staging.MaxOffset))
	case r.check() == nil && spanOf(p.Dst).check() == nil && r.size() != spanOf(p.Dst).size():
		return refusal.Invalid("%v in Also has %d bytes, and the destination, %v, has %d: use ranges of one size", r, bytes, spanOf(p.Dst), spanOf(p.Dst).size())
	}
	return nil
}

// reportUnordered reports memory that two parts write to the race detector.
func (c *partsIn) reportUnordered() {
	all := append(append([]destination(nil), c.memory[viaCPU]...), c.memory[viaRing]...)
	copies := make([]unordered.Copy, len(all))
	for i, d := range all {
		to := addressesOf(c.span(d))
		copies[i] = unordered.Copy{Dst: to, Src: unordered.Range{Space: -1, Bytes: to.Bytes}} // sources are only read
	}
	unordered.Report(copies, func(i int) string { return c.text(all[i]) })
}

// text describes a part: "part 3 of 291, to 4.0 KiB of device buffer 1 (...) on cuda:0 from byte 512
// of "model.safetensors"".
func (c *partsIn) text(d destination) string {
	p := &c.parts[d.part]
	text := fmt.Sprintf("part %d of %d, to %v from byte %d", int(d.part)+1, len(c.parts), c.span(d), p.Off)
	if named, ok := p.Src.(interface{ Name() string }); ok {
		text += fmt.Sprintf(" of %q", named.Name())
	}
	return text
}

// refused returns the error of a part that is refused before the first byte is read.
func (c *partsIn) refused(d destination, err error) error {
	return &PartError{Part: int(d.part), Err: err, text: fmt.Sprintf("%s: %s, on %v", copyPartsText, c.text(d), c.st)}
}

// failed returns the error of a byte of a part.
func (c *partsIn) failed(d destination, off int64, err error) error {
	return &PartError{Part: int(d.part), Byte: off, Err: err, text: fmt.Sprintf("%s: %s, on %v: byte %d", copyPartsText, c.text(d), c.st, off)}
}

// locate returns the error of a byte of a transfer. For a panic of a hash it panics.
func (c *partsIn) locate(l *staging.Extents, way int, off int64, err error) error {
	if p, ok := errors.AsType[*staging.Panic](err); ok {
		panic(p.Value) // of a hash
	}
	if at, ok := errors.AsType[*staging.OffsetError](err); ok {
		off, err = at.Offset, at.Err
	}
	index, at, found := l.Find(off)
	if !found {
		return fmt.Errorf("%s on %v: %w", copyPartsText, c.st, err)
	}
	return c.failed(c.memory[way][index], at, err)
}

// extentsOf returns the transfer to the memory that is filled in one way.
func (c *partsIn) extentsOf(way int) *staging.Extents {
	return staging.NewExtents(len(c.memory[way]), func(i int) staging.SourceRange {
		d := c.memory[way][i]
		p := &c.parts[d.part]
		return staging.SourceRange{Src: p.Src, Off: p.Off, Bytes: int64(c.span(d).bytes)}
	})
}

// bytesOf returns how many bytes of the parts are in n bytes of a transfer, from byte off.
func (c *partsIn) bytesOf(l *staging.Extents, way int, off, n int64) (bytes int64) {
	for x := range l.Pieces(off, n) {
		if c.memory[way][x.Index].also < 0 {
			bytes += x.Bytes
		}
	}
	return bytes
}

// fillHost fills host memory, when the stream has reached the call.
func (c *partsIn) fillHost(ctx context.Context) (n int64, err error) {
	if len(c.memory[viaCPU]) == 0 {
		return 0, nil
	}
	if err := c.st.Wait(ctx); err != nil {
		return 0, fmt.Errorf("%s on %v: %w", copyPartsText, c.st, err)
	}
	last := (*allocation)(nil)
	for _, d := range c.memory[viaCPU] {
		r := c.span(d)
		if r.a != nil && r.a == last {
			continue
		}
		last = r.a
		if err := r.waitUsed(ctx, inflight.Write); err != nil {
			return 0, c.refused(d, err)
		}
	}
	return c.fillBuffered(ctx, c.extentsOf(viaCPU), viaCPU, 0, func(r *span, part []byte) error {
		copy(address.Bytes(r.host, r.bytes), part)
		return nil
	})
}

// fillDevice fills the other memory through the ring. If other transfers have all slots, it fills
// the rest through ordinary memory, by the driver.
func (c *partsIn) fillDevice(ctx context.Context) (n int64, err error) {
	if len(c.memory[viaRing]) == 0 {
		return 0, nil
	}
	st := c.st
	if err := st.g.enter("copy"); err != nil { // the GPU stays open while a ReadAt that hangs uses the ring
		return 0, err
	}
	c.extents = c.extentsOf(viaRing)
	defer c.runs.end()
	defer func() { err = refusal.Join(err, c.passes.end(st)) }()
	job := staging.Job{Stream: st.handle, StreamID: st.number, Bytes: c.extents.Bytes(), Yields: true, InOrder: c.hashes != nil,
		Copy: c.queueSlot, Sent: c.sent, Done: st.g.leave}
	c.op.Queued()
	at, err := stagingRing(st.g).In(ctx, job, c.extents)
	n = c.bytesOf(c.extents, viaRing, 0, at)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, staging.ErrBusy) {
		return n, c.locateCopy(at, err)
	}
	k, err := c.fillBuffered(ctx, c.extents, viaRing, at, func(r *span, part []byte) error {
		if err := waitToCopy(ctx, st); err != nil {
			return err
		}
		plan, host := planIO(st, r, inflight.Write), Pageable(part).span
		_, err := memcpyPageable(st, &plan, r, &host)
		return err
	})
	return n + k, err
}

// locateCopy is locate for an error of the ring.
func (c *partsIn) locateCopy(at int64, err error) error {
	if failed, ok := errors.AsType[*pieceError](err); ok {
		return c.failed(c.memory[viaRing][failed.part], failed.off, failed.err)
	}
	return c.locate(c.extents, viaRing, at, err)
}

// sent reports progress of the transfer through the ring.
func (c *partsIn) sent(off, n int64, _ []byte) error {
	if c.options.Progress != nil {
		c.advance(c.bytesOf(c.extents, viaRing, off, n))
	}
	return nil
}

// queueSlot queues the copies of a part of the transfer, between a slot of the ring and its
// destinations.
func (c *partsIn) queueSlot(slot cu.HostPtr, off, n int64) error {
	if err := c.hash(address.Bytes(slot, uintptr(n)), c.extents, viaRing, off); err != nil {
		return err
	}
	c.runs.begin(c.st, inflight.Write, slot)
	for x := range c.extents.Pieces(off, n) {
		to := c.span(c.memory[viaRing][x.Index]).cut(uintptr(x.Off), uintptr(x.Bytes))
		c.runs.add(slotRun{to, x.At, x.Index, x.Off})
	}
	if err := c.runs.queue(); err != nil || len(c.passes.to) == 0 {
		return err
	}
	return c.passOn(off, n)
}

// passOn queues the copies from Dst to Also of a part of the transfer, behind those to Dst. They go in
// a stream of their own, so that the next part of the transfer does not wait for them.
func (c *partsIn) passOn(off, n int64) error {
	if err := c.passes.begin(c.st); err != nil {
		return err
	}
	for also, some := 0, true; some; also++ { // pieces of one memory may be one copy
		some = false
		for x := range c.extents.Pieces(off, n) {
			d := c.memory[viaRing][x.Index]
			if all := c.passes.of(d); also < len(all) {
				from, to := c.span(d), c.span(all[also])
				c.passes.add(from.cut(uintptr(x.Off), uintptr(x.Bytes)), to.cut(uintptr(x.Off), uintptr(x.Bytes)), x)
				some = true
			}
		}
	}
	return c.passes.queue()
}

// passable reports whether a copy on the device, or between two, is better than another copy from
// the host: both sides are on one device, or it may use peer access.
func passable(dst, also *span) bool {
	if dst.check() != nil || !planOf(also, dst).onDevices() {
		return false
	}
	a, b := dst.a.g, also.a.g
	return a.device == b.device || a.shared.mayUse(a, b) || a.shared.mayUse(b, a)
}

// passes is the copies from ReadPart.Dst to memory of ReadPart.Also.
type passes struct {
	to     []destination // by part
	st     *streamState  // nil before begin
	stream cu.Stream     // behind st; the end of the call joins it
	event  cu.Event
	calls  cu.Batch
	listed []staging.SourcePiece // for each call, the first piece that it copies

	from, last span // the run that is not listed yet
	first      staging.SourcePiece
}

// of returns where the bytes of a memory are passed on to.
func (p *passes) of(d destination) []destination {
	if d.also >= 0 || len(p.to) == 0 {
		return nil
	}
	at := func(part int32) int {
		return sort.Search(len(p.to), func(i int) bool { return p.to[i].part >= part })
	}
	return p.to[at(d.part):at(d.part+1)]
}

// begin lets the stream wait for what is queued in that of the call. The first call makes it.
func (p *passes) begin(st *streamState) (err error) {
	d, ctx := st.g.driver, st.g.ctx
	if p.st == nil {
		if p.event, err = d.EventCreate(ctx, cu.EventDisableTiming); err != nil {
			return err
		}
		if p.stream, err = d.StreamCreate(ctx, cu.StreamNonBlocking); err != nil {
			return refusal.Join(err, d.EventDestroy(ctx, p.event))
		}
		p.st = st
	}
	p.calls.Reset()
	p.listed, p.from, p.last = p.listed[:0], span{}, span{}
	if err = d.EventRecord(ctx, p.event, st.handle); err == nil {
		err = d.StreamWaitEvent(ctx, p.stream, p.event, 0)
	}
	return err
}

// add adds a copy. One that continues the last one is a part of it.
func (p *passes) add(from, to span, x staging.SourcePiece) {
	if continues(&p.from, &from) && continues(&p.last, &to) {
		p.from.bytes += from.bytes
		p.last.bytes += to.bytes
		return
	}
	p.list()
	p.from, p.last, p.first = from, to, x
}

// list lists the copy of the last run.
func (p *passes) list() {
	if p.last.bytes == 0 {
		return
	}
	plan := planCopy(p.st, &p.last, &p.from)
	call := plan.call(p.st, &p.last, &p.from)
	call.Stream = p.stream
	p.calls.Append(call)
	p.listed = append(p.listed, p.first)
}

// queue queues the copies. Its error is a [pieceError].
func (p *passes) queue() error {
	p.list()
	if p.calls.Len() == 0 {
		return nil
	}
	if done, err := p.st.g.driver.Submit(p.st.g.ctx, &p.calls); err != nil {
		return &pieceError{part: p.listed[done].Index, off: p.listed[done].Off, err: fmt.Errorf("pass on by %v: %w", p.calls.Calls()[done].Op, err)}
	}
	return nil
}

// end lets the stream of the call wait for the copies. If the driver refuses that, end waits for them
// itself, because the trackers of the memory know only the stream of the call.
func (p *passes) end(st *streamState) error {
	if p.st == nil {
		return nil
	}
	d, ctx := st.g.driver, st.g.ctx
	err := d.EventRecord(ctx, p.event, p.stream)
	if err == nil {
		err = d.StreamWaitEvent(ctx, st.handle, p.event, 0)
	}
	if err != nil {
		err = refusal.Join(err, d.StreamSynchronize(ctx, p.stream))
	}
	return refusal.Join(err, d.StreamDestroy(ctx, p.stream), d.EventDestroy(ctx, p.event))
}

// fillBuffered fills memory from byte at of a transfer on, through ordinary memory. fill copies bytes
// of it to a part of memory. n is the number of bytes of the parts.
func (c *partsIn) fillBuffered(ctx context.Context, l *staging.Extents, way int, at int64, fill func(to *span, from []byte) error) (n int64, err error) {
	own := alignedBytes(min(l.Bytes()-at, hostPart))
	for at < l.Bytes() {
		if err := ctx.Err(); err != nil {
			return n, c.locate(l, way, at, err)
		}
		block := own[:min(int64(len(own)), l.Bytes()-at)]
		k, readErr := readBlock(ctx, l, block, at)
		block = block[:k]
		if err := c.hash(block, l, way, at); err != nil {
			return n, c.locate(l, way, at, err)
		}
		for x := range l.Pieces(at, int64(k)) {
			d := c.memory[way][x.Index]
			to := c.span(d).cut(uintptr(x.Off), uintptr(x.Bytes))
			if err := fill(&to, block[x.At:][:x.Bytes]); err != nil {
				return n, c.failed(d, x.Off, err)
			}
			for _, d := range c.passes.of(d) {
				to := c.span(d).cut(uintptr(x.Off), uintptr(x.Bytes))
				if err := fill(&to, block[x.At:][:x.Bytes]); err != nil {
					return n, c.failed(d, x.Off, err)
				}
			}
		}
		done := c.bytesOf(l, way, at, int64(k))
		c.advance(done)
		if n, at = n+done, at+int64(k); readErr != nil {
			return n, c.locate(l, way, at, readErr)
		}
	}
	return n, nil
}

// readBlock reads a part of a transfer. If ctx ends while a ReadAt hangs, p must not be used again.
func readBlock(ctx context.Context, l *staging.Extents, p []byte, at int64) (n int, err error) {
	if ctx.Done() == nil {
		return l.ReadAt(p, at)
	}
	read := 0
	abandoned, err := staging.Call(ctx, func() (err error) { read, err = l.ReadAt(p, at); return err })
	if abandoned != nil {
		return 0, err
	}
	if p, ok := err.(*staging.Panic); ok { //nolint:errorlint // Call does not wrap it
		panic(p.Value)
	}
	return read, err
}

// hash gives the bytes of a part of a transfer to the hashes of their parts.
func (c *partsIn) hash(block []byte, l *staging.Extents, way int, at int64) error {
	if c.hashes == nil {
		return nil
	}
	for off, end := at, at+int64(len(block)); off < end; { // a range has one piece in each cell
		n := min(staging.Cell-off%staging.Cell, end-off)
		var jobs []hashJob
		for x := range l.Pieces(off, n) {
			if d := c.memory[way][x.Index]; d.also < 0 && c.hashes[d.part] != nil {
				jobs = append(jobs, hashJob{c.hashes[d.part], block[off-at+x.At:][:x.Bytes]})
			}
		}
		if err := hashAll(jobs); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// slotRuns is the copies between one slot of the ring and memory. The same memory serves all slots
// of a call.
type slotRuns struct {
	st     *streamState
	access inflight.Access
	slot   cu.HostPtr
	copies *copyAll  // that queues them; nil before the first slot
	last   slotRun   // not listed yet
	listed []slotRun // for each listed copy, what it copies
}

// slotRun is bytes of a slot that one copy moves: those of a part, and of parts that continue it
// both in the slot and in memory.
type slotRun struct {
	memory span
	at     int64 // in the slot
	index  int   // of the first part
	off    int64 // in that part
}

// begin begins the copies of a slot.
func (x *slotRuns) begin(st *streamState, a inflight.Access, slot cu.HostPtr) {
	if x.copies == nil {
		x.copies = copyAlls.Get().(*copyAll)
	}
	x.copies.list.begin(st)
	x.st, x.access, x.slot, x.last, x.listed = st, a, slot, slotRun{}, x.listed[:0]
}

// end gives back what begin took.
func (x *slotRuns) end() {
	if x.copies != nil {
		x.copies.done()
		x.copies = nil
	}
}

// add adds bytes, which stand behind those that were added before or share bytes with them.
func (x *slotRuns) add(r slotRun) {
	l := &x.last
	if continues(&l.memory, &r.memory) && l.at+int64(l.memory.bytes) == r.at {
		l.memory.bytes += r.memory.bytes
		return
	}
	x.list()
	*l = r
}

// continues reports whether b is the memory of a buffer behind a.
func continues(a, b *span) bool {
	return a.a == b.a && a.generation == b.generation && a.address()+uint64(a.bytes) == b.address()
}

// list lists the copy of the last run.
func (x *slotRuns) list() {
	r := &x.last
	if r.memory.bytes == 0 {
		return
	}
	plan := planIO(x.st, &r.memory, x.access)
	x.copies.list.addPiece(address.Add(x.slot, uintptr(r.at)), r.memory.dev, r.memory.bytes, &plan, &r.memory)
	x.listed = append(x.listed, *r)
}

// queue queues the copies. Its error is a [pieceError].
func (x *slotRuns) queue() error {
	x.list()
	if refused, err := x.copies.queueSlot(); err != nil {
		return &pieceError{part: x.listed[refused].index, off: x.listed[refused].off, err: err}
	}
	return nil
}
