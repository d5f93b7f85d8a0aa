package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestStreamCloseBusy: Close of a busy stream returns at once. Slice still waits for its work.
func TestStreamCloseBusy(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device)
	check(t, ferry.Fill(s, device, byte(42)))
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	closeAll(t, s, s)
	wantError(t, ferry.Copy(s, host, device), ferry.ErrClosed, "stream 1")
	waits(t, "Slice", open, func() {
		if got := host.Slice(); !bytes.Equal(got, bytes.Repeat([]byte{42}, 4096)) {
			t.Error("Slice returns old bytes")
		}
	})
	check(t, s.Wait(context.Background()))
}

// TestWaitContext: a wait ends when its context does, and the work goes on. Many waits that
// ended leave one goroutine in the driver.
func TestWaitContext(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	check(t, ferry.Fill(s, device, 9))
	open := gate(t, s)
	check(t, ferry.Copy(s, host, device))
	check(t, s.Record(e))
	before := runtime.NumGoroutine()
	for name, wait := range map[string]func(context.Context) error{
		"stream": s.Wait, "event": e.Wait, "GPU": g.Wait, "buffer": host.Wait,
	} {
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		wantError(t, wait(canceled), context.Canceled)
		for range 20 {
			short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			wantError(t, wait(short), context.DeadlineExceeded)
			cancel()
		}
		if err := wait(canceled); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled", name, err)
		}
	}
	if now := runtime.NumGoroutine(); now > before+8 {
		t.Errorf("%d goroutines exist after all waits have ended, %d before", now, before)
	}
	open()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, wait := range []func(context.Context) error{e.Wait, host.Wait, s.Wait, g.Wait} {
		check(t, wait(ctx))
	}
	if host.Slice()[63] != 9 {
		t.Error("the copy was lost")
	}
	closeAll(t, e, host, device, s)
}

// TestDone: Done does not wait.
func TestDone(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	open := gate(t, s)
	if must(s.Done())(t) {
		t.Error("Done is true while a host function waits")
	}
	open()
	for end := time.Now().Add(timeout); !must(s.Done())(t); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("Done is never true")
		}
	}
	closeAll(t, s)
	_, err := s.Done()
	wantError(t, err, ferry.ErrClosed)
}

// TestHostPanic: Wait of the stream returns the panic of a host function, once, also if Slice
// met it first. The work before and after it is done.
func TestHostPanic(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	defer closeAll(t, host, device, s)
	cause := errors.New("planted")
	for _, first := range []string{"wait", "slice"} {
		check(t, ferry.Fill(s, device, 9))
		check(t, s.HostFunc(func() { panic(cause) }))
		check(t, ferry.Copy(s, host, device))
		if first == "slice" {
			if got := host.Slice(); got == nil || got[5] != 9 {
				t.Errorf("Slice is %v, want nines", got)
			}
		}
		err := s.Wait(context.Background())
		wantError(t, err, cause, "planted", "stream")
		if _, ok := errors.AsType[*cu.HostPanic](err); !ok {
			t.Errorf("%s: got %v, want a *cu.HostPanic", first, err)
		}
		check(t, s.Wait(context.Background()))
		if host.Slice()[5] != 9 {
			t.Error("the copy was lost")
		}
		check(t, ferry.Fill(s, host, 0))
	}
}

// TestHostPanicKept: an error that occurs after the only wait has ended is returned by the
// next one.
func TestHostPanicKept(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	open := gate(t, s)
	cause := errors.New("planted")
	check(t, s.HostFunc(func() { panic(cause) }))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	wantError(t, s.Wait(ctx), context.DeadlineExceeded, "the work goes on")
	open()
	time.Sleep(shortWait)
	wantError(t, s.Wait(context.Background()), cause)
	check(t, s.Wait(context.Background()))
}

// TestNotify: the channel is closed when the stream reaches it, not before. The receiver may
// use the driver while the stream works on.
func TestNotify(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	open := gate(t, s)
	check(t, ferry.Fill(s, device, byte(6)))
	check(t, ferry.Copy(s, host, device))
	there := must(s.Notify())(t)
	openAfter := gate(t, s) // the receive must not need the end of the stream
	waits(t, "a receive", open, func() {
		<-there
		if got := ferry.Fill(ferry.DefaultStream(g), device.Range(0, 0), 0); got != nil {
			t.Error(got)
		}
	})
	openAfter()
	if host.Slice()[63] != 6 {
		t.Error("the bytes differ")
	}
	closeAll(t, host, device, s)
	_, err := s.Notify()
	wantError(t, err, ferry.ErrClosed)
	_, err = (*ferry.Stream)(nil).Notify()
	wantError(t, err, cu.ErrorInvalidValue, "no stream")
}

// pollDriver answers queries by a function, and counts queries and waits.
type pollDriver struct {
	*fakeDriver
	query          func(n int) error
	queries, waits atomic.Int64
	block          chan struct{} // if not nil, waits return when it is closed
}

func (d *pollDriver) StreamQuery(cu.Context, cu.Stream) error {
	return d.query(int(d.queries.Add(1)))
}

func (d *pollDriver) EventQuery(cu.Context, cu.Event) error { return d.query(int(d.queries.Add(1))) }

