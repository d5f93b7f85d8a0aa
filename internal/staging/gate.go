package staging

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// gate admits a bounded number of transfers at a time, in the order of arrival. A transfer
// that is admitted holds a place. With a place it takes slots and copies. Others are parked
// in a queue, so they need no processor and do not call the driver.
//
// A place is not a lock. A transfer gives it back when it waits for the device, and the
// gate takes it away from a holder that makes no progress while others wait. So nobody
// waits for a stream that stands still, even if that stream waits for a queued transfer.
type gate struct {
	places   int           // the most holders
	patience time.Duration // a holder without progress for this time or longer loses its place

	holding atomic.Int32 // number of holders
	waiting atomic.Int32 // length of the queue
	users   atomic.Int32 // turns in use, whatever their state

	mu          sync.Mutex
	holders     []*turn
	first, last *turn // the queue
	unused      *turn // turns for later users, linked by next
	timer       *time.Timer
	armed       bool // the timer will call check
}

// turn is the part of one user of a gate. Its user alone calls methods with it. gate.mu
// guards all fields but the atomic state and the channel.
type turn struct {
	state      atomic.Uint32
	ready      chan struct{} // capacity 1: receives when the turn leaves the queue with a place
	next, prev *turn         // in the queue
	place      int           // index in gate.holders

	progress *atomic.Int64 // changes while the user works; nil if that is not known
	seen     int64         // progress at the last check
	checked  bool          // seen is valid
}

// States of a turn. Only the gate makes a queued turn a held one, and only its check makes
// a held turn one without a place while its user does something else.
const (
	turnNone uint32 = iota // without a place, and not in the queue
	turnQueued
	turnHeld
)

// arrive asks for a place for a new user. Its turn has one then, or is queued. progress may
// be nil. The user must call quit.
func (g *gate) arrive(progress *atomic.Int64) *turn {
	g.users.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.unused
	if t == nil {
		t = &turn{ready: make(chan struct{}, 1)}
	} else {
		g.unused, t.next = t.next, nil
	}
	t.progress = progress
	g.push(t)
	g.admit()
	return t
}

// quit gives back the place, if there is one, and the turn.
func (g *gate) quit(t *turn) {
	g.users.Add(-1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(t)
	t.progress = nil
	t.next, g.unused = g.unused, t
}

// enter asks for a place for a turn that has none. It reports whether the turn has one now.
// Otherwise the turn is queued.
func (g *gate) enter(t *turn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.push(t)
	g.admit()
	return t.state.Load() == turnHeld
}

// leave gives back the place, or takes the turn out of the queue.
func (g *gate) leave(t *turn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(t)
}

// rotate gives back the place and moves the turn to the end of the queue. It reports
// whether the turn has a place again, because no other transfer waits.
func (g *gate) rotate(t *turn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch t.state.Load() {
	case turnHeld: // check may have taken the place
		g.unhold(t)
	case turnQueued:
		return false
	}
	g.push(t)
	g.admit()
	return t.state.Load() == turnHeld
}

// await waits until a queued turn gets a place, or ctx ends. The place may be lost again
// when await returns.
func (t *turn) await(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// crowded reports whether there are more users than places.
func (g *gate) crowded() bool { return int(g.users.Load()) > g.places }

// push appends a turn without a place to the queue. Its user calls it. g.mu is held.
func (g *gate) push(t *turn) {
	select {
	case <-t.ready: // its user has not waited for the last place
	default:
	}
	t.state.Store(turnQueued)
	if t.prev = g.last; g.last == nil {
		g.first = t
	} else {
		g.last.next = t
	}
	g.last = t
	g.waiting.Add(1)
}

// remove takes a turn out of the queue. g.mu is held.
func (g *gate) remove(t *turn) {
	if t.prev == nil {
		g.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		g.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
	g.waiting.Add(-1)
}

// unhold takes the place of a turn away. g.mu is held.
func (g *gate) unhold(t *turn) {
	last := g.holders[len(g.holders)-1]
	g.holders[t.place], last.place = last, t.place
	g.holders = g.holders[:len(g.holders)-1]
	g.holding.Add(-1)
	t.state.Store(turnNone)
}

// drop makes a turn one without a place that is not in the queue. g.mu is held.
func (g *gate) drop(t *turn) {
	switch t.state.Load() {
	case turnQueued:
		g.remove(t)
		t.state.Store(turnNone)
	case turnHeld:
		g.unhold(t)
		g.admit()
	}
}

// admit gives free places to the first turns of the queue. g.mu is held.
func (g *gate) admit() {
	for g.first != nil && len(g.holders) < g.places {
		t := g.first
		g.remove(t)
		t.place, t.checked = len(g.holders), false
		g.holders = append(g.holders, t)
		g.holding.Add(1)
		t.state.Store(turnHeld)
		t.ready <- struct{}{}
	}
	if g.first != nil && !g.armed {
		g.armed = true
		if g.timer == nil {
			g.timer = time.AfterFunc(g.patience, g.check)
		} else {
			g.timer.Reset(g.patience)
		}
	}
}

// check takes the places of holders that have not made progress since the last check. It
// runs while turns are queued. A holder can be in a call of the driver that waits for its
// stream.
func (g *gate) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	if g.first == nil {
		for _, t := range g.holders {
			t.checked = false
		}
		return
	}
	for i := len(g.holders) - 1; i >= 0; i-- {
		t := g.holders[i]
		now := int64(0)
		if t.progress != nil {
			now = t.progress.Load()
		}
		if t.checked && now == t.seen {
			g.unhold(t)
			continue
		}
		t.checked, t.seen = true, now
	}
	g.admit()
}
