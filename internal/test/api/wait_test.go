package api

import (
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// threadDriver is a driver whose waits block a thread of the operating system each, as
// those of hardware do. Nothing is done before finish.
type threadDriver struct {
	*fakeDriver
	done    chan struct{}
	result  error        // of all work, set before done is closed
	waiting atomic.Int64 // calls that wait now
	most    atomic.Int64 // at once
	asked   atomic.Int64
	streams atomic.Uint64
}

func (d *threadDriver) wait() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := d.waiting.Add(1)
	defer d.waiting.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	<-d.done
	return d.result
}

func (d *threadDriver) ask() error {
	d.asked.Add(1)
	select {
	case <-d.done:
		return d.result
	default:
		return cu.ErrorNotReady
	}
}

func (d *threadDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	return cu.Stream(0x100 + d.streams.Add(1)), nil
}
func (d *threadDriver) StreamQuery(cu.Context, cu.Stream) error       { return d.ask() }
func (d *threadDriver) EventQuery(cu.Context, cu.Event) error         { return d.ask() }
func (d *threadDriver) StreamSynchronize(cu.Context, cu.Stream) error { return d.wait() }
func (d *threadDriver) EventSynchronize(cu.Context, cu.Event) error   { return d.wait() }
func (d *threadDriver) CtxSynchronize(cu.Context) error               { return d.wait() }

// TestManyWaiters: many goroutines that wait for one GPU, each in its own way, need hardly
// any threads, and all are served.
func TestManyWaiters(t *testing.T) {
	const waiters = 1000
	d := &threadDriver{fakeDriver: newFake(), done: make(chan struct{})}
	g := openDriver(t, d)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var none context.Context
	type user struct {
		stream *ferry.Stream
		host   *ferry.Host[byte]
		event  *ferry.Event
	}
	device := must(ferry.Alloc[byte](g, 64))(t)
	ways := []func(u user) error{
		func(u user) error { return u.stream.Wait(none) },
		func(u user) error { return u.stream.Wait(ctx) },
		func(u user) error { return u.event.Wait(none) },
		func(u user) error { return u.event.Wait(ctx) },
		func(u user) error { return u.host.Wait(ctx) },
		func(u user) error { u.host.Slice()[0]++; return nil },
		func(u user) error { return u.host.Close() },
		func(u user) error {
			c, err := u.stream.Notify()
			if err == nil {
				<-c
			}
			return err
		},
		func(user) error { return g.Wait(none) },
		func(user) error { return g.Wait(ctx) },
	}
	var users []user
	for range waiters {
		u := user{must(ferry.NewStream(g, nil))(t), must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.NewEvent(g, nil))(t)}
		check(t, errors.Join(ferry.Copy(u.stream, u.host, device), u.stream.Record(u.event)))
		users = append(users, u)
	}
	before := pprof.Lookup("threadcreate").Count()
	var all sync.WaitGroup
	var served atomic.Int64
	for i, u := range users {
		all.Go(func() {
			if err := ways[i%len(ways)](u); err != nil {
				t.Errorf("way %d: %v", i%len(ways), err)
			}
			served.Add(1)
		})
	}
	eventually(t, "waiting", func() bool { return d.asked.Load() > 10*waiters || d.most.Load() > 10 })
	var threads int
	waits(t, "a waiter", func() {
		threads = pprof.Lookup("threadcreate").Count() - before
		if n := served.Load(); n > 0 {
			t.Errorf("%d waiters returned before the device was done", n)
		}
		close(d.done)
	}, all.Wait)
	// Queries lock their thread. Package check's lock holds such threads, if many call at once.
	if most := d.most.Load(); most > 2 || threads > 20 && !checked() {
		t.Errorf("up to %d calls waited in the driver at once, want 2; %d waiters made %d threads", most, waiters, threads)
	}
	for _, u := range users {
		closeAll(t, u.stream, u.host, u.event)
	}
	closeAll(t, device)
}

// TestWaitLostDevice: when the device is lost, all that wait get the error.
func TestWaitLostDevice(t *testing.T) {
	d := &threadDriver{fakeDriver: newFake(), done: make(chan struct{})}
	g := openDriver(t, d)
	const waiters = 100
	errs := make(chan error, 2*waiters)
	var streams []*ferry.Stream
	for range waiters {
		s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
		check(t, s.Record(e))
		streams = append(streams, s)
		go func() { errs <- s.Wait(context.Background()) }()
		go func() { errs <- errors.Join(e.Wait(context.Background()), e.Close()) }()
	}
	eventually(t, "waiting", func() bool { return d.asked.Load() > 10*waiters })
	d.result = cu.ErrorIllegalAddress
	close(d.done)
	for range 2 * waiters {
		select {
		case err := <-errs:
			wantError(t, err, cu.ErrorIllegalAddress)
		case <-time.After(timeout):
			t.Fatal("a waiter got nothing")
		}
	}
	for _, s := range streams {
		closeAll(t, s)
	}
	d.result = nil // so that the GPU can be closed
}

