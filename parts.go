package ferry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// PartsOptions are options of [CopyParts] and [CopyPartsTo]. The zero value has the defaults.
type PartsOptions struct {
	// Progress, if not nil, is called with the number of bytes that are done so far: their copies
	// are queued, or the writer has them. The goroutine of the call calls it. A panic in it is a
	// panic of the call.
	Progress func(done int64)
	// Hash, if not nil, is called once for each part, before any is copied. It returns the hash of a
	// part, or nil. The call writes the bytes of the part to it, in order, as they were read from the
	// source or the device. Two parts must not share a hash, because hashes of several parts run at
	// the same time. After an error the hash has a part of the bytes. Where host memory of Also is
	// filled by a second read, only the bytes of the first read are hashed.
	Hash func(part int) hash.Hash
}

// PartError is the error of one part of a [CopyParts] or [CopyPartsTo].
type PartError struct {
	Part int   // index in the list
	Byte int64 // of the part: where it failed; 0 if the part was refused
	Err  error
	text string
}

// Error returns "no error" for a nil error.
func (e *PartError) Error() string {
	if e == nil || e.Err == nil {
		return "no error"
	}
	return e.text + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *PartError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// CopyPartsTo writes the bytes of many runs of memory to w, one after the other, in the order of
// the stream. It returns when they are written. n is the number of bytes. After an error of a hash
// the writer may have more. A row of memory that is not on the host is one transfer through the
// staging ring. Before each row of host memory the call waits for the stream. Memory may be of any
// kind. Options, errors and panics are as for [CopyParts], and those of the writer as for [CopyTo].
// CopyPartsTo is safe for concurrent use if the writer is. o may be nil.
func CopyPartsTo(ctx context.Context, s *Stream, w io.Writer, parts []Memory[byte], o *PartsOptions) (n int64, err error) {
	if w == nil {
		return 0, refusal.Invalid("%s: no writer given (nil)", copyPartsToText)
	}
	c := &partsOut{parts: parts, w: w}
	if o != nil {
		c.options = *o
	}
	c.makeHashes(len(parts))
	return c.run(await.Context(ctx), s)
}

const copyPartsToText = "copy parts to a writer"

// partsCopy is what CopyParts and CopyPartsTo have in common.
type partsCopy struct {
	st      *streamState
	op      inflight.Op
	lent    []*inflight.Tracker // a reader or writer may close the memory: see giveBack
	last    *span               // the memory that was acquired last
	options PartsOptions
	hashes  []hash.Hash // by part; nil without PartsOptions.Hash
	done    int64       // bytes, for PartsOptions.Progress
	runs    slotRuns
}

// makeHashes calls PartsOptions.Hash.
func (c *partsCopy) makeHashes(parts int) {
	if c.options.Hash == nil {
		return
	}
	c.hashes = make([]hash.Hash, parts)
	for i := range c.hashes {
		c.hashes[i] = c.options.Hash(i)
	}
}

// acquire acquires memory and lends it, once for a row of parts in one buffer.
func (c *partsCopy) acquire(r *span, a inflight.Access) error {
	if err := r.check(); err != nil || r.a == nil {
		return err
	}
	if c.last != nil && c.last.a == r.a && c.last.generation == r.generation {
		return nil
	}
	if err := r.acquire(&c.op, c.st, a); err != nil {
		return err
	}
	c.last, c.lent = r, append(c.lent, c.op.Lend())
	return nil
}

// end ends the operation, and gives back what is lent.
func (c *partsCopy) end(ctx context.Context) error {
	c.op.End()
	var all []error
	for _, t := range c.lent {
		if err := giveBack(ctx, c.st, t); err != nil {
			all = append(all, err)
		}
	}
	return refusal.Join(all...)
}

// advance reports progress.
func (c *partsCopy) advance(n int64) {
	if c.done += n; n > 0 && c.options.Progress != nil {
		c.options.Progress(c.done)
	}
}

// partMemory is one memory of a part.
type partMemory struct {
	part, also int32 // also is -1 for ReadPart.Dst, and for a part of CopyPartsTo
}

// place is a byte of one memory of a part.
type place struct {
	partMemory
	off int64
}

// placedError is an error at a byte of a part, or of no part if that is -1.
type placedError struct {
	place
	err error
}

func (e *placedError) Error() string { return e.err.Error() }
func (e *placedError) Unwrap() error { return e.err }

// hashJob is bytes of a part for its hash.
type hashJob struct {
	hash  hash.Hash
	bytes []byte
	place // of the bytes
}

// do gives the hash the bytes. Its error is a [placedError].
func (j *hashJob) do() error {
	n, err := j.hash.Write(j.bytes)
	if err == nil && n == len(j.bytes) {
		return nil
	}
	err = fmt.Errorf("the hash took %d of %d bytes: %w", n, len(j.bytes), cmp.Or(err, io.ErrShortWrite))
	return j.failed(int64(min(max(n, 0), len(j.bytes))), err)
}

// failed returns an error at a byte of the job.
func (j *hashJob) failed(n int64, err error) error {
	return &placedError{place{j.partMemory, j.off + n}, err}
}

// hashAll gives the hashes their bytes, by several goroutines. No two jobs have one hash. It returns
// the error of the first job that fails. A panic of a hash outranks it: it is a [staging.Panic].
func hashAll(jobs []hashJob) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	ended := make([]struct {
		job int
		err error
	}, min(len(jobs), runtime.GOMAXPROCS(0)))
	for w := range ended {
		x := &ended[w]
		wait.Add(1)
		go staging.Catch(func() error {
			for x.job = int(next.Add(1) - 1); x.job < len(jobs); x.job = int(next.Add(1) - 1) {
				if err := jobs[x.job].do(); err != nil {
					return err
				}
			}
			return nil
		}, func(err error) { x.err = err; wait.Done() })
	}
	wait.Wait()
	first, failed := len(jobs), error(nil)
	for _, x := range ended {
		if p, ok := errors.AsType[*staging.Panic](x.err); ok {
			return p
		}
		if x.err != nil && x.job < first {
			first, failed = x.job, x.err
		}
	}
	if errors.Is(failed, staging.ErrGoexit) { // of Catch, which knows no part
		failed = jobs[first].failed(0, failed)
	}
	return failed
}

