package softgpu

import "math"

// hostStep is something that the host did after a wait whose end in virtual
// time is not known yet. The steps are in the order in which the host did them.
type hostStep struct {
	ns   float64 // how long it computed, or was in a call
	wait *op     // then it waited for the end of an op
	poll bool    // it asked for the end of wait repeatedly, instead of a wait
	// If unless is true then, it did not wait.
	unless *bool
	now    bool   // do needs all that has happened up to the host's time
	do     func() // then do happened
}

// The host's clock is the same under every schedule. A schedule decides when an
// operation executes on this computer, but not when it arrives in virtual time:
// that is when the host submits it.
//
// Under lazy and random, a wait may end while operations of other streams have
// not executed, and so have no cost. They may slow down the operation that was
// waited for. Then the host's time after the wait is not known. What the host
// does from then on is kept in steps, which run when the costs are known.
// Executing those operations at the wait would give the time at once, but it
// would also hide missing synchronization.

// spend lets ns of the host's time pass. The caller holds mu, also for the
// functions below.
func (d *Driver) spend(ns float64) {
	switch n := len(d.steps); {
	case n == 0:
		d.host += ns
	case d.steps[n-1].wait == nil && d.steps[n-1].do == nil:
		d.steps[n-1].ns += ns
	default:
		d.steps = append(d.steps, &hostStep{ns: ns})
	}
}

// inOrder runs f when the host's clock is known. It is at once under eager.
func (d *Driver) inOrder(f func()) {
	if len(d.steps) == 0 {
		f()
		return
	}
	d.steps = append(d.steps, &hostStep{do: f})
}

// atNow runs f when the timeline has reached the host's time. It is at once
// under eager. mu is released during the wait.
func (d *Driver) atNow(f func()) {
	if ok, _ := d.reached(); ok {
		f()
		return
	}
	d.steps = append(d.steps, &hostStep{now: true, do: f})
}

// reached runs the timeline up to the host's time. It returns false if the
// host's clock is not known, and the op that has not executed if that is the
// reason. mu is released during the wait.
func (d *Driver) reached() (ok bool, lacks *op) {
	if lacks = d.catchUp(); len(d.steps) == 0 {
		lacks = d.sim.run(d, d.host, nil)
	}
	return lacks == nil && len(d.steps) == 0, lacks
}

// catchUp runs the steps whose times are known. It returns the op that has not
// executed if that keeps it from the end. mu is released during the wait.
func (d *Driver) catchUp() (lacks *op) {
	for len(d.steps) > 0 {
		s := d.steps[0]
		switch {
		case s.unless != nil && *s.unless:
			s.wait = nil
		case s.wait != nil:
			lacks = d.sim.run(d, forever, s.wait)
			if !s.wait.retired && s.wait.ctx.fault == nil {
				return lacks
			}
		case s.now:
			if lacks = d.sim.run(d, d.host, nil); lacks != nil {
				return lacks
			}
		}
		if len(d.steps) > 0 && d.steps[0] == s { // else another call ran it while mu was released
			d.steps = d.steps[1:]
			d.take(s)
		}
	}
	d.steps = nil
	return nil
}

// take runs a step whose time is known.
func (d *Driver) take(s *hostStep) {
	d.host += s.ns
	switch {
	case s.poll:
		d.polled(s.wait)
	case s.wait != nil:
		d.waited(s.wait)
	}
	if s.do != nil {
		s.do()
	}
}

// settle makes the host's clock known, and runs the timeline up to it. It
// executes the operations whose costs it needs. It returns early if an op waits
// for the host. mu is released during the wait.
func (d *Driver) settle() {
	for {
		ok, lacks := d.reached()
		if ok || lacks == nil {
			return
		}
		d.force(lacks)
	}
}

// force executes o now. mu is released during the wait.
func (d *Driver) force(o *op) {
	d.releaseAll(closure(o))
	d.boundedWait(o)
}

// waited moves the host's clock to the end of a wait for o.
func (d *Driver) waited(o *op) {
	switch {
	case !o.retired || o.end <= d.host: // not retired: the device is lost
	case o.noLatency:
		d.host = o.end
	default:
		d.host = o.end + d.prof.Queue.Sync.Value
	}
}

// finish waits until o is done, and moves the host's clock to its end. It
// returns early when the device is lost, because an op that still runs there
// may never end. mu is released during the wait.
func (d *Driver) finish(o *op) {
	if o != nil && d.finishUnordered(o) {
		o.acquired()
	}
}

