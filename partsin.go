package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// ReadPart is a range of a source, and the memory that [CopyParts] fills with it.
type ReadPart struct {
	// Src is read by several goroutines at the same time, as io.ReaderAt allows: a file, a section
	// of one, a bytes.Reader over a mapped file.
	Src io.ReaderAt
	// Off is the offset in Src of the first byte. The range has as many bytes as Dst.
	Off int64
	// Dst is the memory. [View] makes memory of bytes of other memory.
	Dst Memory[byte]
	// Also gets the same bytes, for example memory of other GPUs. Each has the size of Dst. The source
	// is read once. Memory of the same device, and of one with peer access ([GPU.EnablePeer]), gets
	// them from Dst, other device memory from the staging ring. Host memory is filled by a second
	// read.
	Also []Memory[byte]
}

// CopyParts fills many runs of memory from ranges of sources, in the order of the stream. Memory
// that is not on the host is filled by one transfer through the staging ring. It is for the tensors
// of a model in a few files. It returns when all bytes are read and their copies to the device are
// queued. n is the number of bytes of the parts, without Also.
//
// The parts have no order among each other. CopyParts reads each source from low to high offsets,
// in large blocks, by several goroutines for the ring, and by one goroutine for host memory. Parts may
// share bytes of a source. It may read, and drop, up to 68 KiB between two parts, and what fills a
// block of 4 KiB at both ends. Reads therefore begin at multiples of 4096 in the source and in memory,
// and files opened with O_DIRECT can be read. A section of such a file must begin at a multiple of
// 4096. The memory of two parts must not overlap: in race builds that is reported as a data race.
// Memory of Also that shares bytes with its Dst is refused.
//
// Memory may be of any kind, and of another GPU of the driver. Memory on the host is filled when
// the stream has reached the call, before other memory. All parts are checked before the first byte
// is read. If one is refused, nothing is read.
//
// An error of a part is a [*PartError], which has its index and the byte. Other parts may be copied
// then, whole or in part, and n counts the bytes that were read before it: a lower bound of those that
// are copied. If a source ends early, the error wraps
// io.ErrUnexpectedEOF. When ctx ends first, it wraps ctx.Err(). A ReadAt that hangs, panics or ends
// its goroutine, and a Close of memory in a ReadAt, are as for [CopyFrom]. A nil ctx never ends. In
// a capture the error wraps cu.ErrorStreamCaptureUnsupported. CopyParts is safe for concurrent use
// if the sources are. o may be nil.
func CopyParts(ctx context.Context, s *Stream, parts []ReadPart, o *PartsOptions) (n int64, err error) {
	c := &partsIn{parts: parts}
	if o != nil {
		c.options = *o
	}
	c.makeHashes(len(parts))
	return c.run(await.Context(ctx), s)
}

const copyPartsText = "copy parts"

// partsIn is a call of CopyParts.
type partsIn struct {
	partsCopy
	parts   []ReadPart
	memory  [viaRing + 1][]partMemory // by the way in which it is filled
	extents *staging.Extents          // of memory[viaRing]
	passes  passes                    // copies from Dst to Also
}

