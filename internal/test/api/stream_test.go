package api

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
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
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
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
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
		if got := ferry.Fill(g.DefaultStream(), device.Range(0, 0), 0); got != nil {
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
}

func (d *pollDriver) StreamQuery(cu.Context, cu.Stream) error {
	return d.query(int(d.queries.Add(1)))
}

func (d *pollDriver) EventQuery(cu.Context, cu.Event) error { return d.query(int(d.queries.Add(1))) }

func (d *pollDriver) StreamSynchronize(cu.Context, cu.Stream) error { return d.wait() }

func (d *pollDriver) EventSynchronize(cu.Context, cu.Event) error { return d.wait() }

func (d *pollDriver) wait() error {
	d.waits.Add(1)
	return nil
}

// newPollDriver opens a GPU whose driver answers the nth query with query(n).
func newPollDriver(t *testing.T, query func(n int) error) (*pollDriver, *ferry.GPU) {
	t.Helper()
	d := &pollDriver{fakeDriver: newFake(), query: query}
	return d, openDriver(t, d)
}

// TestWaitPolls: on hardware a wait asks the driver, and never waits in it, with a context
// and without.
func TestWaitPolls(t *testing.T) {
	t.Run("no context", func(t *testing.T) { testWaitPolls(t, nil) })
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		testWaitPolls(t, ctx)
	})
}

func testWaitPolls(t *testing.T, ctx context.Context) {
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
		"blocking event": func(t *testing.T, g *ferry.GPU) func() error {
			e := must(ferry.NewEvent(g, &ferry.EventOptions{Blocking: true}))(t)
			t.Cleanup(func() { closeAll(t, e) })
			return func() error { return e.Wait(ctx) }
		},
		"save CPU": func(t *testing.T, g *ferry.GPU) func() error {
			check(t, g.SetSaveCPU(true))
			c := newCallFixture(t, g, 64)
			return func() error { return errors.Join(c.copy(), c.stream.Wait(ctx)) }
		},
	} {
		d, g := newPollDriver(t, readyAtThird)
		wait := make(t, g)
		for range rounds {
			check(t, wait())
		}
		if w, q := d.waits.Load(), d.queries.Load(); w != 0 || q < 3*rounds {
			t.Errorf("%s: %d waits took %d waits in the driver and %d queries, want none and three a wait", name, rounds, w, q)
		}
	}
}