func (d *pollDriver) StreamSynchronize(cu.Context, cu.Stream) error { return d.wait() }

func (d *pollDriver) EventSynchronize(cu.Context, cu.Event) error { return d.wait() }

func (d *pollDriver) wait() error {
	d.waits.Add(1)
	if d.block != nil {
		<-d.block
	}
	return nil
}

// newPollDriver opens a GPU whose driver answers the nth query with query(n).
func newPollDriver(t *testing.T, query func(n int) error) (*pollDriver, *ferry.GPU) {
	t.Helper()
	d := &pollDriver{fakeDriver: newFake(), query: query}
	return d, openDriver(t, d)
}

// TestWaitPolls: a wait with a context polls for a short time before it waits in the driver. On
// a busy machine that time may end early, so some waits in the driver are allowed.
func TestWaitPolls(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	readyAtThird := func(n int) error {
		if n%3 != 0 {
			return cu.ErrorNotReady
		}
		return nil
	}
	const rounds = 50
	for name, make := range map[string]func(*testing.T, *ferry.GPU) func() error{
		"stream": func(t *testing.T, g *ferry.GPU) func() error {
			c := newCallFixture(t, g, 64)
			return func() error { return errors.Join(c.copy(), c.stream.Wait(ctx)) }
		},
		"buffer": func(t *testing.T, g *ferry.GPU) func() error {
			c := newCallFixture(t, g, 64)
			return func() error { return errors.Join(c.copy(), c.host.Wait(ctx)) }
		},
		"event": func(t *testing.T, g *ferry.GPU) func() error {
			e := must(ferry.NewEvent(g, nil))(t)
			t.Cleanup(func() { closeAll(t, e) })
			return func() error { return e.Wait(ctx) }
		},
	} {
		d, g := newPollDriver(t, readyAtThird)
		wait := make(t, g)
		for range rounds {
			check(t, wait())
		}
		if w, q := d.waits.Load(), d.queries.Load(); w >= rounds/2 || q < rounds {
			t.Errorf("%s: %d waits took %d waits in the driver and %d queries, want few in the driver", name, rounds, w, q)
		}
	}
}

// TestWaitWithoutPolling: waits do not poll on the software GPU, whose clock does not count the
// time that polling saves, nor for an event made with Blocking.
func TestWaitWithoutPolling(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	soft := &queryCounter{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(soft, 0))(t)
	c := newCallFixture(t, g, 64)
	t.Cleanup(func() { closeAll(t, g) })
	check(t, c.copy())
	check(t, c.stream.Wait(ctx))
	if n := soft.queries.Load(); n != 0 {
		t.Errorf("a wait on the software GPU made %d queries", n)
	}

	d, fake := newPollDriver(t, func(int) error { return nil })
	e := must(ferry.NewEvent(fake, &ferry.EventOptions{Blocking: true}))(t)
	check(t, e.Wait(ctx))
	closeAll(t, e)
	if q, w := d.queries.Load(), d.waits.Load(); q != 0 || w != 1 {
		t.Errorf("a wait for a blocking event made %d queries and %d waits, want 0 and 1", q, w)
	}
}

// queryCounter counts queries of streams.
type queryCounter struct {
	cu.Driver
	queries atomic.Int64
}

func (d *queryCounter) Unwrap() cu.Driver { return d.Driver }

func (d *queryCounter) StreamQuery(ctx cu.Context, s cu.Stream) error {
	d.queries.Add(1)
	return d.Driver.StreamQuery(ctx, s)
}

// TestWaitPollErrors: a wait returns the error of a query. If it was the wait of a buffer, the
// stream's Wait returns the error.
func TestWaitPollErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cause := errors.New("planted")
	reported := false
	_, g := newPollDriver(t, func(int) error {
		if reported {
			return nil
		}
		reported = true
		return &cu.HostPanic{Value: cause}
	})
	c := newCallFixture(t, g, 64)
	check(t, c.copy())
	wantError(t, c.stream.Wait(ctx), cause)
	check(t, c.stream.Wait(ctx))
	reported = false
	check(t, c.copy())
	check(t, c.host.Wait(ctx)) // the work is done despite the error
	wantError(t, c.stream.Wait(ctx), cause)
	check(t, c.stream.Wait(ctx))

	lost, g := newPollDriver(t, func(int) error { return cu.ErrorIllegalAddress })
	c = newCallFixture(t, g, 64)
	check(t, c.copy())
	wantError(t, c.stream.Wait(ctx), cu.ErrorIllegalAddress, "no kernel was launched there")
	lost.query = func(int) error { return nil }
}

// TestWaitPollEnds: after polling for a short time a wait waits in the driver, until its
// context ends.
func TestWaitPollEnds(t *testing.T) {
	d, g := newPollDriver(t, func(int) error { return cu.ErrorNotReady })
	d.block = make(chan struct{})
	c := newCallFixture(t, g, 64)
	check(t, c.copy())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	wantError(t, c.stream.Wait(ctx), context.DeadlineExceeded)
	if d.waits.Load() != 1 {
		t.Errorf("the driver waited %d times, want once", d.waits.Load())
	}
	close(d.block)
}
