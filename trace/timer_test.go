package trace_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// TestEventsTimeOperations: on a driver that does not report its operations, events give
// each operation times, in the order of its stream, that agree with those of the timeline.
func TestEventsTimeOperations(t *testing.T) {
	r, path := recorder(t)
	g := open(t, r.Wrap(bare{soft(t, "h200", 1)}))
	addVectors(t, g)
	check(t, g.Close())
	rec := ended(t, r, path)
	slices.SortFunc(rec.Operations, func(a, b trace.Operation) int { return cmp.Compare(a.ID, b.ID) })
	before, bytes, kernels := int64(0), uint64(0), 0
	for i, o := range rec.Operations {
		if o.Untimed != "" || o.End <= o.Start || o.Start < before-1000 {
			t.Errorf("operation %d: %+v, after %d", i, o, before)
		}
		bytes += o.Bytes
		if o.Name == "vector_add" {
			kernels++
		}
		if o.From != "" && (o.End-o.Start < 2000 || o.End-o.Start > 100_000) {
			t.Errorf("operation %d: a copy of %d bytes takes %d ns", i, o.Bytes, o.End-o.Start)
		}
		before = o.End
	}
	if bytes != 3*4*elements || kernels != 1 {
		t.Errorf("%d bytes and %d kernels: %+v", bytes, kernels, rec.Operations)
	}
	if d := rec.Drivers; len(d) != 1 || d[0].Virtual() {
		t.Errorf("drivers %+v", d)
	}
}

// TestNoOperationIsLost: none of many operations without a wait is lost, and few events
// are made for them.
func TestNoOperationIsLost(t *testing.T) {
	r, path := recorder(t)
	d := &eventCounter{Driver: bare{soft(t, "h200", 1)}}
	w := r.Wrap(d)
	g := open(t, w)
	p := must(w.MemAlloc(g.CUContext(), 3*256))(t)
	var streams [3]cu.Stream
	for i := range streams {
		streams[i] = must(w.StreamCreate(g.CUContext(), cu.StreamNonBlocking))(t)
	}
	const rounds = 3000
	for i := range rounds {
		for j, s := range streams {
			check(t, w.MemsetD8Async(g.CUContext(), p+cu.DevicePtr(256*j), uint8(i), 256, s))
		}
		if i%200 == 199 { // as the queue of hardware does, which is finite
			check(t, w.CtxSynchronize(g.CUContext()))
		}
	}
	for _, s := range streams {
		check(t, w.StreamDestroy(g.CUContext(), s))
	}
	check(t, w.MemFree(g.CUContext(), p))
	check(t, g.Close())
	rec := ended(t, r, path)
	perStream := map[int]int{}
	seen := map[uint64]bool{}
	for _, o := range rec.Operations {
		if o.Untimed != "" || seen[o.ID] {
			t.Fatalf("operation %+v", o)
		}
		seen[o.ID] = true
		perStream[o.Stream]++
	}
	if len(rec.Operations) != rounds*len(streams) || len(perStream) != len(streams) {
		t.Errorf("%d operations in the streams %v, want %d", len(rec.Operations), perStream, rounds*len(streams))
	}
	if d.created > 2000 || d.created != d.destroyed {
		t.Errorf("%d events were made and %d destroyed", d.created, d.destroyed)
	}
}

// questionCounter counts the questions for events.
type questionCounter struct {
	bare
	questions atomic.Int64
}

func (d *questionCounter) EventQuery(ctx cu.Context, e cu.Event) error {
	d.questions.Add(1)
	return d.bare.EventQuery(ctx, e)
}

// TestIdleStream: where each operation finds its stream idle, few ask whether it is. Each has an
// event before it, so its time is its own.
func TestIdleStream(t *testing.T) {
	d := &questionCounter{bare: bare{soft(t, "h200", 1)}}
	w, ctx, s, finish := raw(t, d)
	const n, bytes = 64, 1 << 20
	p := must(w.MemAlloc(ctx, bytes))(t)
	host := must(w.MemHostAlloc(ctx, bytes, 0))(t)
	asked := 0
	for range n {
		before := d.questions.Load()
		check(t, w.MemcpyHtoDAsync(ctx, p, host, bytes, s))
		if d.questions.Load() > before {
			asked++
		}
		check(t, d.bare.StreamSynchronize(ctx, s)) // so that the recording does not know
	}
	check(t, errors.Join(w.MemFreeHost(ctx, host), w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0)))
	all := finish().Operations
	if len(all) != n || asked > n/2 {
		t.Errorf("%d operations, %d of which asked, want %d and a few", len(all), asked, n)
	}
	for i, o := range all[1:] {
		if o.Untimed == "" && (o.Start < all[i].End || o.End-o.Start > 100_000) {
			t.Errorf("operation %d: from %d to %d ns, after one until %d", i+1, o.Start, o.End, all[i].End)
		}
	}
}

// eventCounter counts the events and streams that are made and destroyed.
type eventCounter struct {
	cu.Driver
	created, destroyed int
}

// Unwrap lets a software GPU report its operations.
func (d *eventCounter) Unwrap() cu.Driver {
	if _, ok := d.Driver.(bare); ok {
		return nil
	}
	return d.Driver
}

