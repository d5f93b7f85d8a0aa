package trace_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// recordCounter counts the events that are recorded.
type recordCounter struct {
	bare
	records int
}

func (d *recordCounter) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	d.records++
	return d.bare.EventRecord(ctx, e, s)
}

// chunks copies chunks in with one stream and out with another, which waits for each. The
// copies out are short, so that this stream is idle before each but for the wait.
func chunks(t *testing.T, inner cu.Driver, n int) *trace.Recording {
	const in, out = 4 << 20, 1 << 20
	w, ctx, a, finish := raw(t, inner)
	b := must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
	p := must(w.MemAlloc(ctx, uintptr(n*in)))(t)
	host := must(w.MemHostAlloc(ctx, in, 0))(t)
	results := must(w.MemHostAlloc(ctx, out, 0))(t)
	for i := range n {
		check(t, w.MemcpyHtoDAsync(ctx, p+cu.DevicePtr(i*in), host, in, a))
		e := must(w.EventCreate(ctx, cu.EventDisableTiming))(t)
		check(t, w.EventRecord(ctx, e, a))
		check(t, w.StreamWaitEvent(ctx, b, e, 0))
		check(t, w.MemcpyDtoHAsync(ctx, results, p+cu.DevicePtr(i*in), out, b))
		check(t, w.EventDestroy(ctx, e))
	}
	check(t, w.CtxSynchronize(ctx))
	check(t, w.MemFreeHost(ctx, host))
	check(t, w.MemFreeHost(ctx, results))
	check(t, w.MemFree(ctx, p))
	check(t, w.StreamDestroy(ctx, a))
	check(t, w.StreamDestroy(ctx, b))
	check(t, w.DevicePrimaryCtxRelease(0))
	rec := finish()
	slices.SortFunc(rec.Operations, func(a, b trace.Operation) int { return cmp.Compare(a.ID, b.ID) })
	return rec
}

// anchored runs f again while an operation has no times because an anchor could not be made,
// which happens on a busy machine.
func anchored(t *testing.T, f func() []trace.Operation) (all []trace.Operation) {
	t.Helper()
	for range 50 {
		all = f()
		if !slices.ContainsFunc(all, func(o trace.Operation) bool { return o.Untimed == "no events" }) {
			return all
		}
	}
	return all
}

