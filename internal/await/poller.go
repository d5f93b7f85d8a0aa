package await

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Poller waits on behalf of all goroutines that wait for one GPU. It asks the driver
// whether their work is done, and never waits in the driver. So a wait needs no thread of
// its own. It is safe for concurrent use.
//
// A few goroutines that wait may ask for a short time themselves, which is the fastest.
// More of them, or those that wait longer, are parked: they sleep, and one goroutine asks
// for all in turn. It exists only while there are parked goroutines. Each turn asks
// everybody, so nobody waits for ever while others are served.
type Poller struct {
	set    Settings
	thread Thread

	crowd    crowd
	spinning atomic.Int32 // goroutines that ask themselves
	parked   atomic.Int32 // those that would, if there were fewer
	asking   sync.Mutex   // is held while the goroutine of run asks
	nap      func(time.Duration)

	mu      sync.Mutex
	arrived []*waiter // since the last turn
	running bool      // there is a goroutine of run

	runTask func()    // p.run, so that its start allocates nothing
	all     []*waiter // the parked; belongs to the goroutine of run
}

// Settings are how a [Poller] waits.
type Settings struct {
	Spin    time.Duration // how long a goroutine asks itself before it is parked
	Busy    time.Duration // how long the poller asks without a pause after something has changed
	Pause   time.Duration // the shortest pause
	Waiters int           // the most goroutines that ask themselves; if more wait, all are parked
}

// The pauses grow to these parts of the time since something changed, but not above
// maxPause.
const (
	pauseShare  = 1. / 128
	sleepyShare = 1. / 16 // if all waits are sleepy
	maxPause    = time.Millisecond
)

// Thread prepares a thread to ask the driver. The goroutine is locked to its thread.
type Thread interface {
	Enter() (state uint32)
	Leave(state uint32)
}

// Target is what a goroutine waits for, such as the work of a stream.
type Target interface {
	// Ask asks the driver, without waiting. It returns cu.ErrorNotReady until the work is
	// done, and then the result of the work.
	Ask() error
	// Abandoned is called when the poller has no more use for the target, after its caller
	// gave up. err is an error of Ask that the caller did not get, or nil.
	Abandoned(err error)
}

// waiter is a parked goroutine, or a channel to be closed.
type waiter struct {
	target Target
	sleepy bool
	gone   atomic.Bool   // its goroutine gave up, or has its result
	result chan error    // capacity 1
	notify chan struct{} // is closed instead of result, if not nil
}

// counts reports whether the waiter is one of those that may make a crowd.
func (w *waiter) counts() bool { return w.notify == nil && !w.sleepy }

// waiters has waiters that no goroutine uses.
var waiters = sync.Pool{New: func() any { return &waiter{result: make(chan error, 1)} }}

// NewPoller makes a poller. thread may be nil.
func NewPoller(set Settings, thread Thread) *Poller {
	p := &Poller{set: set, thread: thread, nap: nap}
	p.runTask = p.run
	return p
}

// Wait waits until t is done or ctx ends, and returns the error of t or of ctx. A sleepy
// wait is parked at once and costs little processor time, but notices the end later. If
// kept is true, the poller still uses t, and calls t.Abandoned when it does not any more.
func (p *Poller) Wait(ctx context.Context, t Target, sleepy bool) (kept bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if done, err := p.spin(ctx, t, sleepy); done {
		p.crowd.pass()
		return false, err
	}
	return p.park(ctx, t, sleepy)
}

// Quiet calls f while the poller makes no call for a waiter. p may be nil.
func (p *Poller) Quiet(f func()) {
	if p != nil {
		p.asking.Lock()
		defer p.asking.Unlock()
	}
	f()
}

// Notify closes c when t is done. Then it calls t.Abandoned with the error of t.
func (p *Poller) Notify(t Target, c chan struct{}) {
	p.add(&waiter{target: t, notify: c})
}

// asksPerYield is the number of asks after which a spinning goroutine lets others run, if any
// can. asksPerYieldOfMany replaces it while nearly Waiters goroutines spin. If no other
// goroutine can run, a yield wakes a thread for nothing: with one goroutine that cost 0.25 of
// a processor.
const asksPerYield, asksPerYieldOfMany = 32, 8

