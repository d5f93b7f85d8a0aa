package softgpu

import (
	"math"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// How long to wait for an op before taking it for one that waits for the host.
const (
	patience     = 100 * time.Millisecond // of something that can see host memory, without a new page touched
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
	began, seen := time.Now(), o.progress()
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
			began, seen = time.Now(), now
		}
		if time.Since(began) > o.patience() {
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

// progress is a number that changes while a kernel gets on.
func (o *op) progress() uint64 {
	if o.kernel == nil {
		return 0
	}
	return o.kernel.view.touched()
}

// patience is short for what may be waiting for the host: a host function, a
// kernel that reads host memory, or one that another context's kernel keeps out.
// In a context that is being destroyed it is what is left before the end.
func (o *op) patience() time.Duration {
	switch {
	case o.ctx.dead:
		return destroyPatience
	case o.work.kind == cu.GraphNodeTypeHost,
		o.work.launch != nil && (o.kernel == nil || o.kernel.view.seesHost()):
		return patience
	}
	return longPatience
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
