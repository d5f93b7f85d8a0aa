package softgpu

import (
	"math"
	"slices"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// How long to wait for an op before taking it for one that waits for the host.
const (
	patience     = 100 * time.Millisecond // of a kernel that polls host memory and does nothing new, and of host functions
	longPatience = 10 * time.Second       // of anything else
	patienceStep = 10 * time.Millisecond
)

// bearWith waits until o is done or has worn out our patience; then it is long
// and nobody waits for it again to know its cost. What has a context that is
// being destroyed is ended then. mu is held, let go of and taken again.
func (d *Driver) bearWith(o *op) {
	if o.done || o.long {
		return
	}
	ch := o.doneChan()
	began, seen, polls := time.Now(), o.progress(), o.polled()
	step := time.NewTicker(patienceStep)
	defer step.Stop()
	for !o.done && !o.long {
		d.mu.Unlock()
		select {
		case <-ch:
		case <-step.C:
		}
		d.mu.Lock()
		if now := o.progress(); now != seen {
			began, seen, polls = time.Now(), now, o.polled()
		}
		if time.Since(began) > o.patience(polls) {
			o.long = true
			if o.ctx.dead {
				o.ctx.cancel(errDestroyed)
			}
		}
	}
}

// doneChan is closed when o is done.
func (o *op) doneChan() <-chan struct{} {
	if o.doneCh == nil {
		o.doneCh = make(chan struct{})
		if o.done {
			close(o.doneCh)
		}
	}
	return o.doneCh
}

// progress is a number that changes while a kernel gets on: with each page of host
// memory that it has not touched before, and each block that begins.
func (o *op) progress() uint64 {
	if o.kernel == nil {
		return 0
	}
	return o.kernel.view.touched() + o.kernel.pulse.Begun.Load()
}

// polled changes while a kernel looks at memory again and again.
func (o *op) polled() uint64 {
	if o.kernel == nil {
		return 0
	}
	return o.kernel.pulse.Polls.Load()
}

// patience is short for what may be waiting for the host: a host function, a
// kernel that has polled since it was seen to get on and that reads host memory,
// or one that another context's kernel keeps out. A kernel that is merely slow on
// this computer, or to begin, must not be taken for one of them: its cost would be
// unknown. In a context that is being destroyed it is what is left before the end.
func (o *op) patience(polls uint64) time.Duration {
	switch k := o.kernel; {
	case o.ctx.dead:
		return destroyPatience
	case o.work.kind == cu.GraphNodeTypeHost,
		k == nil && o.keptOut(),
		k != nil && k.view.seesHost() && o.polled() != polls:
		return patience
	}
	return longPatience
}

// keptOut says whether o is a kernel that others keep from running. mu is held.
func (o *op) keptOut() bool {
	return o.work.launch != nil && (!o.released || o.realWait > 0 || slices.Contains(o.work.dev.turns.waiting, o))
}

// anyDone lets go of mu until some op is done.
func (d *Driver) anyDone() {
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	ch := d.changed
	d.mu.Unlock()
	<-ch
	d.mu.Lock()
}

// finish waits until o is done, by virtual time too, and moves the host's clock
// there. It gives up when the device is lost: what still runs there may never end.
// mu is held, let go of and taken again.
func (d *Driver) finish(o *op) {
	if o == nil {
		return
	}
	d.push(o)
	for !o.retired || !o.done {
		d.sim.run(d, forever, o)
		if o.ctx.fault != nil {
			return
		}
		if !o.retired || !o.done {
			d.anyDone()
		}
	}
	o.raceAcquire()
	switch {
	case o.end <= d.host:
	case o.bare:
		d.host = o.end
	default:
		d.host = o.end + d.prof.Queue.Sync.Value
	}
}

// How fast the clock goes for a host that asks again and again.
const (
	promptPolls = 8    // cost what a query costs
	pollGrowth  = 1.25 // each after them that much more,
	longestPoll = 10e6 // up to that many ns
)

// finished says whether o is done by the host's clock.
//
// A program that polls sleeps between, and the clock knows nothing of sleep. So
// from the ninth query in vain for the same op on, more and more time goes by;
// but never past the end of the op, and none while the op waits for the host.
func (d *Driver) finished(o *op) bool {
	if o == nil {
		return true
	}
	d.push(o)
	if !o.retired {
		d.sim.run(d, d.host, o)
	}
	if o.retired && o.done {
		return true
	}
	o.polls++
	if o.polls <= promptPolls || d.sim.waitsForHost() {
		return false
	}
	step := min(d.prof.Calls.Query.Value*math.Pow(pollGrowth, float64(o.polls-promptPolls)), longestPoll)
	d.sim.run(d, d.host+step, o)
	switch {
	case o.retired && o.done:
		d.host = max(d.host, o.end)
		return true
	case !d.sim.waitsForHost():
		d.host += step
	}
	return false
}
