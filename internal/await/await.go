// Package await lets callers with a context wait for a driver call that has none.
//
// A [Group] belongs to one thing that is waited for: a stream, an event, a GPU. At
// most one of its goroutines is in the driver, however many callers come and give
// up. [Poll] asks for a short while first, which is quicker for short work.
//
// Group.mu is a leaf lock, not held across a call of the driver.
package await

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Poll calls query until it returns anything but cu.ErrorNotReady, spin has passed,
// or ctx ends. done reports whether query answered; err is its answer.
func Poll(ctx context.Context, spin time.Duration, query func() error) (done bool, err error) {
	for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < spin; {
		if err := query(); !errors.Is(err, cu.ErrorNotReady) {
			return true, err
		}
	}
	return false, nil
}

// Group waits on behalf of many callers. The zero Group is ready.
type Group struct {
	mu      sync.Mutex
	started uint64 // rounds so far
	round   *round // the one in progress, nil if there is none
}

// round is one call of the driver.
type round struct {
	number    uint64
	done      chan struct{}
	listeners int
	ended     bool
	err       error
}

// Wait calls sync, in a call that begins after this call of Wait, and returns its
// error or ctx's. If ctx ended while sync runs and no caller is left to get its error,
// lost gets it. Without anything to end ctx, Wait is sync.
//
// Within a host function, where the driver refuses, the goroutine of a round would
// not be refused: the caller must look before.
func (g *Group) Wait(ctx context.Context, sync func() error, lost func(error)) error {
	if ctx.Done() == nil {
		return sync()
	}
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

// join listens to the round in progress, and starts one if there is none.
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

// quit stops listening. If the round has ended, its error belongs to the caller.
func (g *Group) quit(r *round) (err error, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r.listeners--
	return r.err, r.ended
}

// run is the goroutine of a round.
func (g *Group) run(r *round, sync func() error, lost func(error)) {
	err := sync()
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

// Context is ctx, or context.Background() where a caller gave nil.
func Context(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
