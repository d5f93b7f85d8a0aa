package staging

import (
	"context"
	"errors"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// minRest and maxRest are the shortest and the longest pause between two questions to the
// driver, of a transfer that waits for the device without a place.
const (
	minRest = 50 * time.Microsecond
	maxRest = time.Millisecond
)

// admit waits until a new transfer has a place. A transfer of a reader or writer needs none:
// nobody knows how long those take. Such transfers share slots and workers with the others.
// A transfer on an emulated device needs none either, because its times would then depend on
// other goroutines. admit returns false if the context has ended, which is then the error
// of the transfer.
func (t *transfer) admit() bool {
	if !t.mayYield || t.r.clock != nil {
		return true
	}
	t.turn = t.r.gate.arrive(&t.nextBlock)
	if t.turn.state.Load() != turnQueued {
		return true
	}
	err := t.turn.await(t.ctx)
	if err != nil {
		t.fail(0, err)
	}
	return err == nil
}

// Call calls f, which copies in another way, as one of the active transfers. It waits in the
// queue until it has a place. If ctx ends before that, Call returns ctx.Err(). f must not
// wait for the device longer than a copy takes.
func (r *Ring) Call(ctx context.Context, f func() error) error {
	if r.clock != nil {
		return f()
	}
	t := r.gate.arrive(nil)
	defer r.gate.quit(t)
	if t.state.Load() == turnQueued {
		if err := t.await(ctx); err != nil {
			return err
		}
	}
	return f()
}

// TryCall calls f as Call does, if that has a place at once. done reports whether it did.
func (r *Ring) TryCall(f func() error) (done bool, err error) {
	if r.clock != nil {
		return true, f()
	}
	t := r.gate.arrive(nil)
	defer r.gate.quit(t)
	if t.state.Load() == turnQueued {
		return false, nil
	}
	return true, f()
}

// mayBegin reports whether the transfer may take a slot for its next chunk. After the bytes
// of one slot in one turn it must not, if others are queued. When its open chunks are
// finished, it goes to the end of the queue.
func (c *coordinator) mayBegin() bool {
	if !c.mayCopy() {
		return c.failed(c.next)
	}
	if c.turn == nil || c.begun < int64(c.r.classes[c.class].bytes) || c.r.gate.waiting.Load() == 0 {
		return true
	}
	if c.first < c.next {
		return c.failed(c.next)
	}
	c.begun = 0
	return c.r.gate.rotate(c.turn)
}

// addWorkers starts workers if other transfers have ended, so that the transfer may have at
// least twice as many as it has.
func (c *coordinator) addWorkers() {
	if c.turn == nil || !c.shared {
		return
	}
	have := c.working.Load()
	want := int64(c.workerCount(int(c.r.fair[c.direction()].Load())))
	if n := want - have; n >= have && c.working.CompareAndSwap(have, want) {
		c.start(int(n))
	}
}

// mayCopy reports whether the transfer may open chunks that have arrived: it has a place, or
// needs none, or will copy nothing more.
func (c *coordinator) mayCopy() bool {
	if c.turn == nil {
		return true
	}
	switch c.turn.state.Load() {
	case turnHeld:
		return true
	case turnQueued:
		return c.failed(c.nextToOpen())
	}
	if c.failed(c.nextToOpen()) {
		return true
	}
	if !c.canContinue() {
		return false
	}
	c.begun = 0
	return c.r.gate.enter(c.turn)
}

// nextToOpen returns the first chunk that is not open yet.
func (c *coordinator) nextToOpen() int {
	if c.dst != nil {
		return c.arrived
	}
	return c.next
}

// failed reports whether chunk i will not be copied.
func (c *coordinator) failed(i int) bool {
	return i < len(c.chunks) && c.chunks[i].off >= c.failedAt.Load()
}

// canContinue reports whether a transfer without a place would use one: a chunk has arrived,
// or there is a slot for the next one.
func (c *coordinator) canContinue() bool {
	if c.arrived < c.next && c.dst != nil {
		x := &c.chunks[c.arrived]
		return !x.queued || !errors.Is(c.r.driver.EventQuery(c.r.ctx, x.slot.event), cu.ErrorNotReady)
	}
	if c.next == len(c.chunks) {
		return false
	}
	available, starved, err := c.r.slotAvailable(c.transfer)
	c.noteSlot(&c.chunks[c.next], available, starved, err)
	return available || c.failed(c.next)
}

// copying reports whether there are open chunks, which workers or the coordinator copy.
func (c *coordinator) copying() bool { return c.first < c.nextToOpen() }

// waitTurn does what a place demands of a transfer that has had nothing to do for some time.
// Without a place, it waits. With one, it gives the place back if it waits for the device. It
// reports whether it did anything.
func (c *coordinator) waitTurn(idle time.Duration) bool {
	if c.copying() || c.failed(c.nextToOpen()) {
		return false
	}
	g := &c.r.gate
	switch c.turn.state.Load() {
	case turnQueued:
		_ = c.turn.await(c.ctx) // coordinate finds that the context has ended
		c.idleSince = time.Time{}
		return true
	case turnHeld:
		if idle > c.r.set.SpinTime || idle > c.r.set.HoldTime && g.waiting.Load() > 0 {
			g.leave(c.turn)
			return true
		}
	default:
		if g.crowded() {
			c.rest(idle)
			return true
		}
	}
	return false
}

// rest sleeps. The more transfers there are, the longer it sleeps, so that the driver is not
// asked all the time.
func (c *coordinator) rest(idle time.Duration) {
	others := time.Duration(c.r.gate.users.Load())
	c.timer.Reset(min(max(idle/16*others, minRest), maxRest))
	defer c.timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-c.timer.C:
	}
}
