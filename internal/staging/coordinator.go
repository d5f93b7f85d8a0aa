package staging

import (
	"errors"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// coordinator does everything for a transfer besides copying, until all blocks are
// accounted for: it takes slots, calls the driver, and releases slots. It runs in the
// goroutine that called In or Out, which alone uses its fields.
//
// Only the coordinator calls the driver, because a driver serves one call at a time. Other
// callers wait for hundreds of microseconds, and a call is slow on a processor that has not
// called the driver for a while. The coordinator also copies blocks. In a short transfer it
// copies from begin to end. In other transfers it copies until the first worker starts,
// which can take milliseconds if processors sleep.
type coordinator struct {
	*transfer
	first   int       // the first chunk that is not finished
	next    int       // the first chunk that has no slot yet
	arrived int       // the first chunk that has not arrived from the device yet
	starved time.Time // since when other transfers have all slots; zero if they do not

	begun     int64     // bytes of the chunks that have got a slot in this turn
	idleSince time.Time // since when nothing has happened; zero if something just did

	sentFailed bool // Job.Sent has failed

	hasBlock bool // it has claimed a block for itself:
	chunk    int
	block    int64
}

// hangTime is how long a reader or writer may take after the context has ended before it
// counts as hanging.
const hangTime = 10 * time.Millisecond

// complete runs the transfer to its end. It returns how many bytes are copied, and the error.
// After a reader or writer has ended the goroutine, complete is called again: it then drops
// the blocks that are left.
func (c *coordinator) complete() (n int64, err error) {
	if !c.coordinate() {
		return c.abandon()
	}
	for c.unaccounted.Load() > 1 {
		runtime.Gosched() // until the worker that copied last has accounted for its block
	}
	c.account()
	if c.err != nil {
		return c.failedAt.Load(), c.err
	}
	return c.job.Bytes, nil
}

// coordinate runs until the transfer is finished. It returns false if it gave up, because
// a reader or writer hangs.
func (c *coordinator) coordinate() bool {
	var ended time.Time // when the context ended
	c.skipFinished()    // Job.Sent has ended the goroutine in finish, if coordinate is called again
	if c.shared && len(c.chunks) > 1 {
		c.warmDriver()
	}
	for i := 1; c.first < len(c.chunks); i++ {
		if c.step() || c.shouldCopy() && c.copyNext() {
			c.idleSince, i = time.Time{}, 0
			continue
		}
		now := time.Now()
		if c.idleSince.IsZero() {
			c.idleSince = now
		}
		if err := c.ctx.Err(); err != nil {
			if ended.IsZero() {
				ended = now
			}
			c.stop(err)
			if c.mayHang() && now.Sub(ended) > hangTime {
				return false
			}
		}
		switch idle := now.Sub(c.idleSince); {
		case c.turn != nil && c.waitTurn(idle):
		case c.r.clock != nil && c.waitEmulated():
		case idle > c.r.set.SpinTime:
			c.sleep(idle)
		default:
			c.spin(i)
		}
	}
	return true
}

// shouldCopy reports whether the coordinator copies a block now. Readers and writers may
// take long, and are left to the workers.
func (c *coordinator) shouldCopy() bool {
	return c.coordinatorCopies || c.hasBlock || c.mayYield && !c.workerStarted.Load()
}

// copyNext copies the block that the coordinator has claimed, if its chunk is open. It
// claims one if it has none. It reports whether it did either.
func (c *coordinator) copyNext() bool {
	if !c.hasBlock {
		c.chunk, c.block = c.claim(c.chunk)
		c.hasBlock = true
		return c.chunk < len(c.chunks)
	}
	if c.chunk == len(c.chunks) || c.chunks[c.chunk].state.Load() == chunkClosed {
		return false
	}
	c.hasBlock = false // set first, because a reader or writer may end the goroutine
	c.copyBlock(&c.chunks[c.chunk], c.block)
	return true
}

// warmDriver calls the driver while the workers wake up. The first call after a pause takes
// 50 microseconds, and would delay the first chunk to the device. If no slot is free, openNext calls
// the driver soon, so warmDriver does nothing. fetchFirst has called the driver.
func (c *coordinator) warmDriver() {
	if c.next == 0 || c.dst != nil {
		return
	}
	if err := c.r.driver.EventRecord(c.r.ctx, c.chunks[0].slot.event, c.job.Stream); err != nil {
		c.fail(0, err)
	}
}

// stop lets all chunks fail that are not open yet. No goroutine can have copied a block of
// them.
func (c *coordinator) stop(err error) {
	closed := c.next
	if c.dst != nil {
		closed = c.arrived
	}
	if closed < len(c.chunks) {
		c.fail(c.chunks[closed].off, err)
	}
}

// step does one round of work that needs no wait: it finishes chunks and opens chunks. It
// reports whether it did anything.
func (c *coordinator) step() bool {
	if c.dst != nil {
		busy := c.finish()
		busy = c.mayBegin() && c.fetchNext() || busy
		return c.mayCopy() && c.openArrived() || busy
	}
	wanted := c.claimed(c.next) // checked before finish calls the driver
	busy := c.finish()
	return wanted && c.mayBegin() && c.openNext() || busy
}

// finish handles the chunks whose blocks are all copied or dropped. It reports whether
// there were any.
func (c *coordinator) finish() (busy bool) {
	for i := c.first; i < len(c.chunks); i++ {
		x := &c.chunks[i]
		if x.left.Load() > 0 {
			if i >= c.next || c.job.InOrder {
				break
			}
			continue
		}
		if x.finished {
			continue
		}
		x.finished, busy = true, true
		good := min(x.n, c.failedAt.Load()-x.off)
		switch {
		case x.state.Load() != chunkOpen: // releaseSlots handles it
		case c.dst != nil || good <= 0:
			c.reportSent(x, good)
			c.put(x)
		default:
			if err := c.send(x, good); err != nil {
				c.fail(x.off, err)
				continue
			}
			c.reportSent(x, good)
		}
	}
	c.skipFinished()
	return busy
}

// skipFinished moves first to a chunk that is not finished.
func (c *coordinator) skipFinished() {
	for c.first < len(c.chunks) && c.chunks[c.first].finished {
		c.first++
	}
}

// reportSent calls Job.Sent for the first n bytes of a chunk. If it fails, panics or ends the
// goroutine, the transfer fails behind these bytes: no other block is begun, and Sent is not called
// again.
func (c *coordinator) reportSent(x *chunk, n int64) {
	if c.job.Sent == nil || n <= 0 || c.sentFailed {
		return
	}
	memory := []byte(nil)
	if c.dst != nil {
		memory = x.slot.mem[:n]
	}
	Catch(func() error { return c.job.Sent(x.off, n, memory) }, func(err error) {
		if err == nil {
			return
		}
		c.sentFailed = true
		if p, ok := err.(*Panic); ok {
			c.panicked.CompareAndSwap(nil, p)
		}
		c.fail(x.off+n, err)
	})
}

// openFree opens the first chunks of memory for the device, as many as there are free
// slots for. That needs no call of the driver, and happens before workers start.
func (c *coordinator) openFree() {
	for c.src != nil && c.mayYield && c.next < len(c.chunks) {
		s, _, _, err := c.r.pick(c.transfer, false)
		if s == nil || err != nil {
			return // openNext gets the error again
		}
		x := &c.chunks[c.next]
		x.slot = s
		c.begun += x.n
		c.become(x, chunkOpen)
		c.next++
	}
}

// fetchFirst queues the copy of the first chunk from the device, so that the device works while the
// workers wake up.
func (c *coordinator) fetchFirst() {
	if c.dst != nil && c.turn != nil && c.mayBegin() {
		c.fetchNext()
	}
}

// openNext gives the next chunk to the device a slot, if there is one. It reports whether
// the chunk is open now or has failed.
func (c *coordinator) openNext() bool {
	x := &c.chunks[c.next]
	if !c.findSlot(x) {
		return false
	}
	c.become(x, c.openState(x))
	c.next++
	c.addWorkers()
	return true
}

// openState returns what a closed chunk becomes.
func (c *coordinator) openState(x *chunk) uint32 {
	if x.off < c.failedAt.Load() {
		return chunkOpen
	}
	return chunkFailed
}

// fetchNext queues the copy of the next chunk from the device, if there is a slot. It
// reports whether it did, or whether the chunk has failed.
func (c *coordinator) fetchNext() bool {
	if c.next == len(c.chunks) {
		return false
	}
	x := &c.chunks[c.next]
	if !c.findSlot(x) {
		return false
	}
	c.next++
	if x.slot == nil {
		return true
	}
	queued, err := c.enqueue(x, x.n)
	if err != nil {
		c.fail(x.off, err)
	}
	if !queued {
		c.put(x)
	}
	x.queued = queued
	return true
}

// openArrived opens the chunks that have arrived from the device and are wanted. It
// reports whether there were any.
func (c *coordinator) openArrived() (busy bool) {
	for ; c.arrived < c.next && c.claimed(c.arrived); c.arrived++ {
		x := &c.chunks[c.arrived]
		if x.queued && x.off < c.failedAt.Load() {
			if c.r.clock != nil {
				return busy // waitEmulated waits for it
			}
			err := c.r.driver.EventQuery(c.r.ctx, x.slot.event)
			if errors.Is(err, cu.ErrorNotReady) {
				return busy
			}
			if err != nil {
				c.fail(x.off, err)
			}
		}
		c.become(x, c.openState(x))
		busy = true
		c.addWorkers()
	}
	return busy
}

// findSlot finds a slot for a chunk before failedAt. It returns false when the transfer
// must wait for one.
func (c *coordinator) findSlot(x *chunk) bool {
	if x.off < c.failedAt.Load() {
		if x.slot = c.slotFor(x); x.slot != nil {
			c.begun += x.n
		}
		return x.slot != nil || x.off >= c.failedAt.Load()
	}
	return true
}

// slotFor takes a slot for a chunk. It returns nil if the transfer must wait or has failed
// at the chunk. The transfer fails after an error. It also fails if other transfers have had
// all slots for SlotWait, or longer, and the caller can copy in another way.
func (c *coordinator) slotFor(x *chunk) *slot {
	s, starved, err := c.r.takeSlot(c.transfer)
	c.noteSlot(x, s != nil, starved, err)
	return s
}

// readerPatience is how much longer a reader or writer waits for a slot than memory. The other way
// is slower, and other readers and writers free their slots soon, unless they hang.
const readerPatience = 10

// noteSlot records whether there is a slot for a chunk.
func (c *coordinator) noteSlot(x *chunk, found, starved bool, err error) {
	switch {
	case found || err == nil && !starved:
		c.starved = time.Time{}
	case err == nil && c.starved.IsZero():
		c.starved = time.Now()
	case err == nil && c.mayYield && time.Since(c.starved) > c.r.set.SlotWait,
		err == nil && c.job.Yields && time.Since(c.starved) > readerPatience*c.r.set.SlotWait:
		err = ErrBusy
	}
	if err != nil {
		c.fail(x.off, err)
	}
}

// send queues the copy of the first n bytes of a chunk to the device. The device then uses
// the slot until the copy is done.
func (c *coordinator) send(x *chunk, n int64) error {
	queued, err := c.enqueue(x, n)
	x.queued = queued && err == nil
	if queued {
		c.submit(x)
	} else {
		c.put(x)
	}
	return err
}

// enqueue queues the copy of n bytes of a chunk on the stream. queued says that the
// device may use the slot: a call that fails can have queued its copy.
func (c *coordinator) enqueue(x *chunk, n int64) (queued bool, err error) {
	err = c.callDriver(x, n)
	if errors.Is(err, cu.ErrorNotPermitted) {
		return false, err // in a host function: nothing is queued, and no call says more
	}
	failed := c.r.driver.EventRecord(c.r.ctx, x.slot.event, c.job.Stream)
	if failed == nil {
		return true, err
	}
	// The event says nothing of the copy: wait for the copy now.
	late := c.r.driver.StreamSynchronize(c.r.ctx, c.job.Stream)
	x.slot.lost = late != nil && c.r.driver.StreamQuery(c.r.ctx, c.job.Stream) != nil // late may be of earlier work
	return false, refusal.Join(err, failed, late)
}

// callDriver makes the calls of the driver that copy n bytes of a chunk.
func (c *coordinator) callDriver(x *chunk, n int64) error {
	d, device := c.r.driver, c.job.Device+cu.DevicePtr(x.off)
	switch {
	case c.job.Copy != nil:
		return c.job.Copy(x.slot.host, x.off, n)
	case c.src != nil:
		return d.MemcpyHtoDAsync(c.r.ctx, device, x.slot.host, uintptr(n), c.job.Stream)
	}
	return d.MemcpyDtoHAsync(c.r.ctx, x.slot.host, device, uintptr(n), c.job.Stream)
}

// sleep waits without a processor: for the device, or for a goroutine that copies.
func (c *coordinator) sleep(idle time.Duration) {
	if c.dst != nil && c.arrived < c.next && c.chunks[c.arrived].queued && c.ctx.Done() == nil && c.claimed(c.arrived) {
		x := &c.chunks[c.arrived]
		if err := c.r.await(x.slot.event); err != nil {
			c.fail(x.off, err)
		}
		return
	}
	c.sleeping.Store(true)
	defer c.sleeping.Store(false)
	if c.chunks[c.first].left.Load() == 0 {
		return // the last block was copied before sleeping was set, so no worker would wake the coordinator
	}
	c.timer.Reset(min(idle/16, time.Millisecond))
	defer c.timer.Stop()
	select {
	case <-c.wake:
	case <-c.timer.C:
	}
}

// waitEmulated waits for an emulated device, if a worker waits for a chunk to open. It
// reports whether it did anything. It calls step first, because emulated times depend on the
// order of calls.
func (c *coordinator) waitEmulated() bool {
	at := c.next
	if c.dst != nil {
		at = c.arrived
	}
	if !c.claimed(at) || c.step() {
		return c.claimed(at)
	}
	x, err := &c.chunks[at], error(nil)
	if c.dst != nil && at < c.next {
		err = c.r.awaitEvent(c.ctx, x.slot.event)
	} else {
		err = c.r.awaitOldest(c.transfer)
	}
	switch {
	case err != nil:
		c.fail(x.off, err)
	case c.dst != nil && at < c.next:
		c.become(x, chunkOpen)
		c.arrived++
	}
	return true
}