// TestWaitClosedStream: a wait goes on when another goroutine closes the stream, and a wait
// of the closed stream does, too. Both end with the work.
func TestWaitClosedStream(t *testing.T) {
	d := &threadDriver{fakeDriver: newFake(), done: make(chan struct{})}
	g := openDriver(t, d)
	c := newCallFixture(t, g, 64)
	check(t, c.copy())
	results := make(chan error, 2)
	go func() { results <- c.stream.Wait(context.Background()) }()
	eventually(t, "waiting", func() bool { return d.asked.Load() > 5000 })
	check(t, c.stream.Close())
	go func() { results <- c.stream.Wait(context.Background()) }()
	waits(t, "a wait", func() { close(d.done) }, func() {
		check(t, errors.Join(<-results, <-results))
	})
	check(t, c.host.Wait(context.Background()))
}

// stepDriver is a driver whose streams and events are done when the test says so.
type stepDriver struct {
	*fakeDriver
	mu       sync.Mutex
	streams  cu.Stream
	events   cu.Event
	recorded map[cu.Event]cu.Stream // live events
	done     map[cu.Stream]bool
	passed   map[cu.Event]bool    // although their streams are not done
	panics   map[cu.Stream]error  // told by a query once the stream is done
	noEvents bool                 // none can be made
	failSync error                // of waits in the driver
	syncs    int                  // waits in the driver
	queries  map[cu.Stream]int    // by stream
	destroy  func(s cu.Stream)    // is called by StreamDestroy
	query    func(event cu.Event) // is called by EventQuery
	released bool
}

func newStepDriver() *stepDriver {
	return &stepDriver{fakeDriver: newFake(), recorded: map[cu.Event]cu.Stream{}, done: map[cu.Stream]bool{},
		passed: map[cu.Event]bool{}, panics: map[cu.Stream]error{}, queries: map[cu.Stream]int{}}
}

// do accesses the driver's fields.
func (d *stepDriver) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *stepDriver) finish(s cu.Stream) { d.do(func() { d.done[s] = true }) }

func (d *stepDriver) live() (n int) {
	d.do(func() { n = len(d.recorded) })
	return n
}

// asked waits until the driver has been asked about a stream n times more.
func (d *stepDriver) asked(t *testing.T, s cu.Stream, n int) {
	t.Helper()
	var before int
	d.do(func() { before = d.queries[s] })
	eventually(t, "asked", func() (enough bool) {
		d.do(func() { enough = d.queries[s] >= before+n })
		return enough
	})
}

func (d *stepDriver) StreamCreate(cu.Context, cu.StreamFlags) (cu.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.streams++
	return d.streams, nil
}

func (d *stepDriver) StreamDestroy(_ cu.Context, s cu.Stream) error {
	if d.destroy != nil {
		d.destroy(s)
	}
	return nil
}

func (d *stepDriver) EventCreate(cu.Context, cu.EventFlags) (cu.Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.noEvents {
		return 0, cu.ErrorOutOfMemory
	}
	d.events++
	d.recorded[d.events] = 0
	return d.events, nil
}

func (d *stepDriver) EventDestroy(_ cu.Context, e cu.Event) error {
	d.do(func() { delete(d.recorded, e) })
	return nil
}

func (d *stepDriver) EventRecord(_ cu.Context, e cu.Event, s cu.Stream) error {
	d.do(func() { d.recorded[e] = s })
	return nil
}

func (d *stepDriver) StreamQuery(_ cu.Context, s cu.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queries[s]++
	if !d.done[s] {
		return cu.ErrorNotReady
	}
	p := d.panics[s]
	delete(d.panics, s)
	return p
}

