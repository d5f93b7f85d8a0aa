package workers

import (
	"sync"
	"sync/atomic"
	"time"
)

// Pool is goroutines, called workers, that wait for work. It starts them when work first
// needs them, and keeps them. The zero value is an empty pool, ready for use. A Pool is
// safe for concurrent use.
//
// Each worker waits on a thread of its own. The Go scheduler wakes processors one after
// the other, which takes some 40 microseconds each. So the last of twelve goroutines
// begins half a millisecond after the first. On Linux one system call wakes all workers
// of a Pool within some 70 microseconds.
//
// A worker that has worked may linger: it looks for more work before it sleeps, so that the next
// Start need not wake it. It does so for at most as long as it has worked.
type Pool struct {
	// These are set before the first Start. Linger is the most time that a worker lingers. Lingerers
	// is the most workers that linger and that no Start counts on. Those that it counts on can linger
	// for a moment more. SaveCPU, if not nil, reports whether no worker lingers now.
	Linger    time.Duration
	Lingerers int
	SaveCPU   func() bool

	workers   atomic.Int64 // goroutines that exist
	busy      atomic.Int64 // workers that work on a job
	unclaimed atomic.Int64 // places in jobs that no worker has taken yet
	keep      atomic.Int64 // how many idle workers may stay: the largest n of a Start
	closed    atomic.Bool
	notify    notifier
	// lingering is at most the number of workers that linger, less those that a Start has counted on.
	lingering atomic.Int64

	mu     sync.Mutex          // held by Start, which alone changes the list of jobs
	jobs   atomic.Pointer[Job] // the oldest job of the list
	worker func()              // serve: a go statement with it allocates nothing
}

// Job is a function that several workers of one pool call. It can be started again at any time, but not
// in another pool. Work does not change after the first Start.
//
// Workers read the list of jobs while Start changes it. One that reads a job which is taken out of the
// list, or added again, may miss other jobs. It looks again before it sleeps, because the Start that
// did that has added a notification.
type Job struct {
	Work func()

	missing atomic.Int64        // workers that the job still wants; negative when more have asked
	next    atomic.Pointer[Job] // the next one in the list
}

// Start makes n workers call j.Work, once each, and does not wait for them. Workers that are busy do
// not count: Start starts other goroutines instead.
func (p *Pool) Start(n int, j *Job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := j.missing.Load()
	for !j.missing.CompareAndSwap(m, max(m, 0)+int64(n)) {
		m = j.missing.Load()
	}
	p.append(j)
	if p.worker == nil {
		p.worker = p.serve
	}
	p.keep.Store(max(p.keep.Load(), int64(n)))
	for lacking := p.unclaimed.Add(int64(n)) - p.workers.Load() + p.busy.Load(); lacking > 0; lacking-- {
		p.workers.Add(1)
		go p.worker()
	}
	p.notify.add()
	if !p.countOn(int64(n)) {
		p.notify.wake()
	}
}

// append moves a job to the end of the list, and takes out those that want no worker. p.mu is held.
func (p *Pool) append(j *Job) {
	last := &p.jobs
	for x := last.Load(); x != nil; x = last.Load() {
		if x == j || x.missing.Load() <= 0 {
			last.Store(x.next.Load())
		} else {
			last = &x.next
		}
	}
	j.next.Store(nil)
	last.Store(j)
}

// countOn takes n lingering workers off the count, if there are as many. They have seen the
// notification that was added before, or will.
func (p *Pool) countOn(n int64) bool {
	for l := p.lingering.Load(); l >= n; l = p.lingering.Load() {
		if p.lingering.CompareAndSwap(l, l-n) {
			return true
		}
	}
	return false
}

// Close ends the workers when they have finished their jobs. It does not wait for them.
// A Start after Close still works; its workers end when they have done that job.
func (p *Pool) Close() {
	p.closed.Store(true)
	p.notify.add()
	p.notify.wake()
}

// serve runs jobs in a worker until the worker retires.
func (p *Pool) serve() {
	worked := time.Duration(0) // in a job after which it has not lingered
	for {
		seen := p.notify.count()
		if j := p.take(); j != nil {
			began := time.Now()
			j.Work()
			p.busy.Add(-1)
			worked = time.Since(began)
			continue
		}
		most := worked
		worked = 0
		if p.linger(seen, most) {
			continue
		}
		n := p.workers.Load()
		if !p.surplus(n) {
			p.notify.wait(seen)
		} else if p.retire(n) {
			return
		}
	}
}

// linger looks for a notification other than seen, for at most a time, and reports whether there
// is one.
func (p *Pool) linger(seen uint32, most time.Duration) bool {
	most = min(most, p.Linger)
	if most == 0 || p.SaveCPU != nil && p.SaveCPU() || p.lingering.Load() >= int64(p.Lingerers) {
		return false
	}
	p.lingering.Add(1)
	defer p.countOn(1)
	for began := time.Now(); time.Since(began) < most; {
		for range 64 { // some 100 ns
			if p.notify.count() != seen {
				return true
			}
		}
	}
	return false
}

// take claims a place in the oldest job that wants another worker. It returns nil if
// there is none. The caller must do the work.
func (p *Pool) take() *Job {
	for j := p.jobs.Load(); j != nil; j = j.next.Load() {
		if j.missing.Load() > 0 && j.missing.Add(-1) >= 0 {
			p.busy.Add(1) // first, so that no worker counts as idle for two jobs
			p.unclaimed.Add(-1)
			return j
		}
	}
	return nil
}

// surplus reports whether n workers are more than the pool needs. It needs the busy
// workers, and as many idle ones as it keeps.
func (p *Pool) surplus(n int64) bool {
	return p.closed.Load() || n-p.busy.Load() > p.keep.Load()
}

// retire takes one of n workers off the count. It reports whether the worker must end. It
// returns false if the count has changed, or if a Start has counted on this worker.
func (p *Pool) retire(n int64) bool {
	if !p.workers.CompareAndSwap(n, n-1) {
		return false
	}
	if p.unclaimed.Load() == 0 {
		return true
	}
	p.workers.Add(1)
	return false
}