// partsOut is a call of CopyPartsTo. Its bytes are those of all parts, one after the other.
type partsOut struct {
	partsCopy
	parts []Memory[byte]
	w     io.Writer
	ways  []copyPath // of each part
	ends  []int64    // of each part, in the bytes of the call
	from  int64      // the first byte of the transfer through the ring
}

// run makes the call.
func (c *partsOut) run(ctx context.Context, s *Stream) (n int64, err error) {
	if c.st, err = s.begin(&c.op, copyPartsToText, true); err != nil {
		return 0, err
	}
	defer func() { err = refusal.Join(err, c.end(ctx)) }() // also if the writer panics, or ends the goroutine
	if err = c.prepare(); err != nil {
		return 0, err
	}
	for i := 0; i < len(c.parts) && err == nil; { // a row of parts that go in one way
		way, k := c.ways[i], i+1
		for k < len(c.parts) && (c.ways[k] == way || c.ways[k] == viaNothing) {
			k++
		}
		n, err = c.write(ctx, way, i, k)
		i = k
	}
	return n, err
}

// prepare checks and acquires all memory.
func (c *partsOut) prepare() error {
	c.ways, c.ends = make([]copyPath, len(c.parts)), make([]int64, len(c.parts))
	end := int64(0)
	for i, m := range c.parts {
		r := spanOf(m)
		err := c.acquire(r, inflight.Read)
		if err == nil {
			c.ways[i], err = checkIO(c.st, r, inflight.Read)
		}
		if err != nil {
			return &PartError{Part: i, Err: err, text: c.text(i)}
		}
		end += int64(r.bytes)
		c.ends[i] = end
	}
	return nil
}