func (d *stepDriver) EventQuery(_ cu.Context, e cu.Event) error {
	if d.query != nil {
		d.query(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.recorded[e]
	d.queries[s]++
	if ok && s != 0 && !d.done[s] && !d.passed[e] {
		return cu.ErrorNotReady
	}
	return nil
}

func (d *stepDriver) StreamSynchronize(_ cu.Context, s cu.Stream) error {
	d.do(func() { d.syncs++ })
	for {
		var done bool
		var err error
		d.do(func() { done, err = d.done[s] || s == 0, d.failSync })
		if done || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func (d *stepDriver) MemAllocAsync(cu.Context, uintptr, cu.Stream) (cu.DevicePtr, error) {
	return 1 << 50, nil
}

func (d *stepDriver) MemFreeAsync(cu.Context, cu.DevicePtr, cu.Stream) error { return nil }

func (d *stepDriver) EventSynchronize(cu.Context, cu.Event) error {
	d.do(func() { d.syncs++ })
	return nil
}

func (d *stepDriver) DevicePrimaryCtxRelease(cu.Device) error {
	d.do(func() { d.released = true })
	return nil
}

// waitFor calls wait in a goroutine, and returns a function that demands its result.
func waitFor(t *testing.T, wait func(context.Context) error) (want func(err error)) {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- wait(context.Background()) }()
	return func(want error) {
		t.Helper()
		select {
		case err := <-result:
			if !errors.Is(err, want) {
				t.Errorf("the wait returned %v, want %v", err, want)
			}
		case <-time.After(timeout):
			t.Fatal("the wait does not end")
		}
		close(result)
	}
}

// TestWaitRecordedAgain: a wait for an event waits for what the event stood for when the wait
// began, although the event is recorded again, elsewhere or in the same stream.
func TestWaitRecordedAgain(t *testing.T) {
	for _, elsewhere := range []bool{true, false} {
		d := newStepDriver()
		g := openDriver(t, d)
		a, b := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
		e := must(ferry.NewEvent(g, nil))(t)
		check(t, a.Record(e))
		result := make(chan error, 1)
		go func() { result <- e.Wait(context.Background()) }()
		d.asked(t, 1, 1000)
		if elsewhere {
			d.finish(2)
			check(t, b.Record(e))
		} else {
			check(t, a.Record(e))
		}
		d.asked(t, 1, 1000)
		if len(result) > 0 {
			t.Errorf("recorded again, elsewhere %v: the wait ended before the work", elsewhere)
		}
		if elsewhere {
			d.finish(1)
		} else { // the mark that the wait has made is reached, and the stream has more work
			eventually(t, "marked", func() (marked bool) {
				d.do(func() {
					for m, s := range d.recorded {
						if m != 1 && s == 1 {
							d.passed[m], marked = true, true
						}
					}
				})
				return marked || len(result) > 0
			})
		}
		check(t, <-result)
		d.finish(1)
		d.finish(2)
		closeAll(t, a, b, e)
	}
}

// TestWaitClosedEvent: a wait goes on when another goroutine closes the event.
func TestWaitClosedEvent(t *testing.T) {
	d := newStepDriver()
	g := openDriver(t, d)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	check(t, s.Record(e))
	result := make(chan error, 1)
	go func() { result <- e.Wait(context.Background()) }()
	d.asked(t, 1, 1000)
	check(t, e.Close())
	d.asked(t, 1, 1000)
	if len(result) > 0 {
		t.Error("the wait ended before the work")
	}
	d.finish(1)
	check(t, <-result)
	eventually(t, "destroyed", func() bool { return d.live() == 0 })
	closeAll(t, s)
}

// TestWaitBusyStream: a wait ends although others give the stream more work all the time.
// What came later is still in flight. Waits whose contexts end leave no event.
func TestWaitBusyStream(t *testing.T) {
	d := newStepDriver()
	g := openDriver(t, d)
	c := newCallFixture(t, g, 64)
	later := must(ferry.AllocHost[byte](g, 64, nil))(t)
	check(t, c.copy())
	before := d.live()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { wantError(t, c.stream.Wait(ctx), context.Canceled) })
	}
	result := make(chan error, 1)
	go func() { result <- c.stream.Wait(context.Background()) }()
	eventually(t, "marked", func() bool { return d.live() == before+11 })
	cancel()
	all.Wait()
	eventually(t, "one mark", func() bool { return d.live() == before+1 })
	check(t, ferry.Copy(c.stream, later, c.device))
	d.asked(t, 1, 1000)
	if len(result) > 0 {
		t.Error("the wait ended before its mark")
	}
	d.do(func() {
		for e := range d.recorded {
			d.passed[e] = true
		}
	})
	check(t, <-result)
	if n := d.live(); n != before {
		t.Errorf("%d events more than before", n-before)
	}
	d.do(func() { clear(d.passed) })
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	check(t, c.host.Wait(ctx))
	wantError(t, later.Wait(ctx), context.DeadlineExceeded)
	d.finish(1)
	closeAll(t, later)
}

// TestWaitWithoutMark: if no event can be made, the wait is one in the driver. If that
// fails, too, the memory counts as in flight.
func TestWaitWithoutMark(t *testing.T) {
	d := newStepDriver()
	g := openDriver(t, d)
	c := newCallFixture(t, g, 64)
	check(t, c.copy())
	d.do(func() { d.noEvents, d.failSync = true, cu.ErrorStreamCaptureUnsupported })
	wantError(t, c.host.Wait(context.Background()), cu.ErrorStreamCaptureUnsupported)
	wantError(t, c.stream.Wait(context.Background()), cu.ErrorStreamCaptureUnsupported)
	d.do(func() { d.failSync = nil })
	result := make(chan error, 1)
	go func() { result <- c.host.Wait(context.Background()) }()
	time.Sleep(shortWait)
	if len(result) > 0 {
		t.Error("the wait ended before the work")
	}
	d.finish(1)
	check(t, <-result)
	check(t, c.stream.Wait(context.Background()))
}

// TestWaitPanicWhileBusy: a panic that a wait cannot see, because the stream has more work,
// is told by a later one. One that its caller did not wait for is, too.
func TestWaitPanicWhileBusy(t *testing.T) {
	planted := &cu.HostPanic{Value: errors.New("planted")}
	d := newStepDriver()
	g := openDriver(t, d)
	c := newCallFixture(t, g, 64)
	check(t, c.copy())
	before := d.live()
	d.do(func() { d.panics[1] = planted })
	want := waitFor(t, c.stream.Wait)
	eventually(t, "marked", func() bool { return d.live() > before })
	d.do(func() {
		for e := range d.recorded {
			d.passed[e] = true
		}
	})
	want(nil)
	d.finish(1)
	wantError(t, c.stream.Wait(context.Background()), planted)
	check(t, c.stream.Wait(context.Background()))
	d.do(func() { d.panics[1] = planted })
	check(t, c.copy())
	check(t, c.host.Wait(context.Background()))
	wantError(t, c.stream.Wait(context.Background()), planted)
}

// TestNotifyCloseGPU: a pending Notify does not keep the context when the GPU is closed.
func TestNotifyCloseGPU(t *testing.T) {
	for range 20 {
		d := newStepDriver()
		g := must(ferry.OpenDriver(d, 0))(t)
		s := must(ferry.NewStream(g, nil))(t)
		d.query = func(cu.Event) { time.Sleep(100 * time.Microsecond) }
		c := must(s.Notify())(t)
		d.asked(t, 1, 3)
		closeAll(t, s, g)
		d.do(func() {
			if !d.released {
				t.Error("the GPU is closed, but its context is not released")
			}
		})
		<-c
	}
}

// TestWaitWhileDestroyed: a buffer is in flight while the closed stream that uses it is being
// destroyed.
func TestWaitWhileDestroyed(t *testing.T) {
	d := newStepDriver()
	g := openDriver(t, d)
	c := newCallFixture(t, g, 64)
	check(t, c.copy())
	entered, leave := make(chan struct{}), make(chan struct{})
	d.destroy = func(cu.Stream) { close(entered); <-leave }
	closed := make(chan error, 1)
	go func() { closed <- c.stream.Close() }()
	<-entered
	result := make(chan error, 1)
	go func() { result <- c.host.Wait(context.Background()) }()
	time.Sleep(shortWait)
	if len(result) > 0 {
		t.Error("the wait ended before the work")
	}
	close(leave)
	check(t, <-closed)
	d.finish(1)
	check(t, <-result)
}

// TestWaitTrimsPools: a wait after a free in stream order waits in the driver once, so that
// pools give memory back. It does not while the stream has more work.
func TestWaitTrimsPools(t *testing.T) {
	d := newStepDriver()
	d.Attributes[cu.DeviceAttributeMemoryPoolsSupported] = 1
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	d.finish(1)
	for _, wait := range []func(context.Context) error{s.Wait, e.Wait} {
		check(t, s.Record(e))
		closeAll(t, must(ferry.AllocAsync[byte](s, 64, nil))(t))
		d.do(func() { d.syncs = 0 })
		for range 2 {
			check(t, wait(context.Background()))
		}
		if d.syncs != 1 {
			t.Errorf("%d waits in the driver after a free, want 1", d.syncs)
		}
	}
	closeAll(t, s, e)
}
