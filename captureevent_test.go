package ferry_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

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
