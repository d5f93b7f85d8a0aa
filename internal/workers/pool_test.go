package workers

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// together starts work on n workers that ends only when all n are in it.
func together(p *Pool, n int) {
	var begun, ended sync.WaitGroup
	begun.Add(n)
	ended.Add(n)
	p.Start(n, &Job{Work: func() {
		begun.Done()
		begun.Wait()
		ended.Done()
	}})
	ended.Wait()
}

// TestPoolTogether: as many workers as were asked for work at the same time, call after
// call.
func TestPoolTogether(t *testing.T) {
	for _, l := range lingers {
		p := Pool{Linger: l.most, Lingerers: l.workers}
		for _, n := range []int{1, 5, 12, 3, 12, 40, 1} {
			for range l.rounds {
				together(&p, n)
			}
		}
		p.Close()
	}
}

// lingers are kinds of pools: no worker lingers, one, many, each for long or for a moment.
var lingers = []struct {
	most    time.Duration
	workers int
	rounds  int // for tests
}{
	{0, 0, 20},
	{time.Second, 1, 5},
	{20 * time.Microsecond, 100, 5},
	{time.Second, 100, 5},
}

// TestPoolConcurrentStarts: each of many concurrent calls gets all of its workers, while
// surplus workers leave.
func TestPoolConcurrentStarts(t *testing.T) {
	for _, l := range lingers {
		for _, most := range []int{1, 4} {
			p := Pool{Linger: l.most, Lingerers: l.workers}
			var all sync.WaitGroup
			for g := range 8 {
				all.Go(func() {
					for i := range 10 * l.rounds {
						together(&p, 1+(g+i)%most)
					}
				})
			}
			all.Wait()
			p.Close()
			if n := p.unclaimed.Load(); n != 0 {
				t.Errorf("%d places in jobs are unclaimed, want 0", n)
			}
			eventually(t, "workers of a closed pool", &p.workers, 0)
		}
	}
}

// oneLingers waits until a worker lingers.
func oneLingers(t *testing.T, p *Pool) {
	t.Helper()
	for began := time.Now(); p.lingering.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatal("no worker lingers")
		}
	}
}

// TestPoolLinger: workers that have worked linger for as long as that. A Start counts on them once.
func TestPoolLinger(t *testing.T) {
	p := Pool{Linger: time.Hour, Lingerers: 2}
	defer p.Close()
	p.Start(1, &Job{Work: func() { time.Sleep(300 * time.Millisecond) }})
	oneLingers(t, &p)
	done := make(chan struct{})
	p.Start(1, &Job{Work: func() { close(done) }})
	if n := p.lingering.Load(); n > 0 {
		t.Errorf("%d lingering workers are not counted on after a Start, want none", n)
	}
	<-done
	eventually(t, "lingering workers after as long as they have worked", &p.lingering, 0)
	eventually(t, "busy workers", &p.busy, 0)
	p.lingering.Store(1) // two Starts cannot count on the same worker
	if !p.countOn(1) || p.countOn(1) {
		t.Error("a lingering worker was not counted on once")
	}
}

// TestPoolLingerSees: a worker that lingers sees a notification without a wake. It does not linger
// for more than the time that is left, beside as many others as may, or while processor time is to be
// saved.
func TestPoolLingerSees(t *testing.T) {
	save := false
	p := Pool{Linger: time.Hour, Lingerers: 1, SaveCPU: func() bool { return save }}
	seen := p.notify.count()
	if p.linger(seen, time.Millisecond) {
		t.Error("a worker saw a notification that did not come")
	}
	sees := make(chan bool)
	go func() { sees <- p.linger(seen, time.Hour) }()
	oneLingers(t, &p)
	if p.linger(seen-1, time.Hour) {
		t.Error("two workers linger, want one")
	}
	p.notify.add()
	if !<-sees || p.lingering.Load() != 0 {
		t.Errorf("a worker did not see a notification, or %d still linger", p.lingering.Load())
	}
	if save = true; p.linger(seen, time.Hour) {
		t.Error("a worker lingers although processor time is to be saved")
	}
	if q := (&Pool{Lingerers: 1}); q.linger(1, time.Hour) {
		t.Error("a worker of a pool without Linger lingers")
	}
}

