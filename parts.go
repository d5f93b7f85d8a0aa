package ferry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
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
	// Also gets the same bytes, for example memory of other GPUs. Each has the size of Dst.
	Also []Memory[byte]
}

// PartsOptions are options of [CopyParts] and [CopyPartsTo]. The zero value has the defaults.
type PartsOptions struct {
	// Progress, if not nil, is called with the number of bytes that are done so far: their copies
	// are queued, or the writer has them. The goroutine of the call calls it. A panic in it is a
	// panic of the call.
	Progress func(done int64)
	// Hash, if not nil, is called once for each part, before any is copied. If it returns a hash,
	// which no other part may have, that gets the bytes of the part, in order, as they were read
	// from the source or the device. Hashes of several parts run at the same time. After an error
	// the hash has a part of the bytes.
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

// CopyParts fills many runs of memory from ranges of sources, in the order of the stream, as one
// transfer through the staging ring. It is for the tensors of a model in a few files. It returns
// when all bytes are read and their copies to the device are queued. n is the number of bytes of
// the parts, without Also.
//
// The parts have no order among each other. CopyParts reads each source from low to high offsets,
// in large blocks, by several goroutines. Parts may share bytes of a source. It may read, and drop,
// up to 64 KiB between two parts, and what fills a block of 4 KiB at both ends. So that reads begin
// at multiples of 4096 in the source and in memory, and files opened with O_DIRECT can be read. The
// memory of two parts must not overlap: in race builds that is reported as a data race.
//
// Memory may be of any kind, and of another GPU of the driver. Memory on the host is filled when
// the stream has reached the call, before other memory. All parts are checked before the first byte
// is read. If one is refused, nothing is read.
//
// An error of a part is a [*PartError], which has its index and the byte. Other parts may be copied
// then, whole or in part, and n counts the bytes before it. If a source ends early, the error wraps
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

// CopyPartsTo writes the bytes of many runs of memory to w, one after the other, in the order of the
// stream. It returns when they are written. n is the number of bytes. Through the staging ring,
// they are one transfer. Memory may be of any kind. Options, errors and panics are as for
// [CopyParts], and those of the writer as for [CopyTo]. CopyPartsTo is safe for concurrent use if
// the writer is. o may be nil.
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
	last    *span               // that was acquired last
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
	n := l.memory.bytes
	if l.memory.a == r.memory.a && l.memory.generation == r.memory.generation && l.memory.address()+uint64(n) == r.memory.address() && l.at+int64(n) == r.at {
		l.memory.bytes += r.memory.bytes
		return
	}
	x.list()
	*l = r
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

// hashJob is bytes for a hash.
type hashJob struct {
	hash  hash.Hash
	bytes []byte
}

// hashAll gives the hashes their bytes, by several goroutines. No two jobs have one hash. A panic of
// a hash is a [staging.Panic].
func hashAll(jobs []hashJob) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	workers := min(len(jobs), runtime.GOMAXPROCS(0))
	ended := make([]error, workers)
	for w := range workers {
		wait.Add(1)
		go staging.Catch(func() error {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				if n, err := jobs[i].hash.Write(jobs[i].bytes); err != nil || n != len(jobs[i].bytes) {
					return fmt.Errorf("the hash took %d of %d bytes: %w", n, len(jobs[i].bytes), cmp.Or(err, io.ErrShortWrite))
				}
			}
			return nil
		}, func(err error) { ended[w] = err; wait.Done() })
	}
	wait.Wait()
	return errors.Join(ended...)
}

// alignedBytes returns n bytes of ordinary memory that O_DIRECT can read to.
func alignedBytes(n int64) []byte {
	all := make([]byte, n+staging.DirectAlign)
	skip := -int64(address.Device(address.Of(all))) & (staging.DirectAlign - 1)
	return all[skip:][:n]
}
