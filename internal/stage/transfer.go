package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Job is what a transfer does on the device.
type Job struct {
	Stream cu.Stream
	Device cu.DevicePtr
	Bytes  int64
	// Number is the stream's own: a driver gives handles again. The device is known to
	// be done with what flew in the stream up to Landed, by [Ring.Flights], and is not
	// asked; 0 if nothing is known.
	Number int
	Landed uint64
	// Ordered has one goroutine read or write, from the beginning to the end.
	Ordered bool
	// Done, if not nil, is called when nothing of the transfer uses the ring any
	// more. Where a reader or writer hangs and the context ends, that is after In or
	// Out has returned.
	Done func()
}

// transfer is one call of In or Out.
type transfer struct {
	r        *Ring
	ctx      context.Context
	job      Job
	src      io.ReaderAt // one of them
	dst      io.WriterAt
	mayYield bool // the rest can go by another way

	crewed  bool // others copy
	copies  bool // the leader does, too
	crowded bool // there are more goroutines than processors

	chunks []chunk
	wake   chan struct{} // for a leader who sleeps
	block  atomic.Int64  // the next to be copied
	failed atomic.Int64  // no block from this offset on is copied
	left   atomic.Int64  // chunks not accounted for, and the leader
	busy   atomic.Int64  // ns in copies
	sleeps atomic.Bool   // the leader does
	manned atomic.Bool   // one of the crew has come

	// The leader's:
	first   int       // chunk that is not finished
	next    int       // chunk that has no slot yet
	came    int       // chunk that has not come from the device yet
	foreign time.Time // since when others have been seen to have all slots
	at      int       // chunk and
	part    int64     // block that it is to copy itself
	took    bool      // it has one

	held int  // slots; Ring.mu guards it
	grew bool // waited for new ones; so does it this

	mu  sync.Mutex
	err error // at failed
}

// In copies job.Bytes of src to the device, in the order of the stream. It returns
// when src has been read and the copies are queued. n is how many bytes were: all,
// or with an error those before it.
//
// When ctx ends, what was read before is queued, and the error wraps ctx.Err(). A
// Read that hangs then is left behind, and what it brings is dropped.
func (r *Ring) In(ctx context.Context, job Job, src io.ReaderAt) (n int64, err error) {
	_, mayYield := src.(Memory)
	return r.run(&transfer{ctx: ctx, job: job, src: src, mayYield: mayYield})
}

// Out copies job.Bytes from the device to dst when the stream has come to it. It
// returns when dst has them. The rest is as for In.
func (r *Ring) Out(ctx context.Context, job Job, dst io.WriterAt) (n int64, err error) {
	_, mayYield := dst.(Memory)
	return r.run(&transfer{ctx: ctx, job: job, dst: dst, mayYield: mayYield})
}

func (r *Ring) run(t *transfer) (n int64, err error) {
	if err := r.enter(); err != nil {
		t.done()
		return 0, err
	}
	t.r = r
	t.failed.Store(math.MaxInt64)
	most, crowded := r.workers(t.way())
	workers := t.threads(most)
	t.crewed, t.crowded = workers > 1 || t.mayHang(), crowded
	t.copies = !t.crewed || t.mayYield && t.job.Bytes <= short*int64(r.set.Block)
	t.chunks = plan(t.job.Bytes, t.src != nil, r.set, t.crewed)
	t.left.Store(int64(len(t.chunks) + 1))
	begin := time.Now()
	r.landed(t)
	if t.crewed {
		t.wake = make(chan struct{}, 1)
		t.openFree()
		r.crew.Call(workers, t.help)
	}
	if !t.lead() {
		return t.abandon()
	}
	for t.left.Load() > 1 {
		runtime.Gosched() // until who was the last to copy has said so
	}
	t.account()
	if t.err != nil {
		return t.failed.Load(), t.err
	}
	if len(t.chunks) >= enough && !t.job.Ordered && !t.grew {
		r.adapt(t.way(), workers, time.Duration(t.busy.Load()), time.Since(begin))
	}
	return t.job.Bytes, nil
}

func (t *transfer) way() direction {
	if t.src != nil {
		return inward
	}
	return outward
}

// short is up to how many blocks the leader of a transfer copies, too: a part is done
// when the crew has come, and what the caller has just written is in the caches of its
// processor.
const short = 8

// mayHang says that a read or write may take for ever, and that somebody could
// end the transfer then.
func (t *transfer) mayHang() bool { return !t.mayYield && t.ctx.Done() != nil }

// abandon gives the transfer up while a goroutine hangs. What has not been queued yet
// never will be.
func (t *transfer) abandon() (int64, error) {
	n := int64(0)
	for i := range t.chunks {
		c := &t.chunks[i]
		if t.src != nil && !c.queued || t.dst != nil && c.left.Load() > 0 {
			break
		}
		n += c.n
	}
	n = min(n, t.failed.Load())
	err := fmt.Errorf("byte %d: %w", n, t.ctx.Err())
	t.fail(0, err)
	for i := range t.chunks {
		t.chunks[i].become(failed)
	}
	t.account()
	return n, err
}