func (d *eventCounter) StreamCreate(ctx cu.Context, flags cu.StreamFlags) (cu.Stream, error) {
	d.created++
	return d.Driver.StreamCreate(ctx, flags)
}

func (d *eventCounter) StreamDestroy(ctx cu.Context, s cu.Stream) error {
	d.destroyed++
	return d.Driver.StreamDestroy(ctx, s)
}

func (d *eventCounter) EventCreate(ctx cu.Context, flags cu.EventFlags) (cu.Event, error) {
	d.created++
	return d.Driver.EventCreate(ctx, flags)
}

func (d *eventCounter) EventDestroy(ctx cu.Context, e cu.Event) error {
	d.destroyed++
	return d.Driver.EventDestroy(ctx, e)
}

// TestCapture: operations that a stream records in a graph get no events. The launch of
// the graph is one operation with times, and the capture stays valid.
func TestCapture(t *testing.T) {
	r, path := recorder(t)
	g := open(t, r.Wrap(bare{soft(t, "h200", 1)}))
	s := must(ferry.NewStream(g, nil))(t)
	on := must(ferry.Alloc[byte](g, 4096))(t)
	graph := must(s.Capture(func(s *ferry.Stream) error {
		return errors.Join(ferry.Fill(s, on, byte(1)), ferry.Fill(s, on, byte(2)))
	}))(t)
	check(t, graph.Launch(s))
	check(t, s.Wait(t.Context()))
	check(t, errors.Join(graph.Close(), on.Close(), s.Close(), g.Close()))
	rec := ended(t, r, path)
	var got []string
	for _, o := range rec.Operations {
		got = append(got, fmt.Sprint(o.Name, " ", o.Untimed))
	}
	want := fmt.Sprint([]string{"[CUDA memset] recorded in a graph", "[CUDA memset] recorded in a graph", "[graph] "})
	if fmt.Sprint(got) != want {
		t.Errorf("operations %v, want %v", got, want)
	}
}

// TestBatch: what a batch does in one stream is one operation, and the batch stays as its
// driver has prepared it.
func TestBatch(t *testing.T) {
	r, path := recorder(t)
	w := r.Wrap(bare{soft(t, "h200", 1)})
	g := open(t, w)
	p := must(w.MemAlloc(g.CUContext(), 8192))(t)
	s := must(w.StreamCreate(g.CUContext(), cu.StreamNonBlocking))(t)
	b := &cu.Batch{}
	b.MemsetD8Async(p, 1, 4096, s)
	b.MemcpyDtoDAsync(p+4096, p, 4096, s)
	b.Prepare("kept")
	if done, err := w.Submit(g.CUContext(), b); done != 2 || err != nil {
		t.Fatal(done, err)
	}
	if x, current := b.Prepared(); x != "kept" || !current {
		t.Errorf("the batch has %v, current %v, want what was prepared", x, current)
	}
	check(t, w.StreamSynchronize(g.CUContext(), s))
	check(t, g.Close())
	rec := ended(t, r, path)
	if len(rec.Operations) != 1 || rec.Operations[0].Count != 2 || rec.Operations[0].Bytes != 8192 || rec.Operations[0].End <= rec.Operations[0].Start {
		t.Errorf("operations %+v, want one of 2 calls", rec.Operations)
	}
}

// TestFailedCall: a call that fails has its error in the recording, and no operation.
func TestFailedCall(t *testing.T) {
	for _, measured := range []bool{false, true} {
		r, path := recorder(t)
		var d cu.Driver = soft(t, "h200", 1)
		if measured {
			d = bare{d}
		}
		w := r.Wrap(d)
		g := open(t, w)
		if err := w.MemsetD8Async(g.CUContext(), 12345, 0, 1, 0); err == nil {
			t.Error("a fill of no memory succeeds")
		}
		check(t, g.Close())
		rec := ended(t, r, path)
		found := 0
		for _, c := range rec.Calls {
			if c.Error != "" {
				found++
			}
		}
		if found != 1 || len(rec.Operations) != 0 {
			t.Errorf("%d calls with an error and %d operations, want 1 and none", found, len(rec.Operations))
		}
	}
}

// stuck is a driver whose events in idle streams are never done, as behind a kernel that
// waits for the host in the only hardware queue.
type stuck struct{ bare }

func (stuck) EventQuery(cu.Context, cu.Event) error { return cu.ErrorNotReady }

// TestStuckEvents: where events are not done in time, the program goes on, and its
// operations have no times.
func TestStuckEvents(t *testing.T) {
	r, path := recorder(t)
	g := open(t, r.Wrap(stuck{bare{soft(t, "h200", 1)}}))
	on := must(g.Driver().MemAlloc(g.CUContext(), 4096))(t)
	check(t, g.Driver().MemsetD8(g.CUContext(), on, 1, 4096))
	check(t, g.Driver().MemFree(g.CUContext(), on))
	check(t, g.Close())
	rec := ended(t, r, path)
	if len(rec.Operations) != 1 || rec.Operations[0].Untimed != "no events" {
		t.Errorf("operations %+v, want one without times", rec.Operations)
	}
}