// TestPoolJobAgain: jobs that are started again and again, also while workers still have to call them,
// are called once for each place.
func TestPoolJobAgain(t *testing.T) {
	for _, l := range lingers {
		p := Pool{Linger: l.most, Lingerers: l.workers}
		var all sync.WaitGroup
		for g := range 4 {
			var calls, want atomic.Int64
			j := &Job{Work: func() { calls.Add(1) }}
			all.Go(func() {
				for i := range 200 {
					n := 1 + (g+i)%3
					want.Add(int64(n))
					p.Start(n, j)
					for i%3 == 0 && calls.Load() != want.Load() { // else the next Start comes first
						time.Sleep(time.Microsecond)
					}
				}
			})
			t.Cleanup(func() {
				if calls.Load() != want.Load() {
					t.Errorf("%d calls, want %d", calls.Load(), want.Load())
				}
			})
		}
		all.Wait()
		eventually(t, "unclaimed places", &p.unclaimed, 0)
		eventually(t, "busy workers", &p.busy, 0)
		p.Close()
	}
}

// TestPoolStartAllocates: with workers that exist, Start allocates nothing.
func TestPoolStartAllocates(t *testing.T) {
	var p Pool
	defer p.Close()
	var wait sync.WaitGroup
	j := &Job{Work: wait.Done}
	if n := testing.AllocsPerRun(100, func() {
		wait.Add(3)
		p.Start(3, j)
		wait.Wait()
	}); n != 0 {
		t.Errorf("%g allocations, want none", n)
	}
}

// TestPoolLeave: a worker that a Start has counted on does not leave.
func TestPoolLeave(t *testing.T) {
	var p Pool
	p.workers.Store(2)
	p.unclaimed.Store(2) // two jobs for one worker each
	p.keep.Store(1)
	if !p.surplus(2) || p.retire(2) || p.workers.Load() != 2 {
		t.Errorf("a worker left that has work: %d workers, want 2", p.workers.Load())
	}
	p.unclaimed.Store(0)
	if !p.retire(2) || p.surplus(1) || p.workers.Load() != 1 {
		t.Errorf("%d workers, want 1 after a surplus worker has left", p.workers.Load())
	}
}

// TestPoolBusyWorkers: work does not wait for workers that hang in other work.
func TestPoolBusyWorkers(t *testing.T) {
	var p Pool
	defer p.Close()
	hang := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(3)
	p.Start(3, &Job{Work: func() { begun.Done(); <-hang }})
	begun.Wait()
	together(&p, 3)
	together(&p, 3)
	close(hang)
}

// TestPoolKeepsFew: after many calls at once a pool keeps no more workers than one call
// needs, and a closed pool keeps none.
func TestPoolKeepsFew(t *testing.T) {
	var p Pool
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { together(&p, 4) })
	}
	all.Wait()
	eventually(t, "workers", &p.workers, 4)
	together(&p, 4)
	p.Close()
	eventually(t, "workers of a closed pool", &p.workers, 0)
}

// eventually waits until n is at most most.
func eventually(t *testing.T, what string, n *atomic.Int64, most int64) {
	t.Helper()
	for begin := time.Now(); n.Load() > most; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("%d %s, want at most %d", n.Load(), what, most)
		}
	}
}

// TestNotifiers: a notification wakes all goroutines that wait, and a wait for one that
// has already come returns. The portable notifier is tested on every system.
func TestNotifiers(t *testing.T) {
	for name, n := range map[string]interface {
		count() uint32
		add()
		wake()
		wait(seen uint32)
	}{"system": new(notifier), "portable": new(condNotifier)} {
		var woken atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			seen := n.count()
			all.Go(func() {
				for n.count() == seen {
					n.wait(seen)
				}
				woken.Add(1)
			})
		}
		time.Sleep(time.Millisecond)
		n.add()
		n.wake()
		all.Wait()
		seen := n.count()
		n.add()
		n.wake()
		n.wait(seen)
		if woken.Load() != 8 {
			t.Errorf("%s: %d goroutines woke, want 8", name, woken.Load())
		}
	}
}

// BenchmarkPool measures the time until n workers have begun and ended.
func BenchmarkPool(b *testing.B) {
	for _, n := range []int{1, 2, 12} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			var p Pool
			defer p.Close()
			b.ReportAllocs()
			for b.Loop() {
				together(&p, n)
			}
		})
	}
}
