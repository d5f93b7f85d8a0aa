package api

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestEventPasses: after a wait for an event, Slice of a buffer used before the event does not
// wait, whatever the stream does now.
func TestEventPasses(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, e, s)
	check(t, ferry.Copy(s, host, device))
	check(t, s.Record(e))
	check(t, e.Wait(context.Background()))
	open := gate(t, s)
	if host.Slice() == nil { // must return although the gate is shut
		t.Error("Slice is nil")
	}
	open()
}

// slowRecordDriver blocks the first EventRecord until free is closed.
type slowRecordDriver struct {
	cu.Driver
	begun    atomic.Bool
	in, free chan struct{}
}

func (d *slowRecordDriver) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	if !d.begun.Swap(true) {
		close(d.in)
		<-d.free
	}
	return d.Driver.EventRecord(ctx, e, s)
}

// TestEventRecordsOverlap: of two Records at once, the driver may make the first one last.
// When the event is done then, nothing is known about the second stream.
func TestEventRecordsOverlap(t *testing.T) {
	d := &slowRecordDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager), in: make(chan struct{}), free: make(chan struct{})}
	g := must(ferry.OpenDriver(d, 0))(t)
	a, b := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, e, a, b, g)
	first := make(chan error, 1)
	go func() { first <- a.Record(e) }()
	<-d.in
	open := gate(t, b)
	check(t, ferry.Copy(b, host, device))
	check(t, b.Record(e))
	close(d.free)
	check(t, <-first)
	check(t, e.Wait(context.Background()))
	waits(t, "Slice", open, func() { host.Slice() })
}

// TestWaitEvent: work after WaitEvent runs after the work that the event stands for.
func TestWaitEvent(t *testing.T) {
	g := openTest(t)
	a, b := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	e := must(ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true}))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, e, a, b)
	check(t, ferry.Fill(a, device, byte(1)))
	open := gate(t, a)
	check(t, ferry.Fill(a, device, byte(2)))
	check(t, a.Record(e))
	check(t, b.WaitEvent(e))
	check(t, ferry.Copy(b, host, device))
	if done := must(e.Done())(t); done {
		t.Error("the event is done before its work")
	}
	if done := must(b.Done())(t); done {
		t.Error("the stream is done before the event it waits for")
	}
	open()
	if got := host.Slice()[17]; got != 2 {
		t.Errorf("got %d, want 2: the stream did not wait", got)
	}
	check(t, a.Wait(context.Background()))
	if done := must(e.Done())(t); !done {
		t.Error("the event is not done after its stream")
	}
}

// TestEventRefused: bad input to methods of events, and events that cannot be measured.
func TestEventRefused(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	a, b, silent := must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, nil))(t), must(ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true}))(t)
	_, err := a.Since(b)
	wantError(t, err, cu.ErrorInvalidHandle, "never recorded")
	check(t, a.Wait(context.Background())) // an event that was never recorded counts as done
	check(t, s.Record(silent))
	check(t, s.Record(a))
	_, err = a.Since(silent)
	wantError(t, err, cu.ErrorInvalidHandle, "NoTiming")
	_, err = a.Since(nil)
	wantError(t, err, cu.ErrorInvalidValue, "no event given")
	open := gate(t, s)
	check(t, s.Record(b))
	_, err = b.Since(a)
	wantError(t, err, cu.ErrorNotReady, "measure")
	open()
	check(t, b.Wait(context.Background()))
	if d, err := b.Since(a); err != nil || d < 0 {
		t.Errorf("Since is %v, %v", d, err)
	}
	closeAll(t, a, a, b, silent)
	wantError(t, s.Record(a), ferry.ErrClosed, "event")
	wantError(t, s.WaitEvent(a), ferry.ErrClosed, "event")
	wantError(t, a.Wait(context.Background()), ferry.ErrClosed, "event")
	other := must(ferry.Open("soft"))(t)
	stranger := must(ferry.NewEvent(other, nil))(t)
	wantError(t, s.Record(stranger), cu.ErrorInvalidHandle, "one GPU")
	wantError(t, s.WaitEvent(stranger), cu.ErrorInvalidValue, "one driver")
	closeAll(t, stranger, other, s)
}

