package await

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// work is a Target that is done at some ask, or when the test says so.
type work struct {
	readyAt   int32 // the number of the ask that finds it done; 0 is never
	ready     atomic.Bool
	err       error
	asks      atomic.Int32
	seen      func() // is called by each ask, if not nil
	abandoned chan error
}

func newWork() *work { return &work{abandoned: make(chan error, 2)} }

func (w *work) Ask() error {
	if w.seen != nil {
		w.seen()
	}
	if n := w.asks.Add(1); w.ready.Load() || w.readyAt > 0 && n >= w.readyAt {
		return w.err
	}
	return cu.ErrorNotReady
}

func (w *work) Abandoned(err error) { w.abandoned <- err }

// threads counts the goroutines that ask.
type threads struct{ entered, left atomic.Int32 }

func (t *threads) Enter() uint32 { return uint32(t.entered.Add(1)) }
func (t *threads) Leave(uint32)  { t.left.Add(1) }

// Settings for goroutines that are parked at once, and for goroutines that never are.
var (
	parkAtOnce  = Settings{Busy: time.Hour, Pause: time.Microsecond}
	alwaysSpins = Settings{Spin: time.Hour, Busy: time.Hour, Waiters: 1000}
)

// idle waits until no goroutine asks for others.
func idle(t *testing.T, p *Poller) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		running := p.running
		p.mu.Unlock()
		if !running {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the poller does not end")
		}
	}
}