// text describes a part.
func (c *partsOut) text(i int) string {
	return fmt.Sprintf("%s: part %d of %d, %v, on %v", copyPartsToText, i+1, len(c.parts), spanOf(c.parts[i]), c.st)
}

// locate returns the error of a byte of the call. For a panic of a hash it panics.
func (c *partsOut) locate(at int64, err error) error {
	if p, ok := errors.AsType[*staging.Panic](err); ok {
		panic(p.Value)
	}
	i := min(c.partAt(at), len(c.parts)-1)
	off := at - c.start(i)
	if of, ok := errors.AsType[*placedError](err); ok && of.part >= 0 { // perhaps at its end, where partAt finds the next part
		i, off = int(of.part), of.off
	}
	return &PartError{Part: i, Byte: off, Err: err, text: fmt.Sprintf("%s: byte %d", c.text(i), off)}
}

// start returns where a part begins in the bytes of the call.
func (c *partsOut) start(i int) int64 {
	if i == 0 {
		return 0
	}
	return c.ends[i-1]
}

// partAt returns the part that has a byte of the call.
func (c *partsOut) partAt(at int64) int {
	return sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > at })
}

// each calls f for the pieces of n bytes of the call, from byte at, until f returns an error.
func (c *partsOut) each(at, n int64, f func(part int, off int64, r span) error) error {
	for i := c.partAt(at); i < len(c.parts) && c.start(i) < at+n; i++ {
		off, end := max(at, c.start(i)), min(at+n, c.ends[i])
		if off == end {
			continue
		}
		off -= c.start(i)
		if err := f(i, off, spanOf(c.parts[i]).cut(uintptr(off), uintptr(end-c.start(i)-off))); err != nil {
			return err
		}
	}
	return nil
}

// write writes parts i to k-1, which go in one way. n is the number of bytes of the call that are
// written then.
func (c *partsOut) write(ctx context.Context, way copyPath, i, k int) (n int64, err error) {
	from, to := c.start(i), c.ends[k-1]
	switch way {
	case viaRing:
		return c.writeDevice(ctx, from, to)
	case viaCPU:
		return c.writeHost(ctx, i, k)
	}
	return from, nil
}

// writeHost writes host memory, when the stream has reached the call.
func (c *partsOut) writeHost(ctx context.Context, i, k int) (n int64, err error) {
	from, to := c.start(i), c.ends[k-1]
	if err := c.st.Wait(ctx); err != nil {
		return from, c.locate(from, err)
	}
	for ; i < k; i++ {
		if err := spanOf(c.parts[i]).waitUsed(ctx, inflight.Read); err != nil {
			return from, c.locate(c.start(i), err)
		}
	}
	return c.writeBuffered(ctx, viaCPU, from, to)
}

// writeDevice writes other memory through the ring. If other transfers have all slots, it writes the
// rest through ordinary memory, by the driver.
func (c *partsOut) writeDevice(ctx context.Context, from, to int64) (n int64, err error) {
	ring, job, err := ringIO(c.st)
	if err != nil {
		return from, err
	}
	defer c.runs.end()
	job.Bytes, job.Ordered, job.Copy, job.Sent = to-from, true, c.queueSlot, c.sent
	c.op.Queued()
	c.from = from
	n, err = ring.Out(ctx, job, staging.Writer(c.w))
	n += from
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, staging.ErrBusy):
		return n, c.locateCopy(n, err)
	}
	oplog.NoSlot(uintptr(to-n), c.st.g.label)
	return c.writeBuffered(ctx, viaRing, n, to)
}