// account notes that the leader, or all blocks of a chunk, are done. Whoever is the
// last ends the transfer.
func (t *transfer) account() {
	if t.left.Add(-1) == 0 {
		t.clean()
		t.r.leave()
		t.done()
	} else if t.sleeps.Load() {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

func (t *transfer) done() {
	if t.job.Done != nil {
		t.job.Done()
	}
}

// help copies blocks until there are none.
func (t *transfer) help() {
	t.manned.Store(true)
	for c, block := t.take(0); c < len(t.chunks); c, block = t.take(c) {
		t.copyBlock(&t.chunks[c], block)
	}
}

// copyNext has the leader copy the block that it has come to, if its chunk is open. It
// says whether it did, or has come to the next.
func (t *transfer) copyNext() bool {
	if !t.took {
		t.at, t.part = t.take(t.at)
		t.took = true
		return t.at < len(t.chunks)
	}
	if t.at == len(t.chunks) || t.chunks[t.at].state.Load() == closed {
		return false
	}
	t.copyBlock(&t.chunks[t.at], t.part)
	t.took = false
	return true
}

// take is the next block: its chunk, which is from or one after it, and its number there.
func (t *transfer) take(from int) (c int, block int64) {
	n := t.block.Add(1) - 1
	for c = from; c < len(t.chunks) && n >= t.chunks[c].first+t.chunks[c].blocks; {
		c++
	}
	if c < len(t.chunks) {
		block = n - t.chunks[c].first
	}
	return c, block
}

// copyBlock copies one block, or drops it if it is behind the place that has failed.
// What is before that place is always copied; and every block is accounted for, so
// that no chunk keeps a slot for which another waits.
func (t *transfer) copyBlock(c *chunk, block int64) {
	at := block * int64(t.r.set.Block)
	if err := t.ctx.Err(); err != nil {
		t.fail(c.off+at, err)
	}
	if c.off+at < t.failed.Load() && c.opens(t.crowded) {
		t.move(c, at, min(int64(t.r.set.Block), c.n-at))
	}
	if c.left.Add(-1) == 0 {
		t.account()
		if t.crowded {
			runtime.Gosched() // so that the leader comes to it
		}
	}
}

// move copies n bytes at an offset of a chunk.
func (t *transfer) move(c *chunk, at, n int64) {
	begin := time.Now()
	done, err := t.copy(c.slot.mem[at:at+n], c.off+at)
	t.busy.Add(int64(time.Since(begin)))
	if err != nil {
		t.fail(c.off+at+int64(done), err)
	}
}

// copy copies between a slot and the source or destination at an offset.
func (t *transfer) copy(p []byte, off int64) (n int, err error) {
	if t.src != nil {
		if m, ok := t.src.(Memory); ok {
			n, err = m.read(p, off, toDevice(off, t.job.Bytes))
		} else {
			n, err = t.src.ReadAt(p, off)
		}
		switch {
		case n == len(p):
			err = nil // at the end of a file io.EOF may come along
		case err == nil || errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
	} else {
		n, err = t.dst.WriteAt(p, off)
	}
	if t.r.clock != nil {
		t.r.clock.HostCopy(uintptr(n), t.threads(t.r.set.Threads), t.dst != nil)
	}
	return max(0, min(n, len(p))), err
}

// threads is how many goroutines, of most, a transfer is worth: those that have two
// blocks to copy, as to begin takes as long as one.
func (t *transfer) threads(most int) int {
	if t.job.Ordered {
		return 1
	}
	return int(max(1, min(int64(most), t.job.Bytes/int64(2*t.r.set.Block))))
}

// fail stops the transfer at an offset. The lowest counts.
func (t *transfer) fail(off int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if off < t.failed.Load() {
		t.failed.Store(off)
		t.err = fmt.Errorf("byte %d: %w", off, err)
	}
}

// send queues the copy of the first n bytes of a chunk to the device, and leaves
// it the slot.
func (t *transfer) send(c *chunk, n int64) error {
	queued, err := t.queue(c, n)
	c.queued = queued && err == nil
	switch {
	case !queued:
		t.put(c)
	default:
		t.leave(c)
	}
	return err
}

// queue has the device copy n bytes of a chunk. queued says that the slot may be in use.
func (t *transfer) queue(c *chunk, n int64) (queued bool, err error) {
	d, device := t.r.driver, t.job.Device+cu.DevicePtr(c.off)
	if t.src != nil {
		err = d.MemcpyHtoDAsync(t.r.ctx, device, c.slot.host, uintptr(n), t.job.Stream)
	} else {
		err = d.MemcpyDtoHAsync(t.r.ctx, c.slot.host, device, uintptr(n), t.job.Stream)
	}
	if err != nil {
		return false, err
	}
	if err = d.EventRecord(t.r.ctx, c.slot.event, t.job.Stream); err != nil {
		// The event does not stand for the copy: wait for the copy now.
		return false, errors.Join(err, d.StreamSynchronize(t.r.ctx, t.job.Stream))
	}
	return true, nil
}

// put gives the slot of a chunk back.
func (t *transfer) put(c *chunk) {
	if t.rid(c) {
		t.r.give(c.slot)
	}
}

// leave leaves the slot of a chunk to the device.
func (t *transfer) leave(c *chunk) {
	if t.rid(c) {
		t.r.fly(c.slot)
	}
}

// rid says, once, that the slot of a chunk is not the transfer's any more.
func (t *transfer) rid(c *chunk) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := c.over
	c.over = true
	return !over && c.slot != nil
}

// clean sees to the slots that chunks which failed still have. The device may be using
// those of which it is not known that the copy has come.
func (t *transfer) clean() {
	for i := range t.chunks {
		if c := &t.chunks[i]; c.queued && c.state.Load() != open {
			t.leave(c)
		} else {
			t.put(c)
		}
	}
}
