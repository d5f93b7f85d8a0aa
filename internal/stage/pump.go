package stage

import (
	"errors"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// pump does what there is to do for a transfer beside copying: it takes slots,
// calls the driver, and gives slots back. One goroutine does so at a time, for all:
// a driver serves one call at a time, and those who ask at once wait for hundreds
// of microseconds. If another is at it, that one looks again.
func (t *transfer) pump() {
	t.asked.Store(true)
	for t.asked.Load() && t.pumping.CompareAndSwap(false, true) {
		t.asked.Store(false)
		t.turn()
		t.pumping.Store(false)
	}
}

// glance is pump by one who only waits: where another is at it there is no need to.
func (t *transfer) glance() {
	if t.pumping.CompareAndSwap(false, true) {
		t.turn()
		t.pumping.Store(false)
		if t.asked.Load() {
			t.pump()
		}
	}
}

// turn goes on until there is nothing to do. What is said of fields that the pump
// owns holds here and in what it calls.
func (t *transfer) turn() {
	for more := true; more; {
		t.finish()
		if t.src != nil {
			more = t.openNext()
		} else {
			more = t.fetchNext()
			t.arrive()
		}
	}
}

// finish sees to the chunks of which all blocks are copied, or dropped.
func (t *transfer) finish() {
	for i := t.first; i < t.next; i++ {
		c := &t.chunks[i]
		if c.finished || c.left.Load() > 0 {
			continue
		}
		c.finished = true
		good := min(c.n, t.failed.Load()-c.off)
		switch {
		case c.state.Load() != open: // clean sees to it
		case t.dst != nil || good <= 0:
			t.put(c)
		default:
			if err := t.send(c, good); err != nil {
				t.fail(c.off, err)
			}
		}
	}
	for t.first < t.next && t.chunks[t.first].finished {
		t.first++
	}
}

// openNext gives the next chunk to the device a slot, if there is one, and somebody
// has come to its blocks. It says whether it did.
func (t *transfer) openNext() bool {
	if t.next == len(t.chunks) || t.chunks[t.next].first >= t.block.Load() {
		return false
	}
	c := &t.chunks[t.next]
	if c.off >= t.failed.Load() {
		c.become(failed)
	}
	if c.state.Load() == closed {
		s := t.slotFor(c)
		if s == nil && c.state.Load() == closed {
			return false
		}
		c.slot = s
		if s != nil && !c.become(open) { // whose goroutines have given up
			c.slot = nil
			t.r.give(s)
		}
	}
	t.next++
	return true
}

// fetchNext queues the copy of the next chunk from the device, if there is a slot.
func (t *transfer) fetchNext() bool {
	if t.next == len(t.chunks) || t.chunks[t.next].off >= t.failed.Load() {
		return false
	}
	c := &t.chunks[t.next]
	s := t.slotFor(c)
	if s == nil {
		return false
	}
	c.slot = s
	t.next++
	queued, err := t.queue(c, c.n)
	if !queued {
		t.put(c)
		t.fail(c.off, err)
		return false
	}
	c.queued.Store(true)
	return true
}

// arrive opens the chunks that have come from the device.
func (t *transfer) arrive() {
	for ; t.came < t.next && t.r.clock == nil; t.came++ {
		c := &t.chunks[t.came]
		if !c.queued.Load() || c.state.Load() != closed {
			continue
		}
		switch err := t.r.driver.EventQuery(t.r.ctx, c.slot.event); {
		case errors.Is(err, cu.ErrorNotReady):
			return
		case err != nil:
			t.fail(c.off, err)
			c.become(failed)
		default:
			c.become(open)
		}
	}
}

// slotFor is a slot for a chunk. Without one the transfer waits, or has failed at
// the chunk: by an error, or because others have all slots and it can do without.
func (t *transfer) slotFor(c *chunk) *slot {
	s, foreign, err := t.r.tryTake(t)
	switch {
	case s != nil || err == nil && !foreign:
		t.foreign = time.Time{}
	case err == nil && t.foreign.IsZero():
		t.foreign = time.Now()
	case err == nil && t.mayYield && time.Since(t.foreign) > patience:
		err = ErrBusy
	}
	if err != nil {
		t.fail(c.off, err)
		c.become(failed)
	}
	return s
}

// opens waits until a chunk is open, and says whether it is. Goroutines that wait
// for the device ask again and again at first, as to wake one that sleeps takes as
// long as a quarter of a chunk.
func (t *transfer) opens(c *chunk) bool {
	if s := c.state.Load(); s != closed {
		return s == open
	}
	begin := time.Now()
	for i := 0; ; i++ {
		if err := t.ctx.Err(); err != nil {
			t.fail(c.off, err)
		}
		if t.failed.Load() <= c.off {
			c.become(failed)
		}
		t.glance()
		if s := c.state.Load(); s != closed {
			return s == open
		}
		switch since := time.Since(begin); {
		case t.r.clock != nil:
			t.waitVirtually(c)
		case since > spinTime:
			t.linger(c, since)
		case i%16 == 15:
			runtime.Gosched() // no more often: all who wait would queue for the scheduler
		default:
			c.spin()
		}
	}
}

// linger waits longer, without a processor.
func (t *transfer) linger(c *chunk, since time.Duration) {
	if !t.watched.CompareAndSwap(false, true) {
		pause := time.NewTimer(lookAgain)
		defer pause.Stop()
		select {
		case <-c.opened:
		case <-pause.C:
		}
		return
	}
	defer t.watched.Store(false)
	if t.ctx.Done() == nil && c.queued.Load() {
		if err := t.r.driver.EventSynchronize(t.r.ctx, c.slot.event); err != nil {
			t.fail(c.off, err)
		}
		return
	}
	time.Sleep(min(since/16, time.Millisecond))
}

// lookAgain is how long those wait who have one to tell them.
const lookAgain = 10 * time.Millisecond

// waitVirtually waits for a chunk on an emulated device.
func (t *transfer) waitVirtually(c *chunk) {
	var err error
	if t.dst != nil && c.queued.Load() {
		if err = t.r.synchronize(t.ctx, c.slot.event); err == nil {
			c.become(open)
		}
	} else {
		err = t.r.awaitOldest(t)
	}
	if err != nil {
		t.fail(c.off, err)
		c.become(failed)
	}
}
