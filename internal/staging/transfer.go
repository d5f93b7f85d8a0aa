package staging

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
	"github.com/ferrygpu/ferry/internal/workers"
)

// Job is what a transfer does on the device.
type Job struct {
	Stream cu.Stream
	Device cu.DevicePtr
	Bytes  int64
	// StreamID identifies the stream. Its handle does not, because a driver reuses handles.
	StreamID int
	// Completed is a value of [Ring.Submitted]. The device is known to be done with all
	// slots that were submitted in this stream until then, and the ring does not ask the
	// driver about them. 0 means that nothing is known.
	Completed uint64
	// Copy, if not nil, queues the copies between n bytes of the ring and the device, where
	// Device is not one range. off is the offset of these bytes in the transfer. After an
	// error some copies may be queued. The goroutine that called In or Out calls Copy.
	Copy func(ring cu.HostPtr, off, n int64) error
	// Yields lets a transfer of a reader or writer return ErrBusy, as one of memory does, because
	// the caller can copy the rest in another way. Readers and writers that wait for this
	// transfer can have all slots, for ever.
	Yields bool
	// Ordered has one goroutine read or write, from the beginning to the end.
	Ordered bool
	// InOrder has Copy called for one part of the transfer after the other, without a gap, though
	// several goroutines read.
	InOrder bool
	// Sent, if not nil, is called when n bytes from off on are done: their copies to the device are
	// queued, or the destination has them. Then memory has the bytes, else it is nil. Sent may call
	// code of the program: the goroutine that called In or Out calls it, and panics as it does.
	Sent func(off, n int64, memory []byte) error
	// Done, if not nil, is called when the transfer does not use the ring any more. If the
	// context ends while a reader or writer hangs, Done is called after In or Out returns.
	Done func()
}

// transfer is one call of In or Out. Its coordinator and its workers share it. Later calls use it again,
// so that they allocate nothing: see Ring.enter and done.
//
// The fields up to chunks do not change after workers have started. The comment of chunk
// says which goroutine owns its fields. Ring.mu guards held and joined. Only the coordinator writes
// allocated. mu guards err. The coordinator also reads err without it, when all chunks are
// accounted for.
type transfer struct {
	*kept
	users atomic.Int64 // the coordinator, and the workers, with those that have not started yet

	r        *Ring
	ctx      context.Context
	job      Job
	src      io.ReaderAt // one of src and dst is not nil
	dst      io.WriterAt
	memory   Memory    // to which src or dst points; nil for other sources and destinations
	mayYield bool      // the caller can copy the rest in another way
	class    slotClass // of its slots
	turn     *turn     // in the gate of the ring; nil if the transfer needs no place

	shared            bool // workers copy
	coordinatorCopies bool // the coordinator copies, too, from begin to end
	oversubscribed    bool // there are more goroutines than processors
	chunks            []chunk

	// nextBlock is the first block that no goroutine has claimed, counted over all chunks.
	// It is a counter and not a workers.Queue, because the coordinator also claims blocks,
	// of its own transfer only. The coordinator opens a chunk after a block of it is claimed.
	nextBlock     atomic.Int64
	working       atomic.Int64 // workers, with those that have not started yet
	failedAt      atomic.Int64 // no block from this offset on is copied
	unaccounted   atomic.Int64 // chunks with blocks that are not accounted for, and the coordinator
	copyTime      atomic.Int64 // ns that all workers have copied
	sleeping      atomic.Bool  // the coordinator sleeps
	workerStarted atomic.Bool
	panicked      atomic.Pointer[Panic] // the first panic of src or dst; it outranks err

	held      int  // slots that the transfer has
	joined    bool // Ring.join has counted it
	allocated bool // it waited for a new slot
	must      bool // it cannot go on without the slot that it allocates: there is no other, and nobody else can copy its data

	waiting atomic.Int32 // goroutines that wait for kept.opened
	mu      sync.Mutex
	err     error // the one at failedAt
}