// finishUnordered is finish for a call that does not order what the host does
// next after o. It returns false when the device is lost.
func (d *Driver) finishUnordered(o *op) bool {
	d.releaseUpTo(o)
	for {
		ok, lacks := d.ended(o)
		if ok {
			break
		}
		switch x := d.executing(o); {
		case o.ctx.fault != nil:
			return false
		case o.done && (o.retired || lacks != nil && !d.failed):
			d.steps = append(d.steps, &hostStep{wait: o})
			return true
		case o.done && lacks != nil: // errors are known when their ops retire in virtual time
			d.force(lacks)
		case x != nil && lacks != nil:
			d.boundedWait(x)
		case d.running == 0:
			panic("BUG: wait for " + o.work.what + ", but nothing executes that could end the wait")
		default:
			d.waitAnyDone()
		}
	}
	d.waited(o)
	return true
}

// ended runs the timeline up to the end of o. It returns false if o does not
// end there yet, or if the host's clock is not known, and the op that has not
// executed if that is the reason.
func (d *Driver) ended(o *op) (ok bool, lacks *op) {
	lacks = d.catchUp()
	for len(d.steps) == 0 {
		lacks = d.sim.run(d, forever, o)
		if o.retired || len(d.steps) == 0 {
			break
		}
		lacks = d.catchUp() // other calls made steps while mu was released: o may meet an op that arrives in them
	}
	return o.retired && o.done && len(d.steps) == 0, lacks
}

// executing returns an op that executes now and that o must follow, or o. It
// returns nil if there is none, or none that a bounded wait has not ended for.
func (d *Driver) executing(o *op) *op {
	if o.done || o.timedOut || o.waitsForRank() {
		return nil
	}
	for _, dep := range o.deps {
		if !dep.done {
			return d.executing(dep)
		}
	}
	return o
}

// Cost of repeated queries.
const (
	promptPolls = 8    // queries at the normal cost
	pollGrowth  = 1.25 // factor from each later query to the next
	longestPoll = 10e6 // upper bound, ns
	manyPolls   = 4096 // from here on the bound grows too, by the same factor: every wait ends
)

// finished reports whether o has ended by the host's clock.
//
// A program that polls usually sleeps between queries, and the virtual clock
// does not see the sleep. So from the ninth unsuccessful query of an op on,
// each query takes more time than the one before. The time never passes the end
// of the op, and does not advance while an op waits for the host.
//
// If the host's clock is not known, it reports whether o has executed.
func (d *Driver) finished(o *op) bool {
	if o == nil {
		return true
	}
	d.releaseUpTo(o)
	if ok, _ := d.reached(); !ok {
		return d.finishedUntimed(o)
	}
	if o.retired && o.done {
		return true
	}
	o.polls++
	if o.polls <= promptPolls || d.sim.waitsForHost() {
		return false
	}
	step := o.pollNs()
	lacks := d.sim.run(d, d.host+step, o)
	switch {
	case lacks != nil:
		o.polls--
		return d.finishedUntimed(o)
	case o.retired && o.done:
		d.host = max(d.host, o.end)
		return true
	case !d.sim.waitsForHost():
		d.host += step
	}
	return false
}

// finishedUntimed reports whether o has executed. It waits a bounded time for
// that, and counts the queries that the program would have made until the end
// of o.
func (d *Driver) finishedUntimed(o *op) bool {
	for x := d.executing(o); x != nil; x = d.executing(o) {
		d.boundedWait(x)
	}
	if o.done {
		d.steps = append(d.steps, &hostStep{wait: o, poll: true})
	}
	return o.done
}

// pollNs returns the additional time of the last query for o.
func (o *op) pollNs() float64 {
	if o.polls <= promptPolls {
		return 0
	}
	bound := longestPoll * math.Pow(pollGrowth, float64(max(0, o.polls-manyPolls)))
	return min(o.ctx.drv.prof.Calls.Query.Value*math.Pow(pollGrowth, float64(o.polls-promptPolls)), bound, longestCost)
}

// polled moves the host's clock as a program does that makes no call but
// queries until o has ended. The first query was counted when it was made.
func (d *Driver) polled(o *op) {
	for steps := (clockSteps{d: d}); o.retired && d.host < o.end && steps.next(); {
		o.polls++
		if next := d.host + o.pollNs(); next >= o.end {
			d.host = max(d.host, o.end)
			return
		} else {
			d.host = next + d.prof.Calls.Other.Value + d.prof.Calls.Query.Value
		}
	}
}
