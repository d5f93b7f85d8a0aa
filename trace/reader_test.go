package trace_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// manyOperations are more than a wait of the program reads.
const manyOperations = 1500

// queueMany queues operations that are done when it returns, which the recording does not know.
func queueMany(t *testing.T, d bare, w *trace.Driver, ctx cu.Context, s cu.Stream) (free func() error) {
	t.Helper()
	p := must(w.MemAlloc(ctx, 256))(t)
	for i := range manyOperations {
		check(t, w.MemsetD8Async(ctx, p, uint8(i), 256, s))
	}
	check(t, d.CtxSynchronize(ctx))
	return func() error {
		return errors.Join(w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0))
	}
}

// TestReader: a goroutine reads the times of operations, without a call of the program, and ends
// when it has all. For later operations there is another one.
func TestReader(t *testing.T) {
	r, path := recorder(t)
	d := bare{soft(t, "h200", 1)}
	w := r.Wrap(d)
	check(t, w.Init(0))
	ctx := must(w.DevicePrimaryCtxRetain(0))(t)
	for round := 1; round <= 2; round++ {
		s := must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
		free := queueMany(t, d, w, ctx, s)
		found := 0
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && (found < round*manyOperations || w.Reads()); time.Sleep(5 * time.Millisecond) {
			if rec, err := trace.ReadFile(path); err == nil {
				found = len(rec.Operations)
			}
		}
		if found != round*manyOperations || w.Reads() {
			t.Errorf("round %d: %d operations are in the file, and a goroutine reads: %v; want %d", round, found, w.Reads(), round*manyOperations)
		}
		if round == 2 {
			check(t, free())
		}
	}
}

// TestCloseReads: Flush and Close read the times of operations that are done.
func TestCloseReads(t *testing.T) {
	for _, name := range []string{"Flush", "Close"} {
		r, path := recorder(t)
		d := bare{soft(t, "h200", 1)}
		w := r.Wrap(d)
		check(t, w.Init(0))
		ctx := must(w.DevicePrimaryCtxRetain(0))(t)
		free := queueMany(t, d, w, ctx, must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t))
		if name == "Flush" {
			check(t, r.Flush())
		} else {
			check(t, r.Close())
		}
		if rec := must(trace.ReadFile(path))(t); len(rec.Operations) != manyOperations {
			t.Errorf("%s: %d operations, want %d", name, len(rec.Operations), manyOperations)
		}
		check(t, free())
	}
}

// TestCloseReadsNewContext: Close reads the times of a context that was opened while the goroutine of an older one
// still slept.
func TestCloseReadsNewContext(t *testing.T) {
	for range 5 {
		r, path := recorder(t)
		d := bare{soft(t, "h200", 1)}
		w := r.Wrap(d)
		check(t, w.Init(0))
		for round := range 2 {
			ctx := must(w.DevicePrimaryCtxRetain(0))(t)
			free := queueMany(t, d, w, ctx, must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t))
			if round == 1 {
				check(t, r.Close())
			}
			check(t, free())
		}
		if rec := must(trace.ReadFile(path))(t); len(rec.Operations) != 2*manyOperations {
			t.Errorf("%d operations, want %d", len(rec.Operations), 2*manyOperations)
		}
	}
}

// endless is a driver with a stream whose work does not end.
type endless struct {
	bare
	stream    atomic.Uintptr // 0 for none
	behind    sync.Map       // events in the stream
	questions atomic.Int64   // for them
}

func (d *endless) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	if uintptr(s) == d.stream.Load() {
		d.behind.Store(e, true)
	}
	return d.bare.EventRecord(ctx, e, s)
}

func (d *endless) EventQuery(ctx cu.Context, e cu.Event) error {
	if _, ok := d.behind.Load(e); ok {
		d.questions.Add(1)
		return cu.ErrorNotReady
	}
	return d.bare.EventQuery(ctx, e)
}

// TestReaderGivesUp: while an operation does not end, the goroutine asks less and less, and ends.
func TestReaderGivesUp(t *testing.T) {
	d := &endless{bare: bare{soft(t, "h200", 1)}}
	w, ctx, s, finish := raw(t, d)
	p := must(w.MemAlloc(ctx, 256))(t)
	d.stream.Store(uintptr(s))
	check(t, w.MemsetD8Async(ctx, p, 1, 256, s))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && w.Reads(); {
		time.Sleep(10 * time.Millisecond)
	}
	if n := d.questions.Load(); w.Reads() || n < 5 || n > 20 {
		t.Errorf("a goroutine reads: %v, after %d questions", w.Reads(), n)
	}
	check(t, errors.Join(w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0)))
	if rec := finish(); len(rec.Operations) != 1 {
		t.Errorf("%d operations, want 1", len(rec.Operations))
	}
}

// TestContextEndsWhileReading: a context that ends while the goroutine reads has all rows, and no
// event is left.
func TestContextEndsWhileReading(t *testing.T) {
	r, path := recorder(t)
	d := &eventCounter{Driver: bare{soft(t, "h200", 1)}}
	w := r.Wrap(d)
	check(t, w.Init(0))
	const rounds, operations = 20, 200
	for i := range rounds {
		ctx := must(w.DevicePrimaryCtxRetain(0))(t)
		s := must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
		p := must(w.MemAlloc(ctx, 256))(t)
		for j := range operations {
			check(t, w.MemsetD8Async(ctx, p, uint8(j), 256, s))
		}
		time.Sleep(time.Duration(i) * 100 * time.Microsecond)
		check(t, errors.Join(w.StreamDestroy(ctx, s), w.MemFree(ctx, p), w.DevicePrimaryCtxRelease(0)))
	}
	if rec := ended(t, r, path); len(rec.Operations) != rounds*operations || d.created != d.destroyed {
		t.Errorf("%d operations, want %d; %d events and streams were made and %d destroyed", len(rec.Operations), rounds*operations, d.created, d.destroyed)
	}
}