func (c *partsIn) span(d partMemory) *span {
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
	c.memory[viaRing] = make([]partMemory, 0, len(c.parts))
	for i := range c.parts {
		p := &c.parts[i]
		if err := c.prepareOne(partMemory{int32(i), -1}); err != nil {
			return err
		}
		for k := range p.Also {
			if err := c.prepareOne(partMemory{int32(i), int32(k)}); err != nil {
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
func (c *partsIn) prepareOne(d partMemory) error {
	p, r := &c.parts[d.part], c.span(d)
	err := p.check(r)
	if err == nil {
		err = c.acquire(r, inflight.Write)
	}
	way := viaNothing
	if err == nil {
		way, err = checkIO(c.st, r, inflight.Write)
	}
	if err == nil && d.also >= 0 && r.bytes > 0 {
		err = checkAlso(c.st, r, spanOf(p.Dst))
	}
	if err != nil {
		return c.refused(d, err)
	}
	if way == viaRing && d.also >= 0 && passable(spanOf(p.Dst), r) {
		c.passes.to = append(c.passes.to, d)
	} else if way != viaNothing {
		c.memory[way] = append(c.memory[way], d)
	}
	return nil
}

// checkAlso refuses memory of Also that shares bytes with Dst.
func checkAlso(st *streamState, also, dst *span) error {
	plan := planCopy(st, also, dst)
	if plan.comparable && also.address() == dst.address() {
		return refusal.Invalid("%v is in Also, and is the destination: leave it out", also)
	}
	return plan.checkShifted(also, dst)
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
	all := slices.Concat(c.memory[viaCPU], c.memory[viaRing], c.passes.to)
	copies := make([]unordered.Copy, len(all))
	for i, d := range all {
		to := addressesOf(c.span(d))
		copies[i] = unordered.Copy{Dst: to, Src: unordered.Range{Space: -1, Bytes: to.Bytes}} // sources are only read
	}
	unordered.Report(copies, func(i int) string { return c.text(all[i]) })
}

// text describes a part: "part 3 of 291, to 4.0 KiB of device buffer 1 (...) on cuda:0 from byte 512
// of "model.safetensors"".
func (c *partsIn) text(d partMemory) string {
	p := &c.parts[d.part]
	text := fmt.Sprintf("part %d of %d, to %v from byte %d", int(d.part)+1, len(c.parts), c.span(d), p.Off)
	if name := nameOf(p.Src); name != "" {
		text += fmt.Sprintf(" of %q", name)
	}
	return text
}

// nameOf returns the name of a source that has a method Name, as a file has. It returns "" if that
// panics, as it does for a nil *os.File.
func nameOf(src io.ReaderAt) (name string) {
	defer func() { _ = recover() }()
	if named, ok := src.(interface{ Name() string }); ok {
		name = named.Name()
	}
	return name
}

// refused returns the error of a part that is refused before the first byte is read.
func (c *partsIn) refused(d partMemory, err error) error {
	return &PartError{Part: int(d.part), Err: err, text: fmt.Sprintf("%s: %s, on %v", copyPartsText, c.text(d), c.st)}
}

// failed returns the error of a byte of a part.
func (c *partsIn) failed(at place, err error) error {
	return &PartError{Part: int(at.part), Byte: at.off, Err: err, text: fmt.Sprintf("%s: %s, on %v: byte %d", copyPartsText, c.text(at.partMemory), c.st, at.off)}
}

// locate returns the error of a byte of a transfer. For a panic of a hash it panics.
func (c *partsIn) locate(l *staging.Extents, way copyPath, off int64, err error) error {
	if p, ok := errors.AsType[*staging.Panic](err); ok {
		panic(p.Value) // of a hash
	}
	if at, ok := errors.AsType[*staging.OffsetError](err); ok {
		off, err = at.Offset, at.Err // whole: it can have more errors of the driver
	}
	of, ok := errors.AsType[*placedError](err)
	if !ok {
		of = &placedError{place{partMemory{part: -1}, 0}, err}
		if index, at, found := l.Find(off); found {
			of.place = place{c.memory[way][index], at}
		}
	}
	if of.part < 0 {
		return fmt.Errorf("%s on %v: %w", copyPartsText, c.st, err)
	}
	return c.failed(of.place, err)
}

// extentsOf returns the transfer to the memory that is filled in one way.
func (c *partsIn) extentsOf(way copyPath) *staging.Extents {
	return staging.NewExtents(len(c.memory[way]), func(i int) staging.SourceRange {
		d := c.memory[way][i]
		p := &c.parts[d.part]
		return staging.SourceRange{Src: p.Src, Off: p.Off, Bytes: int64(c.span(d).bytes)}
	})
}

// bytesOf returns how many bytes of the parts are in n bytes of a transfer, from byte off.
func (c *partsIn) bytesOf(l *staging.Extents, way copyPath, off, n int64) (bytes int64) {
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
	for _, d := range c.memory[viaCPU] {
		if err := c.span(d).waitUsed(ctx, inflight.Write); err != nil {
			return 0, c.refused(d, err)
		}
	}
	return c.fillBuffered(ctx, c.extentsOf(viaCPU), viaCPU, 0)
}

// fillDevice fills the other memory through the ring. If other transfers have all slots, it fills
// the rest through ordinary memory, by the driver.
func (c *partsIn) fillDevice(ctx context.Context) (n int64, err error) {
	if len(c.memory[viaRing]) == 0 {
		return 0, nil
	}
	st := c.st
	ring, job, err := ringIO(st)
	if err != nil {
		return 0, err
	}
	c.extents = c.extentsOf(viaRing)
	defer c.runs.end()
	defer func() {
		if failed := c.passes.end(st); failed != nil {
			err = refusal.Join(err, fmt.Errorf("%s on %v: %w", copyPartsText, st, failed))
		}
	}()
	job.Bytes, job.InOrder, job.Copy, job.Sent = c.extents.Bytes(), c.hashes != nil, c.queueSlot, c.sent
	c.op.Queued()
	at, err := ring.In(ctx, job, c.extents)
	n = c.bytesOf(c.extents, viaRing, 0, at)
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, staging.ErrBusy) {
		return n, c.locate(c.extents, viaRing, at, err)
	}
	oplog.NoSlot(uintptr(c.extents.Bytes()-at), st.g.label)
	k, err := c.fillBuffered(ctx, c.extents, viaRing, at)
	return n + k, err
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
		d := c.memory[viaRing][x.Index]
		c.runs.add(slotRun{c.span(d).cut(uintptr(x.Off), uintptr(x.Bytes)), x.At, place{d, x.Off}})
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
		return passError(err)
	}
	for also, some := 0, true; some; also++ { // pieces of one memory may be one copy
		some = false
		for x := range c.extents.Pieces(off, n) {
			d := c.memory[viaRing][x.Index]
			if all := c.passes.of(d); also < len(all) {
				from, to := c.span(d), c.span(all[also])
				c.passes.add(from.cut(uintptr(x.Off), uintptr(x.Bytes)), to.cut(uintptr(x.Off), uintptr(x.Bytes)), place{all[also], x.Off})
				some = true
			}
		}
	}
	return c.passes.queue()
}

// passable reports whether a copy on the device, or between two, is better than another copy from
// the host: both sides are on one device, or it may use peer access.
func passable(dst, also *span) bool {
	return planOf(also, dst).op == cu.OpMemcpyDtoDAsync && dst.mayReach(also)
}

// passes is the copies from ReadPart.Dst to memory of ReadPart.Also.
type passes struct {
	to     []partMemory // by part
	st     *streamState // nil before begin
	stream cu.Stream    // behind st; the end of the call joins it
	event  cu.Event
	calls  cu.Batch
	listed []place // for each call, the first byte that it writes

	from, last span // the run that is not listed yet
	first      place
}

// passError returns an error of all copies from Dst to Also of a part of the transfer, or of the call.
func passError(err error) error {
	return &placedError{place{partMemory{part: -1}, 0}, fmt.Errorf("pass bytes on to Also: %w", err)}
}

// of returns where the bytes of a memory are passed on to.
func (p *passes) of(d partMemory) []partMemory {
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
func (p *passes) add(from, to span, first place) {
	if continues(&p.from, &from) && continues(&p.last, &to) {
		p.from.bytes += from.bytes
		p.last.bytes += to.bytes
		return
	}
	p.list()
	p.from, p.last, p.first = from, to, first
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

// queue queues the copies. Its error is a [placedError].
func (p *passes) queue() error {
	p.list()
	if p.calls.Len() == 0 {
		return nil
	}
	if done, err := p.st.g.driver.Submit(p.st.g.ctx, &p.calls); err != nil {
		return &placedError{p.listed[done], fmt.Errorf("pass on by %v: %w", p.calls.Calls()[done].Op, err)}
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
	if err = refusal.Join(err, d.StreamDestroy(ctx, p.stream), d.EventDestroy(ctx, p.event)); err != nil {
		return passError(err)
	}
	return nil
}

// fillBuffered fills memory from byte at of a transfer on, through ordinary memory. n is the number of
// bytes of the parts. After an error it leaves out those of the last block, which may be copied.
func (c *partsIn) fillBuffered(ctx context.Context, l *staging.Extents, way copyPath, at int64) (n int64, err error) {
	own := address.AlignedBytes(min(l.Bytes()-at, hostPart), staging.DirectAlign)
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
		if err := readyIO(ctx, c.st, way); err != nil {
			return n, c.locate(l, way, at, err)
		}
		for x := range l.Pieces(at, int64(k)) {
			first := c.memory[way][x.Index]
			for _, d := range append([]partMemory{first}, c.passes.of(first)...) {
				to := c.span(d).cut(uintptr(x.Off), uintptr(x.Bytes))
				if err := moveIO(c.st, way, &to, block[x.At:][:x.Bytes], inflight.Write); err != nil {
					return n, c.failed(place{d, x.Off}, err)
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
func (c *partsIn) hash(block []byte, l *staging.Extents, way copyPath, at int64) error {
	if c.hashes == nil {
		return nil
	}
	for off, end := at, at+int64(len(block)); off < end; { // a range has one piece in each cell
		n := min(staging.Cell-off%staging.Cell, end-off)
		var jobs []hashJob
		for x := range l.Pieces(off, n) {
			if d := c.memory[way][x.Index]; d.also < 0 && c.hashes[d.part] != nil {
				jobs = append(jobs, hashJob{c.hashes[d.part], block[off-at+x.At:][:x.Bytes], place{d, x.Off}})
			}
		}
		if err := hashAll(jobs); err != nil {
			return err
		}
		off += n
	}
	return nil
}