// locateCopy is locate for an error of the ring.
func (c *partsOut) locateCopy(at int64, err error) error {
	if located, ok := errors.AsType[*staging.OffsetError](err); ok {
		at, err = c.from+located.Offset, located.Err // whole: it can have more errors of the driver
	}
	return c.locate(at, err)
}

// queueSlot queues the copies of a part of the transfer to a slot of the ring.
func (c *partsOut) queueSlot(slot cu.HostPtr, off, n int64) error {
	c.runs.begin(c.st, inflight.Read, slot)
	at := int64(0)
	_ = c.each(c.from+off, n, func(part int, skip int64, r span) error {
		c.runs.add(slotRun{r, at, place{partMemory{int32(part), -1}, skip}})
		at += int64(r.bytes)
		return nil
	})
	return c.runs.queue()
}

// sent is called when the writer has the bytes of memory, which begin at a byte of the transfer.
func (c *partsOut) sent(off, n int64, memory []byte) error {
	if err := c.hash(memory, c.from+off); err != nil {
		return err
	}
	c.advance(n)
	return nil
}

// hash gives the bytes of the call from byte at on to the hashes of their parts.
func (c *partsOut) hash(memory []byte, at int64) error {
	if c.hashes == nil {
		return nil
	}
	var jobs []hashJob
	_ = c.each(at, int64(len(memory)), func(part int, off int64, r span) error {
		if h := c.hashes[part]; h != nil {
			jobs = append(jobs, hashJob{h, memory[:r.bytes], place{partMemory{int32(part), -1}, off}})
		}
		memory = memory[r.bytes:]
		return nil
	})
	return hashAll(jobs)
}

// writeBuffered writes bytes of the call through ordinary memory.
func (c *partsOut) writeBuffered(ctx context.Context, way copyPath, from, to int64) (n int64, err error) {
	own := make([]byte, min(to-from, hostPart))
	n, err = inBlocks(ctx, from, to, sink{c.w}, inflight.Read, true, func(at, n int64, move func([]byte) (int, error)) (int, error) {
		if err := readyIO(ctx, c.st, way); err != nil {
			return 0, err
		}
		block := own[:n]
		rest := block
		err := c.each(at, n, func(part int, off int64, r span) error {
			if err := moveIO(c.st, way, &r, rest[:r.bytes], inflight.Read); err != nil {
				return &placedError{place{partMemory{int32(part), -1}, off}, err}
			}
			rest = rest[r.bytes:]
			return nil
		})
		if err != nil {
			return 0, err
		}
		k, err := move(block)
		if failed := c.hash(block[:k], at); err == nil {
			err = failed
		}
		c.advance(int64(k))
		return k, err
	})
	if err != nil {
		err = c.locate(n, err)
	}
	return n, err
}

// slotRuns is the copies between one slot of the ring and memory. The same memory serves all slots
// of a call.
type slotRuns struct {
	st     *streamState
	access inflight.Access
	slot   cu.HostPtr
	copies *copyAll // that queues them; nil before the first slot
	last   slotRun  // not listed yet
	listed []place  // for each listed copy, its first byte
}

// slotRun is bytes of a slot that one copy moves: those of a part, and of parts that continue it
// both in the slot and in memory.
type slotRun struct {
	memory span
	at     int64 // in the slot
	first  place
}

// begin empties the list for the copies of a slot.
func (x *slotRuns) begin(st *streamState, a inflight.Access, slot cu.HostPtr) {
	if x.copies == nil {
		x.copies = copyAlls.Get().(*copyAll)
	}
	x.copies.list.begin(st)
	x.st, x.access, x.slot, x.last, x.listed = st, a, slot, slotRun{}, x.listed[:0]
}

// end gives back the list of copies.
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
	x.listed = append(x.listed, r.first)
}

// queue queues the copies. Its error is a [placedError].
func (x *slotRuns) queue() error {
	x.list()
	if refused, err := x.copies.queueSlot(); err != nil {
		return &placedError{x.listed[refused], err}
	}
	return nil
}
