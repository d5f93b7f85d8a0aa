package stage

import (
	"errors"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// lead sees to all of a transfer beside copying, until every block is accounted for:
// it takes slots, calls the driver, and gives slots back. One goroutine does so for
// all, as a driver serves one call at a time, makes those who ask at once wait for
// hundreds of microseconds, and is slow on a processor that has not called it for a
// while. In a short transfer, and until the crew has come, which may take milliseconds
// where processors are asleep, it copies blocks, too. It is false if it gave up, as a
// reader or writer hangs.
func (t *transfer) lead() bool {
	var since, ended time.Time // nothing has happened; the context has ended
	if t.crewed && len(t.chunks) > 1 {
		t.warm()
	}
	for i := 1; t.first < len(t.chunks); i++ {
		if t.turn() || t.mayCopy() && t.copyNext() {
			since, i = time.Time{}, 0
			continue
		}
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		if err := t.ctx.Err(); err != nil {
			if ended.IsZero() {
				ended = now
			}
			t.stop(err)
			if t.mayHang() && now.Sub(ended) > hangs {
				return false
			}
		}
		switch idle := now.Sub(since); {
		case t.r.clock != nil && t.waitVirtually():
		case idle > spinTime:
			t.linger(idle)
		default:
			pause(i, t.crowded)
		}
	}
	return true
}

// mayCopy says that the leader copies the next block, or the one that it has come to.
// What is no memory may take long, and is for the crew.
func (t *transfer) mayCopy() bool {
	return t.copies || t.took || t.mayYield && !t.manned.Load()
}

// warm calls the driver while the crew wakes. The first call after a while takes 50
// microseconds, and what is to be sent then would wait for that. Where no slot was free
// the driver is asked for some anyway.
func (t *transfer) warm() {
	if t.next == 0 {
		return
	}
	if err := t.r.driver.EventRecord(t.r.ctx, t.chunks[0].slot.event, t.job.Stream); err != nil {
		t.fail(0, err)
	}
}

// stop fails the chunks that nobody can have begun to copy.
func (t *transfer) stop(err error) {
	closed := t.next
	if t.dst != nil {
		closed = t.came
	}
	if closed < len(t.chunks) {
		t.fail(t.chunks[closed].off, err)
	}
}

// hangs is how long one who has been told to stop may take before he counts as
// hanging.
const hangs = 10 * time.Millisecond

// spinTime is for how long a wait asks again and again, at the price of a core.
const spinTime = 500 * time.Microsecond

// turn does what there is to do, once. It says whether there was anything. What is
// said of fields that the leader owns holds here and in what it calls.
func (t *transfer) turn() bool {
	if t.dst != nil {
		busy := t.finish()
		busy = t.fetchNext() || busy
		return t.arrive() || busy
	}
	wanted := t.wanted(t.next) // before what those who want it have copied is sent
	busy := t.finish()
	return wanted && t.openNext() || busy
}

// wanted says that somebody has come to the blocks of a chunk.
func (t *transfer) wanted(i int) bool {
	return i < len(t.chunks) && t.chunks[i].first < t.block.Load()
}

// finish sees to the chunks of which all blocks are copied, or dropped.
func (t *transfer) finish() (busy bool) {
	for i := t.first; i < len(t.chunks); i++ {
		c := &t.chunks[i]
		if c.left.Load() > 0 {
			if i >= t.next {
				break
			}
			continue
		}
		if c.finished {
			continue
		}
		c.finished, busy = true, true
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
	for t.first < len(t.chunks) && t.chunks[t.first].finished {
		t.first++
	}
	return busy
}

// openFree opens the first chunks of memory on its way to the device, as many as there
// are free slots for, before the crew comes and the driver is asked for others.
func (t *transfer) openFree() {
	for t.src != nil && t.mayYield && t.next < len(t.chunks) {
		s, _, _, err := t.r.pick(t, false)
		if s == nil || err != nil {
			return // which will come up again
		}
		c := &t.chunks[t.next]
		c.slot = s
		c.become(open)
		t.next++
	}
}

// openNext gives the next chunk to the device a slot, if there is one. It says
// whether the chunk is open, or has failed.
func (t *transfer) openNext() bool {
	c := &t.chunks[t.next]
	if c.off < t.failed.Load() {
		if c.slot = t.slotFor(c); c.slot == nil && c.off < t.failed.Load() {
			return false
		}
	}
	c.become(t.stateFor(c))
	t.next++
	return true
}

// stateFor is what a chunk that is closed becomes.
func (t *transfer) stateFor(c *chunk) uint32 {
	if c.off < t.failed.Load() {
		return open
	}
	return failed
}

// fetchNext queues the copy of the next chunk from the device, if there is a slot. It
// says whether it did, or the chunk has failed.
func (t *transfer) fetchNext() bool {
	if t.next == len(t.chunks) {
		return false
	}
	c := &t.chunks[t.next]
	if c.off < t.failed.Load() {
		if c.slot = t.slotFor(c); c.slot == nil && c.off < t.failed.Load() {
			return false
		}
	}
	t.next++
	if c.slot == nil {
		return true
	}
	queued, err := t.queue(c, c.n)
	if err != nil {
		t.fail(c.off, err)
	}
	if !queued {
		t.put(c)
	}
	c.queued = queued
	return true
}

// arrive opens the chunks that have come from the device and are wanted. It says
// whether there were any.
func (t *transfer) arrive() (busy bool) {
	for ; t.came < t.next && t.wanted(t.came); t.came++ {
		c := &t.chunks[t.came]
		if c.queued && c.off < t.failed.Load() {
			if t.r.clock != nil {
				return busy // which is waited for
			}
			err := t.r.driver.EventQuery(t.r.ctx, c.slot.event)
			if errors.Is(err, cu.ErrorNotReady) {
				return busy
			}
			if err != nil {
				t.fail(c.off, err)
			}
		}
		c.become(t.stateFor(c))
		busy = true
	}
	return busy
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
	}
	return s
}

// linger waits longer, without a processor: for the device, or for one who copies.
func (t *transfer) linger(idle time.Duration) {
	if t.dst != nil && t.came < t.next && t.ctx.Done() == nil && t.wanted(t.came) {
		c := &t.chunks[t.came]
		if err := t.r.driver.EventSynchronize(t.r.ctx, c.slot.event); err != nil {
			t.fail(c.off, err)
		}
		return
	}
	t.sleeps.Store(true)
	defer t.sleeps.Store(false)
	if t.chunks[t.first].left.Load() == 0 {
		return // of which nobody has told one who slept
	}
	pause := time.NewTimer(min(idle/16, time.Millisecond))
	defer pause.Stop()
	select {
	case <-t.wake:
	case <-pause.C:
	}
}

// waitVirtually waits on an emulated device, if one who copies waits for it. It says
// whether it did anything. Times depend on the order of things, so what has been copied
// by then is seen to before.
func (t *transfer) waitVirtually() bool {
	at := t.next
	if t.dst != nil {
		at = t.came
	}
	if !t.wanted(at) || t.turn() {
		return t.wanted(at)
	}
	c, err := &t.chunks[at], error(nil)
	if t.dst != nil && at < t.next {
		err = t.r.synchronize(t.ctx, c.slot.event)
	} else {
		err = t.r.awaitOldest(t)
	}
	switch {
	case err != nil:
		t.fail(c.off, err)
	case t.dst != nil && at < t.next:
		c.become(open)
		t.came++
	}
	return true
}