// TestEventConcurrent: an event can be recorded by several goroutines at once. When it is
// recorded by one again, a wait for it completes the buffers used before.
func TestEventConcurrent(t *testing.T) {
	g := openTest(t)
	streams := []*ferry.Stream{must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)}
	e := must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 4096, nil))(t), must(ferry.Alloc[byte](g, 4096))(t)
	defer closeAll(t, host, device, streams[0], streams[1])
	together := func(n int, want error) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				var b ferry.Batch
				check(t, b.Record(e))
				for range n {
					for _, err := range []error{streams[i%2].Record(e), streams[i%2].Submit(&b), e.Wait(context.Background())} {
						if err != nil && !errors.Is(err, want) {
							t.Error(err)
						}
					}
				}
			})
		}
		if want != nil {
			closeAll(t, e)
		}
		all.Wait()
	}
	for range 3 {
		together(50, nil)
		check(t, ferry.Copy(streams[0], host, device))
		check(t, streams[0].Record(e))
		check(t, e.Wait(context.Background()))
		open := gate(t, streams[0])
		if host.Slice() == nil { // must return although the gate is shut
			t.Error("Slice is nil")
		}
		open()
	}
	together(50, ferry.ErrClosed)
	if err := streams[0].Record(e); !errors.Is(err, ferry.ErrClosed) {
		t.Errorf("got error %v, want ErrClosed", err)
	}
	closeAll(t, e)
}

// queryInCapture queries an Event within the call that records it in a capture, as another
// goroutine can do.
type queryInCapture struct {
	cu.Driver
	query func()
}

func (d *queryInCapture) Unwrap() cu.Driver { return d.Driver }

func (d *queryInCapture) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	err := d.Driver.EventRecord(ctx, e, s)
	if query := d.query; query != nil {
		d.query = nil
		query()
	}
	return err
}

// TestSharedEventInCapture: while one goroutine records an event in a capture, others query it and
// wait for it. None of that invalidates the capture, and no event is left.
func TestSharedEventInCapture(t *testing.T) {
	d := &queryInCapture{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
	g := openDriver(t, d)
	s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	e := must(ferry.NewEvent(g, nil))(t)
	b := must(ferry.Alloc[byte](g, 100))(t)
	var batch ferry.Batch
	check(t, batch.Record(e))
	for name, record := range map[string]func(*ferry.Stream) error{
		"Record": func(s *ferry.Stream) error { return s.Record(e) },
		"Batch":  func(s *ferry.Stream) error { return s.Submit(&batch) },
	} {
		check(t, s.Record(e))
		graph, err := s.Capture(func(s *ferry.Stream) error {
			d.query = func() {
				if _, err := e.Done(); err != nil {
					t.Errorf("%s: a query during the call that records: %v", name, err)
				}
			}
			if name == "Batch" {
				d.query()
				d.query = nil
			}
			err := errors.Join(record(s), other.WaitEvent(e), ferry.Fill(other, b, 1), other.Record(e), s.WaitEvent(e))
			_, queried := e.Done()
			wantError(t, queried, cu.ErrorCapturedEvent)
			return err
		})
		check(t, err)
		check(t, graph.Launch(s))
		check(t, s.Wait(context.Background()))
		closeAll(t, graph)
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = e.Done() // an error while the event is recorded in a capture
				}
			}
		})
	}
	for range 100 {
		graph, err := s.Capture(func(s *ferry.Stream) error { return errors.Join(s.Record(e), ferry.Fill(s, b, 1), s.WaitEvent(e)) })
		check(t, err)
		closeAll(t, graph)
	}
	close(stop)
	all.Wait()
	closeAll(t, e, b, s, other)
}
