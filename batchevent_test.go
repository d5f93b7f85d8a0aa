package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestBatchSameEvent: a batch can record one event, and wait for it, any number of times.
func TestBatchSameEvent(t *testing.T) {
	const many = 5000
	g := openTest(t)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	for what, add := range map[string]func(*ferry.Batch) error{
		"Record":                func(b *ferry.Batch) error { return b.Record(e) },
		"WaitEvent":             func(b *ferry.Batch) error { return b.WaitEvent(e) },
		"Record, WaitEvent":     func(b *ferry.Batch) error { return errors.Join(b.Record(e), b.WaitEvent(e)) },
		"WaitEvent then Record": func(b *ferry.Batch) error { return errors.Join(b.WaitEvent(e), b.Record(e)) },
	} {
		var b ferry.Batch
		for range many {
			check(t, add(&b))
		}
		for range 3 { // the later times replay
			check(t, within(t, what, func() error { return s.Submit(&b) }))
		}
		check(t, within(t, "Wait", func() error { return e.Wait(context.Background()) }))
	}
	closeAll(t, e, s)
	_, err := e.Done()
	wantError(t, err, ferry.ErrClosed)
}

// TestBatchWaitsThenRecords: an event that a batch waits for, and records later, stands for the
// work before the batch. So after a wait for the event, the buffers of that work are not in flight.
func TestBatchWaitsThenRecords(t *testing.T) {
	g := openTest(t)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	var b ferry.Batch
	check(t, errors.Join(b.WaitEvent(e), b.Record(e), b.Record(e)))
	check(t, errors.Join(ferry.Copy(s, host, device), s.Submit(&b), e.Wait(context.Background())))
	open := gate(t, s)
	check(t, within(t, "Wait", func() error { return host.Wait(context.Background()) }))
	open()
	closeAll(t, e, host, device, s)
}

// TestBatchRecordThenWaitCaptured: a captured batch can wait for an event that it has recorded.
func TestBatchRecordThenWaitCaptured(t *testing.T) {
	g := openTest(t)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	var b ferry.Batch
	check(t, errors.Join(ferry.Fill(&b, device, 9), b.Record(e), b.WaitEvent(e), ferry.Copy(&b, host, device)))
	x := must(s.Capture(func(s *ferry.Stream) error { return s.Submit(&b) }))(t)
	clear(host.Slice())
	check(t, x.Launch(s))
	if got := host.Slice(); got[0] != 9 || got[63] != 9 {
		t.Errorf("got %d and %d, want 9", got[0], got[63])
	}
	closeAll(t, x, host, device, e, s)
}

// TestBatchClosedEventAgain: a batch whose submission has failed at a closed event fails there
// again.
func TestBatchClosedEventAgain(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for what, add := range map[string]func(*ferry.Batch, *ferry.Event) error{
		"wait": (*ferry.Batch).WaitEvent, "record": (*ferry.Batch).Record,
	} {
		e := must(ferry.NewEvent(g, nil))(t)
		var b ferry.Batch
		check(t, add(&b, e))
		check(t, e.Close())
		_, err := s.Capture(func(s *ferry.Stream) error { return s.Submit(&b) })
		wantError(t, err, ferry.ErrClosed, "operation 1 of 1", what)
		for range 2 {
			wantError(t, s.Submit(&b), ferry.ErrClosed, "operation 1 of 1", what)
		}
	}
	closeAll(t, s)
}
