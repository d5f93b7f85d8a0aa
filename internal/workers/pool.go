package workers

import (
	"slices"
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

	mu   sync.Mutex             // held by Start, which alone adds jobs
	jobs atomic.Pointer[[]*job] // the slice is never changed, only replaced
}

// job is a function that several workers call.
type job struct {
	work    func()
	missing atomic.Int64 // workers that the job still wants; negative when more have asked
}

// Start makes n workers call work, once each, and does not wait for them. Workers that
// are busy do not count: Start starts other goroutines instead.
func (p *Pool) Start(n int, work func()) {
	j := &job{work: work}
	j.missing.Store(int64(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	var jobs []*job
	if old := p.jobs.Load(); old != nil {
		jobs = slices.DeleteFunc(slices.Clone(*old), func(j *job) bool { return j.missing.Load() <= 0 })
	}
	jobs = append(jobs, j)
	p.jobs.Store(&jobs)
	p.keep.Store(max(p.keep.Load(), int64(n)))
	for lacking := p.unclaimed.Add(int64(n)) - p.workers.Load() + p.busy.Load(); lacking > 0; lacking-- {
		p.workers.Add(1)
		go p.serve()
	}
	p.notify.add()
	if !p.countOn(int64(n)) {
		p.notify.wake()
	}
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
			j.work()
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
func (p *Pool) take() *job {
	jobs := p.jobs.Load()
	if jobs == nil {
		return nil
	}
	for _, j := range *jobs {
		if j.missing.Load() > 0 && j.missing.Add(-1) >= 0 {
			p.busy.Add(1) // first, so that no worker counts as idle for two jobs
			p.unclaimed.Add(-1)
			return j
		}
	}
	p.jobs.CompareAndSwap(jobs, nil) // releases what the jobs refer to
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