// TestPollerResult checks that a wait returns the result of its work, whether its goroutine
// asks or the poller, and that each Enter has a Leave.
func TestPollerResult(t *testing.T) {
	for name, set := range map[string]Settings{"spin": alwaysSpins, "park": parkAtOnce} {
		for _, sleepy := range []bool{false, true} {
			for _, want := range []error{nil, errPlanted} {
				var seen threads
				p := NewPoller(set, &seen)
				for readyAt := range int32(20) {
					w := newWork()
					w.readyAt, w.err = readyAt+1, want
					kept, err := p.Wait(t.Context(), w, sleepy)
					if kept || err != want || w.asks.Load() != w.readyAt {
						t.Errorf("%s, sleepy %v: got %v, kept %v after %d asks, want %v after %d", name, sleepy, err, kept, w.asks.Load(), want, w.readyAt)
					}
				}
				idle(t, p)
				for range 1000 { // the poller leaves after it is idle
					if seen.entered.Load() == seen.left.Load() {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if e, l := seen.entered.Load(), seen.left.Load(); e != l || e == 0 || p.parked.Load() != 0 || p.spinning.Load() != 0 {
					t.Errorf("%s: entered %d times and left %d times; %d parked, %d spinning", name, e, l, p.parked.Load(), p.spinning.Load())
				}
			}
		}
	}
}

// TestPollerGivesUp checks that a wait ends with its context, and that its work is
// abandoned once then, with the error that the caller did not get.
func TestPollerGivesUp(t *testing.T) {
	for _, want := range []error{nil, errPlanted} {
		p := NewPoller(parkAtOnce, nil)
		w := newWork()
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan struct{})
		w.seen = func() {
			if w.asks.Load() == 3 { // the poller asks
				cancel()
				<-returned
				w.err = want
				w.ready.Store(want != nil)
			}
		}
		kept, err := p.Wait(ctx, w, false)
		if !kept || err != context.Canceled {
			t.Fatalf("got %v, kept %v, want %v, kept", err, kept, context.Canceled)
		}
		close(returned)
		select {
		case err := <-w.abandoned:
			if err != want {
				t.Errorf("abandoned with %v, want %v", err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("it was never abandoned")
		}
		idle(t, p)
		if w.asks.Load() != 4 || len(w.abandoned) != 0 {
			t.Errorf("%d asks, want 4; abandoned %d times more", w.asks.Load(), len(w.abandoned))
		}
	}
}

// TestPollerEndedContext checks that nothing is asked for a context that has ended, and
// that a goroutine that asks notices the end.
func TestPollerEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWork()
	w.seen = func() {
		if w.asks.Load() == 1000 {
			cancel()
		}
	}
	p := NewPoller(alwaysSpins, nil)
	if kept, err := p.Wait(ctx, w, false); err != context.Canceled {
		t.Errorf("got %v, kept %v, want %v", err, kept, context.Canceled)
	}
	asks := w.asks.Load()
	if kept, err := p.Wait(ctx, w, false); kept || err != context.Canceled || w.asks.Load() != asks {
		t.Errorf("got %v, kept %v after %d asks more, want %v after none", err, kept, w.asks.Load()-asks, context.Canceled)
	}
}

// park makes the poller ask for n works that are not done, and returns when it has asked for
// each. seen is called by each ask.
func park(t *testing.T, p *Poller, n int, seen func(i int)) (all []*work) {
	t.Helper()
	for i := range n {
		w := newWork()
		w.seen = func() { seen(i) }
		all = append(all, w)
		p.Notify(w, make(chan struct{}))
	}
	t.Cleanup(func() {
		for _, w := range all {
			w.ready.Store(true)
		}
		idle(t, p)
	})
	for _, w := range all {
		for w.asks.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return all
}

// TestPollerCrowd checks that a goroutine does not ask for long itself if many others wait,
// or if its wait is sleepy. Channels and sleepy waits make no crowd.
func TestPollerCrowd(t *testing.T) {
	set := alwaysSpins
	set.Waiters, set.Pause = 4, time.Microsecond
	for _, x := range []struct {
		parked       int
		sleepy, want bool
	}{{3, false, false}, {4, false, true}, {0, true, true}} {
		p := NewPoller(set, nil)
		park(t, p, 10, func(int) {})
		p.parked.Add(int32(x.parked))
		w := newWork()
		w.readyAt = 100
		var byPoller, crowd atomic.Bool
		w.seen = func() {
			byPoller.Store(p.spinning.Load() == 0 && w.asks.Load() > 0)
			crowd.Store(p.parked.Load() > int32(x.parked))
		}
		if _, err := p.Wait(t.Context(), w, x.sleepy); err != nil {
			t.Error(err)
		}
		if byPoller.Load() != x.want || crowd.Load() != (x.want && !x.sleepy) {
			t.Errorf("beside %d that wait, sleepy %v: the poller asked: %v, want %v; it counts: %v", x.parked, x.sleepy, byPoller.Load(), x.want, crowd.Load())
		}
	}
}

// TestPollerNaps checks that the poller sleeps between questions, at once if all waits are
// sleepy, and otherwise when nothing has happened for the time Busy.
func TestPollerNaps(t *testing.T) {
	for _, x := range []struct {
		busy         time.Duration
		sleepy, naps bool
	}{{time.Hour, false, false}, {time.Hour, true, true}, {0, false, true}} {
		p := NewPoller(Settings{Busy: x.busy, Pause: time.Microsecond}, nil)
		naps := 0
		p.nap = func(time.Duration) { naps++ }
		w := newWork()
		w.readyAt = 100
		if _, err := p.Wait(t.Context(), w, x.sleepy); err != nil {
			t.Error(err)
		}
		idle(t, p)
		if x.naps && naps < 90 || !x.naps && naps > 0 {
			t.Errorf("busy %v, sleepy %v: %d naps between 100 questions", x.busy, x.sleepy, naps)
		}
	}
}

// TestPollerQuiet checks that the poller asks for nobody during Quiet.
func TestPollerQuiet(t *testing.T) {
	p := NewPoller(parkAtOnce, nil)
	all := park(t, p, 10, func(int) {})
	for range 100 {
		p.Quiet(func() {
			before := all[3].asks.Load()
			for range 100 {
				runtime.Gosched()
			}
			if n := all[3].asks.Load() - before; n > 0 {
				t.Fatalf("%d questions during Quiet", n)
			}
		})
	}
	(*Poller)(nil).Quiet(func() { all = nil })
	if all != nil {
		t.Error("without a poller f was not called")
	}
}

// TestPollerTurns checks that the poller asks for all in turn.
func TestPollerTurns(t *testing.T) {
	const n = 100
	p := NewPoller(parkAtOnce, nil)
	var mu sync.Mutex
	var order []int
	started := false
	done := make(chan struct{})
	park(t, p, n, func(i int) {
		mu.Lock()
		defer mu.Unlock()
		if started && len(order) < 10*n {
			if order = append(order, i); len(order) == 10*n {
				close(done)
			}
		}
	})
	mu.Lock()
	started = true
	mu.Unlock()
	<-done
	for i := range order[:9*n] {
		if order[i] != order[i+n] {
			t.Fatalf("ask %d is for %d, and ask %d for %d", i, order[i], i+n, order[i+n])
		}
	}
}

// TestPollerManyWaiters checks that each of many goroutines gets its own result, while some
// give up and others come.
func TestPollerManyWaiters(t *testing.T) {
	const n, rounds = 500, 20
	p := NewPoller(Settings{Spin: 10 * time.Microsecond, Busy: time.Millisecond, Pause: time.Microsecond, Waiters: 8}, nil)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			mine := errors.New("mine")
			for r := range rounds {
				w := newWork()
				w.readyAt, w.err = int32(1+(i*7+r*13)%50), mine
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					w.seen = func() {
						if w.asks.Load() == 20 {
							cancel()
						}
					}
				}
				kept, err := p.Wait(ctx, w, i%5 == 0)
				cancel()
				switch {
				case err == mine && !kept:
				case err == context.Canceled && i%3 == 0:
					if kept {
						<-w.abandoned
					}
				default:
					t.Errorf("got %v, kept %v", err, kept)
				}
			}
		})
	}
	all.Wait()
	idle(t, p)
	if p.parked.Load() != 0 || p.spinning.Load() != 0 {
		t.Errorf("%d parked, %d spinning at the end", p.parked.Load(), p.spinning.Load())
	}
}