// spin asks on the calling goroutine: once and, if the goroutine may spin, until the time
// for that is over. A crowd may not spin, because those that spin would be served first.
func (p *Poller) spin(ctx context.Context, t Target, sleepy bool) (done bool, err error) {
	if done, err = p.ask(t, 1); done || sleepy {
		return done, err
	}
	defer p.spinning.Add(-1)
	if int(p.spinning.Add(1)+p.parked.Load()) > p.set.Waiters {
		return false, nil
	}
	for begin := time.Now(); time.Since(begin) < p.set.Spin && ctx.Err() == nil; {
		asks := asksPerYield
		if int(p.spinning.Load()) > p.set.Waiters/2 {
			asks = asksPerYieldOfMany
		}
		if done, err = p.ask(t, asks); done {
			return true, err
		}
		if p.crowd.look() > 0 {
			runtime.Gosched()
		}
	}
	return false, nil
}

// ask asks at most n times.
func (p *Poller) ask(t Target, n int) (done bool, err error) {
	defer p.leave(p.enter())
	for range n {
		if err = t.Ask(); !notReady(err) {
			return true, err
		}
	}
	return false, nil
}

func (p *Poller) enter() (state uint32) {
	if p.thread == nil {
		return 0
	}
	runtime.LockOSThread()
	return p.thread.Enter()
}

func (p *Poller) leave(state uint32) {
	if p.thread != nil {
		p.thread.Leave(state)
		runtime.UnlockOSThread()
	}
}

func notReady(err error) bool {
	return err == cu.ErrorNotReady || err != nil && errors.Is(err, cu.ErrorNotReady)
}

// park sleeps until t is done or ctx ends.
func (p *Poller) park(ctx context.Context, t Target, sleepy bool) (kept bool, err error) {
	w := waiters.Get().(*waiter)
	w.target, w.sleepy = t, sleepy
	p.add(w)
	select {
	case err = <-w.result:
	case <-ctx.Done():
		if !w.gone.Swap(true) {
			return true, ctx.Err() // the poller forgets w
		}
		err = <-w.result
	}
	w.target = nil
	w.gone.Store(false)
	waiters.Put(w)
	return false, err
}

// add gives a waiter to the goroutine of run, and starts that if there is none.
func (p *Poller) add(w *waiter) {
	if w.counts() {
		p.parked.Add(1)
	}
	p.mu.Lock()
	p.arrived = append(p.arrived, w)
	start := !p.running
	p.running = true
	p.mu.Unlock()
	if start {
		go p.runTask()
	}
}

// run asks for all parked goroutines in turn, until there are none. Only run wakes them.
func (p *Poller) run() {
	defer p.leave(p.enter())
	crowded := runtime.GOMAXPROCS(0) < 3 // with so few processors, woken goroutines run only after this one sleeps
	changed := time.Now()
	for {
		arrived, more := p.take()
		if !more {
			return
		}
		ended, sleepy := p.turn()
		if ended > 0 || arrived {
			changed = time.Now()
		}
		if ended == 0 || crowded {
			runtime.Gosched()
		}
		switch idle := time.Since(changed); {
		case sleepy:
			p.nap(p.pause(idle, sleepyShare))
		case idle > p.set.Busy:
			p.nap(p.pause(idle, pauseShare))
		}
	}
}

// pause returns how long to sleep when nothing has changed for a time.
func (p *Poller) pause(idle time.Duration, share float64) time.Duration {
	return max(p.set.Pause, min(time.Duration(share*float64(idle)), maxPause))
}

// take makes those who have arrived part of all. Without more, run must end.
func (p *Poller) take() (arrived, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	arrived = len(p.arrived) > 0
	p.all = append(p.all, p.arrived...)
	clear(p.arrived)
	p.arrived = p.arrived[:0]
	p.running = len(p.all) > 0
	return arrived, p.running
}

// turn asks once for each waiter and removes those that have ended. sleepy reports whether
// all others are.
func (p *Poller) turn() (ended int, sleepy bool) {
	p.asking.Lock()
	defer p.asking.Unlock()
	left := p.all[:0]
	sleepy = true
	for _, w := range p.all {
		if p.serve(w) {
			ended++
		} else {
			left = append(left, w)
			sleepy = sleepy && w.sleepy
		}
	}
	clear(p.all[len(left):])
	p.all = left
	return ended, sleepy && len(left) > 0
}

// serve asks for one waiter, and reports whether that has ended. The owner may reuse a
// waiter as soon as it has the result.
func (p *Poller) serve(w *waiter) (ended bool) {
	var err error
	if !w.gone.Load() {
		if err = w.target.Ask(); notReady(err) {
			return false
		}
	}
	if w.counts() {
		p.parked.Add(-1)
	}
	switch {
	case w.notify != nil:
		close(w.notify)
		w.target.Abandoned(err)
	case w.gone.Swap(true):
		w.target.Abandoned(err)
	default:
		w.result <- err
	}
	return true
}