// kept is what a transfer keeps for later calls.
type kept struct {
	worker workers.Job   // calls transfer.work
	wake   chan struct{} // capacity 1; wakes the coordinator
	timer  *time.Timer   // of the coordinator
	opened sync.Cond     // a chunk has opened or failed; its lock is transfer.mu
	space  []chunk       // empty
}

// newTransfer makes a transfer that no call has used.
func newTransfer() *transfer {
	t := &transfer{kept: &kept{wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}}
	t.worker.Work, t.opened.L = t.work, &t.mu
	return t
}

// begin lets a call use the transfer. The only user is the coordinator.
func (t *transfer) begin(ctx context.Context, r *Ring, job Job) {
	t.users.Store(1)
	t.ctx, t.r, t.job = ctx, r, job
	t.failedAt.Store(math.MaxInt64)
}

// done ends the use of the transfer by the coordinator or a worker. After the last, nobody refers to it
// but slots in flight, from which Ring.leave has removed it, and another call can use it.
func (t *transfer) done() {
	if t.users.Add(-1) > 0 {
		return
	}
	select {
	case <-t.wake:
	default:
	}
	if t.chunks != nil {
		clear(t.chunks)
		t.space = t.chunks[:0]
	}
	r := t.r
	*t = transfer{kept: t.kept}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unused = append(r.unused, t)
}

// start starts workers.
func (t *transfer) start(workers int) {
	t.users.Add(int64(workers))
	t.r.workers.Start(workers, &t.worker)
}

// prepare sets what the settings and the other transfers of the ring decide. It returns
// the number of workers.
func (t *transfer) prepare() (workers int) {
	set := &t.r.set
	most, oversubscribed := t.r.share(t.direction())
	small, crowded := int64(t.r.classes[smallSlots].bytes), false
	if t.turn != nil {
		if t.job.Bytes <= small && t.r.gate.waiting.Load() > 0 {
			most = 1 // to copy several transfers at once costs less than to share one
		}
		crowded = most == 1 && t.r.gate.holding.Load() > 1
	}
	workers = t.workerCount(most)
	t.shared, t.oversubscribed = workers > 1 || t.mayHang(), oversubscribed
	t.coordinatorCopies = !t.shared || t.mayYield && t.job.Bytes <= int64(set.CoordinatorBlocks*set.Block)
	chunk := set.chunk(t.job.Bytes, t.r.clock == nil && 2*workers < set.Workers)
	if t.turn != nil && !t.shared {
		t.class, chunk = smallSlots, int(small)
	}
	if t.class == smallSlots && crowded {
		t.chunks = planCrowded(t.space, t.job.Bytes, small, int64(set.Block))
	} else {
		t.chunks = plan(t.space, t.job.Bytes, t.src != nil, chunk, set.Block)
	}
	t.r.join(t)
	t.unaccounted.Store(int64(len(t.chunks) + 1))
	return workers
}

func (t *transfer) direction() direction {
	if t.src != nil {
		return toDevice
	}
	return fromDevice
}

// workerCount returns how many workers, of most, the transfer is worth.
func (t *transfer) workerCount(most int) int {
	if t.job.Ordered {
		return 1
	}
	return int(max(1, min(int64(most), t.job.Bytes/int64(t.r.set.MinBlocks*t.r.set.Block))))
}

// mayHang reports whether a read or write may take for ever and the context may end the
// transfer then.
func (t *transfer) mayHang() bool { return !t.mayYield && t.ctx.Done() != nil }

// canAwait reports whether a slot becomes free before the work of t in its stream is done.
// Ring.mu is held.
func (t *transfer) canAwait(s *slot) bool {
	return s.state == slotInFlight && s.stream == t.job.Stream
}

// work copies blocks until there are none. Each worker calls it. If a reader or writer ends
// the goroutine of a worker, another goroutine drops the blocks that are left.
func (t *transfer) work() {
	t.workerStarted.Store(true)
	ended := false
	defer func() {
		if !ended {
			go t.work()
		}
	}()
	for c, block := t.claim(0); c < len(t.chunks); c, block = t.claim(c) {
		t.copyBlock(&t.chunks[c], block)
		if t.surplus() {
			break
		}
	}
	ended = true
	t.done()
}

