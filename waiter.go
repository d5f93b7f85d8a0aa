package ferry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// pollTime is for how long a wait with a context asks again and again before it
// hands the driver's wait to a goroutine, which takes 10 to 15 microseconds by
// itself. Most waits are for copies and kernels shorter than this.
const pollTime = 50 * time.Microsecond

// poll calls query until it gives anything but cu.ErrorNotReady, pollTime has
// passed, or ctx ends.
func poll(ctx context.Context, query func() error) (done bool, err error) {
	for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < pollTime; {
		if err := query(); !errors.Is(err, cu.ErrorNotReady) {
			return true, err
		}
	}
	return false, nil
}

// waiter lets callers with a context wait for a driver call that has none. At
// most one goroutine of a waiter is in the driver, however many callers come and
// give up.
type waiter struct {
	mu      sync.Mutex
	started uint64 // rounds so far
	round   *round // the one that runs, nil if none
}

// round is one call of the driver.
type round struct {
	number    uint64
	done      chan struct{}
	listeners int
	ended     bool
	err       error
}

// wait calls sync, which must have begun after this call of wait, and returns
// its error or ctx's. An error that nobody is left to hear goes to lost.
func (w *waiter) wait(ctx context.Context, g *GPU, sync func() error, lost func(error)) error {
	if ctx.Done() == nil {
		return sync()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// Within a host function the driver would refuse, but not the goroutine of a
	// round. This call asks nothing of the device and takes no time of its clock.
	if _, err := g.driver.DriverGetVersion(); inCallback(err) {
		return err
	}
	w.mu.Lock()
	need := w.started + 1
	w.mu.Unlock()
	for {
		r := w.join(sync, lost)
		select {
		case <-r.done:
		case <-ctx.Done():
			if err, ended := w.quit(r); !ended || err == nil {
				return ctx.Err()
			}
		}
		if r.err != nil || r.number >= need {
			return r.err
		}
	}
}

// join listens to the round that runs, starting one if none does.
func (w *waiter) join(sync func() error, lost func(error)) *round {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.round == nil {
		w.started++
		w.round = &round{number: w.started, done: make(chan struct{})}
		go w.run(w.round, sync, lost)
	}
	w.round.listeners++
	return w.round
}

// quit stops listening; if the round has ended, its error is the caller's.
func (w *waiter) quit(r *round) (err error, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.listeners--
	return r.err, r.ended
}

// run is the goroutine of a round.
func (w *waiter) run(r *round, sync func() error, lost func(error)) {
	err := sync()
	w.mu.Lock()
	r.err, r.ended = err, true
	w.round = nil
	heard := r.listeners > 0
	w.mu.Unlock()
	close(r.done)
	if err != nil && !heard {
		lost(err)
	}
}