// TestStartsWithoutEvents: operations that are queued behind others get no event before
// them, and their times are those of the timeline.
func TestStartsWithoutEvents(t *testing.T) {
	const n = 12
	var counter *recordCounter
	got := anchored(t, func() []trace.Operation {
		counter = &recordCounter{bare: bare{soft(t, "h200", 1)}}
		return chunks(t, counter, n).Operations
	})
	want := chunks(t, soft(t, "h200", 1), n).Operations
	if len(got) != 2*n || len(want) != 2*n {
		t.Fatalf("%d and %d operations, want %d", len(got), len(want), 2*n)
	}
	slices.SortFunc(want, func(a, b trace.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for i := range got {
		g, w := got[i], want[i]
		if g.Untimed != "" || g.Name != w.Name {
			t.Errorf("operation %d: %+v, want %+v", i, g, w)
		}
		start, end := g.Start-got[0].Start-(w.Start-want[0].Start), g.End-got[0].Start-(w.End-want[0].Start)
		if max(start, -start, end, -end) > 20_000 {
			t.Errorf("operation %d (%s): from %d to %d ns, on the timeline from %d to %d", i, g.Name,
				g.Start-got[0].Start, g.End-got[0].Start, w.Start-want[0].Start, w.End-want[0].Start)
		}
	}
	// Of the program's own events there are n, and anchors have some. Of 2*n operations each has one behind it.
	if most := n + 5 + 2*n + n/2; counter.records > most {
		t.Errorf("%d events were recorded, want at most %d", counter.records, most)
	}
}

// oneByOne copies n times, and waits after each copy.
func oneByOne(t *testing.T, inner cu.Driver, n int) []trace.Operation {
	const bytes = 1 << 20
	w, ctx, s, finish := raw(t, inner)
	p := must(w.MemAlloc(ctx, bytes))(t)
	host := must(w.MemHostAlloc(ctx, bytes, 0))(t)
	for range n {
		check(t, w.MemcpyHtoDAsync(ctx, p, host, bytes, s))
		check(t, w.StreamSynchronize(ctx, s))
		check(t, w.MemFree(ctx, must(w.MemAlloc(ctx, 4096))(t))) // which takes some time
	}
	check(t, errors.Join(w.MemFreeHost(ctx, host), w.MemFree(ctx, p), w.StreamDestroy(ctx, s), w.DevicePrimaryCtxRelease(0)))
	return finish().Operations
}

// TestIdleStream: an operation that finds its stream idle starts when it is queued, not at the end of
// the one before it, and has no event before it.
func TestIdleStream(t *testing.T) {
	const n = 40
	var counter *recordCounter
	got := anchored(t, func() []trace.Operation {
		counter = &recordCounter{bare: bare{soft(t, "h200", 1)}}
		return oneByOne(t, counter, n)
	})
	want := oneByOne(t, soft(t, "h200", 1), n)
	if len(got) != n || len(want) != n || counter.records > n+1+anchorRecords {
		t.Fatalf("%d and %d operations, %d events; want %d operations, and an event for each but two for the first", len(got), len(want), counter.records, n)
	}
	for i := range got {
		g, w := got[i].End-got[i].Start, want[i].End-want[i].Start
		if got[i].Untimed != "" || g < w-1000 || g > w+5000 {
			t.Errorf("copy %d takes %d ns, on the timeline %d", i, g, w)
		}
	}
}

// anchorRecords is the number of events for one anchor.
const anchorRecords = 5

// TestOrderThatIsNotKnown: after work that is no operation, and after an event that is not
// known, an operation has an event before it.
func TestOrderThatIsNotKnown(t *testing.T) {
	for name, between := range map[string]func(w *trace.Driver, ctx cu.Context, s cu.Stream) error{
		"nothing": func(*trace.Driver, cu.Context, cu.Stream) error { return nil },
		"a fill of the default stream": func(w *trace.Driver, ctx cu.Context, s cu.Stream) error {
			p, err := w.MemAlloc(ctx, 256)
			if err != nil {
				return err
			}
			return w.MemsetD8Async(ctx, p, 1, 256, 0)
		},
		"an allocation in the stream": func(w *trace.Driver, ctx cu.Context, s cu.Stream) error {
			_, err := w.MemAllocAsync(ctx, 4096, s)
			return err
		},
		"a wait for an event that was not recorded behind an operation": func(w *trace.Driver, ctx cu.Context, s cu.Stream) error {
			other, err := w.StreamCreate(ctx, cu.StreamNonBlocking)
			if err != nil {
				return err
			}
			e, err := w.EventCreate(ctx, cu.EventDisableTiming)
			if err != nil {
				return err
			}
			if err := w.EventRecord(ctx, e, other); err != nil {
				return err
			}
			return w.StreamWaitEvent(ctx, s, e, 0)
		},
		"a batch": func(w *trace.Driver, ctx cu.Context, s cu.Stream) error {
			p, err := w.MemAlloc(ctx, 256)
			if err != nil {
				return err
			}
			b := &cu.Batch{}
			b.MemsetD8Async(p, 1, 256, s)
			_, err = w.Submit(ctx, b)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			records, want := 0, 2
			if name == "nothing" {
				want = 1
			}
			all := anchored(t, func() []trace.Operation {
				counter := &recordCounter{bare: bare{soft(t, "h200", 1)}}
				w, ctx, s, finish := raw(t, counter)
				const n = 32 << 20
				p := must(w.MemAlloc(ctx, n))(t)
				host := must(w.MemHostAlloc(ctx, n, 0))(t)
				check(t, w.MemcpyHtoDAsync(ctx, p, host, n, s))
				check(t, between(w, ctx, s))
				before := counter.records
				check(t, w.MemcpyHtoDAsync(ctx, p, host, n, s))
				records = counter.records - before
				check(t, w.CtxSynchronize(ctx))
				check(t, w.DevicePrimaryCtxRelease(0))
				return finish().Operations
			})
			if records != want {
				t.Errorf("%d events for the second copy, want %d", records, want)
			}
			for _, o := range all {
				if o.Untimed != "" || o.End < o.Start {
					t.Errorf("operation %+v", o)
				}
			}
		})
	}
}