// TestPollerNotify checks that a channel is closed when its work is done, and not before,
// and that the work is abandoned then with its error.
func TestPollerNotify(t *testing.T) {
	p := NewPoller(parkAtOnce, nil)
	w, c := newWork(), make(chan struct{})
	w.err = errPlanted
	p.Notify(w, c)
	for w.asks.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-c:
		t.Fatal("closed before the work is done")
	default:
	}
	w.ready.Store(true)
	<-c
	if err := <-w.abandoned; err != errPlanted {
		t.Errorf("abandoned with %v, want %v", err, errPlanted)
	}
	idle(t, p)
}

// TestPollerPauses checks how long the poller sleeps.
func TestPollerPauses(t *testing.T) {
	p := NewPoller(Settings{Pause: 50 * time.Microsecond}, nil)
	for _, x := range []struct {
		idle         time.Duration
		pause, share float64
	}{
		{0, 50e-6, pauseShare}, {12800 * time.Microsecond, 100e-6, pauseShare}, {time.Hour, 1e-3, pauseShare},
		{0, 50e-6, sleepyShare}, {1600 * time.Microsecond, 100e-6, sleepyShare}, {time.Hour, 1e-3, sleepyShare},
	} {
		if got := p.pause(x.idle, x.share).Seconds(); got < 0.99*x.pause || got > 1.01*x.pause {
			t.Errorf("after %v the pause is %v s, want %v", x.idle, got, x.pause)
		}
	}
}

// TestPollerAllocations checks that waits allocate nothing.
func TestPollerAllocations(t *testing.T) {
	for name, set := range map[string]Settings{"spin": alwaysSpins, "park": parkAtOnce} {
		p := NewPoller(set, nil)
		w := newWork()
		if n := testing.AllocsPerRun(1000, func() {
			w.asks.Store(0)
			w.readyAt = 10
			if _, err := p.Wait(t.Context(), w, false); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("%s: a wait allocates %v times", name, n)
		}
	}
}

// A goroutine whose work is always done must let others run, long before the scheduler
// stops it after 10 ms.
func TestWaitsThatNeverSleepLetOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := NewPoller(alwaysSpins, nil)
	w := newWork()
	w.ready.Store(true)
	for try := range 100 {
		ran := make(chan struct{})
		go close(ran)
		waits, begin := 0, time.Now()
		for done := false; !done && time.Since(begin) < 5*time.Millisecond; waits++ {
			if _, err := p.Wait(context.Background(), w, false); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ran:
				done = true
			default:
			}
		}
		if waits <= 2*waitsPerLook && time.Since(begin) < 5*time.Millisecond {
			return
		}
		t.Logf("try %d: %d waits in %v", try, waits, time.Since(begin))
		<-ran
	}
	t.Error("another goroutine did not run between waits")
}

// TestTurn checks that a processor's turn is over each turnTime, and not with each wait. A pool of a
// race build forgets some turns.
func TestTurn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c crowd
	over, now := 0, time.Now()
	for range 1000 {
		if now = now.Add(turnTime / 5); c.over(now) {
			over++
		}
	}
	if over < 50 || over > 200 {
		t.Errorf("%d turns ended in the time of 200", over)
	}
}

// Only goroutines that can run make a crowd, not those that sleep.
func TestCrowd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var c crowd
	stop := make(chan struct{})
	defer close(stop)
	for range 100 {
		go func() { <-stop }()
	}
	for c.look() > 0 { // until all have run
		runtime.Gosched()
	}
	if c.yields.Load() {
		t.Error("there is a crowd of goroutines that sleep")
	}
	for range 5 {
		go func() { <-stop }()
	}
	if n := c.look(); n < 5 || !c.yields.Load() {
		t.Errorf("%d goroutines can run, crowd: %v; want 5 and a crowd", n, c.yields.Load())
	}
}
