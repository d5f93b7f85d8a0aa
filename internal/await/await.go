// Package await lets many goroutines, with contexts, wait for work of a device.
//
// On hardware a [Poller] waits for streams and events by asking the driver. A driver call
// that waits cannot be replaced everywhere: there is none that asks about a whole context,
// and on the software GPU asking takes virtual time. There a [Group] makes the call. It
// belongs to an object that is waited for: a stream, an event or a GPU. At most one
// goroutine of a Group is in the driver, however many callers wait and give up.
//
// The locks of both are leaves, and are not held across a driver call.
package await

import (
	"context"
	"errors"
	"sync"
)

// Group waits on behalf of many callers. The zero Group is ready to use.
type Group struct {
	mu      sync.Mutex
	started uint64 // rounds that have started
	round   *round // the round in progress, nil if there is none
}

// round is one driver call, on a goroutine of its own.
type round struct {
	number    uint64
	done      chan struct{} // closed when the round has ended
	listeners int           // callers that wait for the round
	ended     bool
	err       error
}

// Wait waits for a call of sync that begins after Wait, and returns its error or that of
// ctx. Callers share calls of sync. If ctx ends while sync runs, and no caller is left to
// return the error of sync, lost gets the error.
//
// In a host function the driver refuses a wait. It would not refuse the goroutine of a
// round, so the caller must check that before.
func (g *Group) Wait(ctx context.Context, sync func() error, lost func(error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	need := g.started + 1
	g.mu.Unlock()
	for {
		r := g.join(sync, lost)
		select {
		case <-r.done:
		case <-ctx.Done():
			if err, ended := g.quit(r); !ended || err == nil {
				return ctx.Err()
			}
		}
		if r.err != nil || r.number >= need {
			return r.err
		}
	}
}

// join waits for the round in progress as a listener, and starts a round if there is none.
func (g *Group) join(sync func() error, lost func(error)) *round {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.round == nil {
		g.started++
		g.round = &round{number: g.started, done: make(chan struct{})}
		go g.run(g.round, sync, lost)
	}
	g.round.listeners++
	return g.round
}

// quit removes a listener from a round. If the round has ended, the caller must return its
// error.
func (g *Group) quit(r *round) (err error, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.listeners--
	return r.err, r.ended
}

// run is the goroutine of a round. The round also ends if sync ends the goroutine.
func (g *Group) run(r *round, sync func() error, lost func(error)) {
	err := errNoReturn
	defer func() { g.end(r, err, lost) }()
	err = sync()
}

// errNoReturn is the error of a round whose call did not return.
var errNoReturn = errors.New("the driver call did not return")

// end ends a round with the result of its call.
func (g *Group) end(r *round, err error, lost func(error)) {
	g.mu.Lock()
	r.err, r.ended = err, true
	g.round = nil
	heard := r.listeners > 0
	g.mu.Unlock()
	close(r.done)
	if err != nil && !heard {
		lost(err)
	}
}