// TestWaitWithoutPolling: waits do not ask the software GPU, whose clock counts the time
// that a question takes.
func TestWaitWithoutPolling(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	soft := &queryCounter{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := must(ferry.OpenDriver(soft, 0))(t)
	c := newCallFixture(t, g, 64)
	e := must(ferry.NewEvent(g, nil))(t)
	t.Cleanup(func() { closeAll(t, e, g) })
	check(t, c.copy())
	check(t, c.stream.Record(e))
	check(t, errors.Join(e.Wait(ctx), c.stream.Wait(ctx), c.host.Wait(ctx)))
	<-must(c.stream.Notify())(t)
	if n := soft.queries.Load(); n != 0 {
		t.Errorf("waits on the software GPU made %d queries", n)
	}
}

// queryCounter counts queries of streams and events.
type queryCounter struct {
	cu.Driver
	queries atomic.Int64
}

func (d *queryCounter) Unwrap() cu.Driver { return d.Driver }

func (d *queryCounter) StreamQuery(ctx cu.Context, s cu.Stream) error {
	d.queries.Add(1)
	return d.Driver.StreamQuery(ctx, s)
}

func (d *queryCounter) EventQuery(ctx cu.Context, e cu.Event) error {
	d.queries.Add(1)
	return d.Driver.EventQuery(ctx, e)
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

// TestWaitEnds: a wait ends with its context. The buffer stays in flight until the device
// is done, so Close waits for that.
func TestWaitEnds(t *testing.T) {
	var ready atomic.Bool
	_, g := newPollDriver(t, func(int) error {
		if ready.Load() {
			return nil
		}
		return cu.ErrorNotReady
	})
	c := newCallFixture(t, g, 64)
	t.Cleanup(func() { ready.Store(true) }) // before the fixture is closed
	check(t, c.copy())
	for _, wait := range []func(context.Context) error{c.stream.Wait, c.host.Wait, c.event.Wait} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		wantError(t, wait(ctx), context.DeadlineExceeded)
		wantError(t, wait(ctx), context.DeadlineExceeded) // at once
		cancel()
	}
	closed := make(chan error, 1)
	go func() { closed <- c.host.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait for the copy: %v", err)
	case <-time.After(shortWait):
	}
	ready.Store(true)
	check(t, <-closed)
}

// TestAllocations: a copy between buffers, a CopyAll of buffers, a launch of a kernel or a
// graph, Record and a batch allocate nothing.
func TestAllocations(t *testing.T) {
	if racebuild.On || checked() {
		t.Skip("the race detector and FERRY_CHECK allocate")
	}
	c := newCallFixture(t, openDriver(t, newFake()), 4096)
	n := uint64(1000)
	graph := must(c.stream.Capture(func(*ferry.Stream) error { return errors.Join(c.copy(), c.launch(n)) }))(t)
	t.Cleanup(func() { closeAll(t, graph) })
	var fresh, again ferry.Batch
	check(t, c.list(&again))
	var pairs []ferry.Pair[byte]
	for i := range 20 {
		pairs = append(pairs, ferry.Pair[byte]{Dst: c.device.Range(i, i+1), Src: c.host.Range(i, i+1)})
	}
	for name, f := range map[string]func() error{
		"Submit": func() error {
			fresh.Reset()
			return errors.Join(c.list(&fresh), c.stream.Submit(&fresh))
		},
		"replay": func() error { return c.stream.Submit(&again) },
		"Record": func() error { return c.stream.Record(c.event) },
		"Copy":   c.copy,
		"CopyAll": func() error {
			return ferry.CopyAll(c.stream, pairs)
		},
		"Launch":       func() error { n ^= 1 << 9; return c.launch(n) },
		"Graph.Launch": func() error { return graph.Launch(c.stream) },
	} {
		if got := testing.AllocsPerRun(1000, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s allocates %v times, want 0", name, got)
		}
	}
}

// every runs f, and waits after every 256 times.
func every(b *testing.B, c *callFixture, f func() error) {
	for n := 1; b.Loop(); n++ {
		if err := f(); err != nil {
			b.Fatal(err)
		}
		if n%256 == 0 {
			if err := c.stream.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkTyped measures calls of the typed API. With driver=none, which does nothing, all
// of the time is Ferry's own.
func BenchmarkTyped(b *testing.B) {
	b.Run("driver=none", func(b *testing.B) { benchmarkTyped(b, openDriver(b, newFake())) })
	b.Run("driver=real", func(b *testing.B) { benchmarkTyped(b, openTest(b)) })
}

func benchmarkTyped(b *testing.B, g *ferry.GPU) {
	c := newCallFixture(b, g, 4096)
	var again, fresh ferry.Batch
	check(b, c.list(&again))
	for _, x := range []struct {
		op string
		f  func() error
	}{
		{"Copy", c.copy},
		{"Launch", func() error { return c.launch(1024) }},
		{"Record", func() error { return c.stream.Record(c.event) }},
		{"Step", c.step},
		{"Submit", func() error { return c.stream.Submit(&again) }},
		{"ListAndSubmit", func() error {
			fresh.Reset()
			if err := c.list(&fresh); err != nil {
				return err
			}
			return c.stream.Submit(&fresh)
		}},
	} {
		b.Run("op="+x.op, func(b *testing.B) {
			b.ReportAllocs()
			every(b, c, x.f)
		})
	}
}

// BenchmarkWait measures a short copy and the wait for it, with a context that can end and
// with one that cannot.
func BenchmarkWait(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, ctx := range map[string]context.Context{"none": context.Background(), "cancel": ctx} {
		b.Run("driver=real/size=4KiB/context="+name, func(b *testing.B) {
			c := newCallFixture(b, openTest(b), 4096)
			for b.Loop() {
				if err := errors.Join(c.copy(), c.stream.Wait(ctx)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCalls measures calls beside work in flight. The waits for the stream, after every depth
// calls, are not in the time. Each step of the table is one call.
func BenchmarkCalls(b *testing.B) {
	g := openTest(b)
	c := newCallFixture(b, g, 4096)
	const n = 4096
	dev, err := ferry.Alloc[byte](g, 1024*n)
	check(b, err)
	host, err := ferry.AllocHost[byte](g, 1024*n, nil)
	check(b, err)
	mem := make([]byte, 1024*n)
	var pairs, pageable []ferry.Pair[byte]
	for i := range 1024 {
		pairs = append(pairs, ferry.Pair[byte]{Dst: dev.Range(i*n, (i+1)*n), Src: host.Range(i*n, (i+1)*n)})
		pageable = append(pageable, ferry.Pair[byte]{Dst: dev.Range(i*n, (i+1)*n), Src: ferry.Pageable(mem[i*n : (i+1)*n])})
	}
	h1, d64, d1M := host.Range(0, n), dev.Range(0, 64<<10), dev.Range(0, 1<<20)
	d1, d2 := dev.Range(0, n), dev.Range(n, 2*n)
	p := ferry.Pageable(mem[:n])
	p64, p1M := ferry.Pageable(mem[:64<<10]), ferry.Pageable(mem[:1<<20])
	var again ferry.Batch
	check(b, c.list(&again))
	for _, x := range []struct {
		op    string
		depth int
		f     func() error
	}{
		{"Small", 64, func() error { return ferry.Copy(c.stream, d1, h1) }},
		{"Device", 64, func() error { return ferry.Copy(c.stream, d1, d2) }},
		{"Launch", 64, func() error { return c.launch(1024) }},
		{"Submit", 16, func() error { return c.stream.Submit(&again) }},
		{"Pageable4K", 16, func() error { return ferry.Copy(c.stream, d1, p) }},
		{"Pageable4KOut", 16, func() error { return ferry.Copy(c.stream, p, d1) }},
		{"Pageable64K", 1, func() error { return ferry.Copy(c.stream, d64, p64) }},
		{"Pageable64KOut", 1, func() error { return ferry.Copy(c.stream, p64, d64) }},
		{"Pageable1M", 1, func() error { return ferry.Copy(c.stream, d1M, p1M) }},
		{"Pageable1MOut", 1, func() error { return ferry.Copy(c.stream, p1M, d1M) }},
		{"All1024", 1, func() error { return ferry.CopyAll(c.stream, pairs) }},
		{"AllPageable1024", 1, func() error { return ferry.CopyAll(c.stream, pageable) }},
		{"AllPageable2", 1, func() error { return ferry.CopyAll(c.stream, pageable[:2]) }},
		{"Record", 64, func() error { return c.stream.Record(c.event) }},
	} {
		b.Run("op="+x.op, func(b *testing.B) {
			for i := 1; b.Loop(); i++ {
				if err := x.f(); err != nil {
					b.Fatal(err)
				}
				if i%x.depth == 0 {
					b.StopTimer()
					if err := c.stream.Wait(context.Background()); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
		})
	}
}