// surplus reports whether a worker must end, because other transfers have begun. It takes
// the worker off the count.
func (t *transfer) surplus() bool {
	if t.turn == nil {
		return false
	}
	n := t.working.Load()
	return n > t.r.fair[t.direction()].Load() && t.working.CompareAndSwap(n, n-1)
}

// claim claims the next block. It returns its chunk, which is from or a later one, and
// the number of the block in that chunk.
func (t *transfer) claim(from int) (c int, block int64) {
	n := t.nextBlock.Add(1) - 1
	for c = from; c < len(t.chunks) && n >= t.chunks[c].first+t.chunks[c].blocks; {
		c++
	}
	if c < len(t.chunks) {
		block = n - t.chunks[c].first
	}
	return c, block
}

// claimed reports whether a block of chunk i has been claimed.
func (t *transfer) claimed(i int) bool {
	return i < len(t.chunks) && t.chunks[i].first < t.nextBlock.Load()
}

// copyBlock copies one block, or drops it if it begins at or after failedAt. Blocks before
// failedAt are always copied. copyBlock counts dropped blocks like copied ones. Otherwise a
// chunk would keep its slot, while another chunk waits for one. It also counts a block whose
// reader or writer ended the goroutine.
func (t *transfer) copyBlock(c *chunk, block int64) {
	defer t.countBlock(c)
	at := block * int64(t.r.set.Block)
	if err := t.ctx.Err(); err != nil {
		t.fail(c.off+at, err)
	}
	if c.off+at < t.failedAt.Load() && t.awaitOpen(c) {
		t.copyPart(c, at, min(int64(t.r.set.Block), c.n-at))
	}
}

// countBlock records that a block of a chunk is copied or dropped.
func (t *transfer) countBlock(c *chunk) {
	if c.left.Add(-1) == 0 {
		t.account()
		if t.oversubscribed {
			runtime.Gosched() // lets the coordinator run
		}
	}
}

// awaitOpen waits until a chunk is open or has failed, and reports whether it is open. It
// polls before it sleeps, because waking a goroutine takes a quarter of the time of a chunk.
func (t *transfer) awaitOpen(c *chunk) bool {
	var begin time.Time
	for i := 0; ; i++ {
		if s := c.state.Load(); s != chunkClosed {
			return s == chunkOpen
		}
		switch {
		case i == 0:
			begin = time.Now()
		case t.turn != nil && t.turn.state.Load() != turnHeld:
			t.sleepUntilOpen(c)
		case i&(t.r.set.SpinsPerYield-1) == 0 && time.Since(begin) > t.r.set.SpinTime:
			t.sleepUntilOpen(c)
		default:
			t.spin(i)
		}
	}
}

// sleepUntilOpen waits until a chunk is open or has failed.
func (t *transfer) sleepUntilOpen(c *chunk) {
	t.waiting.Add(1) // first: become either sees it, or has changed the state before
	t.mu.Lock()
	for c.state.Load() == chunkClosed {
		t.opened.Wait()
	}
	t.mu.Unlock()
	t.waiting.Add(-1)
}

// become opens a chunk or lets it fail. It does nothing to a chunk that is not closed.
func (t *transfer) become(c *chunk, state uint32) {
	if c.state.CompareAndSwap(chunkClosed, state) && t.waiting.Load() > 0 {
		t.mu.Lock()
		t.opened.Broadcast()
		t.mu.Unlock()
	}
}

// spin waits some 20 nanoseconds. Some of the spins let other goroutines have the
// processor: one in 16 where there are too few processors, and few elsewhere.
func (t *transfer) spin(i int) {
	if last := t.r.set.SpinsPerYield - 1; i&last == last || t.oversubscribed && i%16 == 15 {
		runtime.Gosched()
	}
	for range 50 {
		spins.Load()
	}
}

var spins atomic.Uint32

// copyPart copies n bytes at an offset of a chunk.
func (t *transfer) copyPart(c *chunk, at, n int64) {
	begin, done := time.Now(), 0
	Catch(func() (err error) {
		done, err = t.copy(c.slot.mem[at:at+n], c.off+at)
		return err
	}, func(err error) {
		t.copyTime.Add(int64(time.Since(begin)))
		if p, ok := err.(*Panic); ok {
			t.panicked.CompareAndSwap(nil, p)
		}
		if err != nil {
			t.fail(c.off+at+int64(done), err)
		}
	})
}

// copy copies between a part of a slot and the source or destination at an offset.
func (t *transfer) copy(p []byte, off int64) (n int, err error) {
	if t.src != nil {
		n, err = t.read(p, off)
	} else if m := asMemory(t.dst); m != nil {
		n, err = m.WriteNonTemporal(p, off, t.r.set.NonTemporalFrom)
	} else {
		n, err = t.dst.WriteAt(p, off)
	}
	if t.r.clock != nil {
		t.r.clock.HostCopy(uintptr(n), t.workerCount(t.r.set.Workers), t.dst != nil)
	}
	return max(0, min(n, len(p))), err
}

// read reads a part of the source.
func (t *transfer) read(p []byte, off int64) (n int, err error) {
	if m := asMemory(t.src); m != nil {
		n, err = m.read(p, off, t.r.set.copyToRing(off, t.job.Bytes))
	} else {
		n, err = t.src.ReadAt(p, off)
	}
	switch {
	case n == len(p):
		err = nil // at the end of a file ReadAt may return io.EOF with all bytes
	case err == nil || errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// fail stops the transfer at an offset. The lowest offset counts.
func (t *transfer) fail(off int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if off < t.failedAt.Load() {
		t.failedAt.Store(off)
		t.err = &OffsetError{off, err}
	}
}

// OffsetError is the error of a transfer that failed at a byte.
type OffsetError struct {
	Offset int64
	Err    error
}

func (e *OffsetError) Error() string { return fmt.Sprintf("byte %d: %v", e.Offset, e.Err) }

func (e *OffsetError) Unwrap() error { return e.Err }

// account records that the coordinator, or all blocks of a chunk, are done. The last call
// ends the transfer.
func (t *transfer) account() {
	if t.unaccounted.Add(-1) == 0 {
		t.releaseSlots()
		t.leave()
	} else if t.sleeping.Load() {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// leave ends the transfer for the ring.
func (t *transfer) leave() {
	if t.turn != nil {
		t.r.gate.quit(t.turn)
	}
	t.r.leave(t)
	t.job.callDone()
}

func (j *Job) callDone() {
	if j.Done != nil {
		j.Done()
	}
}

// abandon ends the transfer for the caller while a reader or writer hangs. Chunks that are
// not queued yet are never queued. It returns how many bytes are copied.
func (t *transfer) abandon() (int64, error) {
	n := int64(0)
	for i := range t.chunks {
		c := &t.chunks[i]
		if t.src != nil && !c.queued || t.dst != nil && c.left.Load() > 0 {
			break
		}
		n += c.n
	}
	n = min(n, t.failedAt.Load())
	err := &OffsetError{n, t.ctx.Err()}
	t.fail(0, err)
	for i := range t.chunks {
		t.become(&t.chunks[i], chunkFailed)
	}
	t.account()
	return n, err
}

// put frees the slot of a chunk.
func (t *transfer) put(c *chunk) {
	if t.release(c) {
		t.r.put(c.slot)
	}
}

// submit leaves the slot of a chunk to the device.
func (t *transfer) submit(c *chunk) {
	if t.release(c) {
		t.r.submit(c.slot)
	}
}

// release takes the slot of a chunk from the transfer. It reports whether the caller must
// free or submit the slot: it is false without a slot, and for all calls but the first.
func (t *transfer) release(c *chunk) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	released := c.released
	c.released = true
	return !released && c.slot != nil
}

// releaseSlots releases the slots that failed chunks still have. Where the device has a
// copy that is not known to have completed, the slot stays in flight.
func (t *transfer) releaseSlots() {
	for i := range t.chunks {
		if c := &t.chunks[i]; c.queued && c.state.Load() != chunkOpen {
			t.submit(c)
		} else {
			t.put(c)
		}
	}
}
