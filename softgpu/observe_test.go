package softgpu

import (
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// observed is an observer that keeps everything.
type observed struct {
	mu     sync.Mutex
	queued []uint64
	ended  map[uint64]cu.Operation
}

func (l *observed) Queued(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued = append(l.queued, id)
}

func (l *observed) Ended(o *cu.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended[o.ID] = *o
}

// TestObserve: an observer sees each operation with its place in time, and what it waited
// for: the host, the operation before it in its stream, a recorded event, a busy engine,
// or an operation before it in the queue of an engine.
func TestObserve(t *testing.T) {
	for _, c := range []struct {
		profile string
		want    []cu.Blocked
		by      []int // index of the operation that blocked it, -1 for none
	}{
		{"h200", []cu.Blocked{cu.BlockedByHost, cu.BlockedByOrder, cu.BlockedByEngine, cu.BlockedByOrder}, []int{-1, 0, 0, 1}},
		{"fermi-c2050", []cu.Blocked{cu.BlockedByHost, cu.BlockedByOrder, cu.BlockedByEngine, cu.BlockedByOrder}, []int{-1, 0, 0, 1}},
	} {
		t.Run(c.profile, func(t *testing.T) { testObserve(t, c.profile, c.want, c.by) })
	}
}

// noError ends a test after an error.
func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testObserve(t *testing.T, name string, want []cu.Blocked, by []int) {
	p, err := profile.Named(name)
	noError(t, err)
	d, err := Open(Options{Profile: p, Schedule: Eager})
	noError(t, err)
	seen := &observed{ended: map[uint64]cu.Operation{}}
	d.Observe(seen)
	noError(t, d.Init(0))
	ctx, err := d.CtxCreate(cu.CtxMapHost, 0)
	noError(t, err)
	const n = 4 << 20
	on, err := d.MemAlloc(ctx, 2*n)
	noError(t, err)
	host, err := d.MemHostAlloc(ctx, n, 0)
	noError(t, err)
	other, err := d.MemHostAlloc(ctx, n/4, 0)
	noError(t, err)
	a, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
	noError(t, err)
	b, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
	noError(t, err)
	e, err := d.EventCreate(ctx, cu.EventDisableTiming)
	noError(t, err)
	noError(t, d.MemcpyHtoDAsync(ctx, on, host, n, a))      // at once
	noError(t, d.MemcpyDtoHAsync(ctx, host, on, n, a))      // after the first
	noError(t, d.MemcpyHtoDAsync(ctx, on+n, other, n/4, b)) // after the first, on its engine
	noError(t, d.EventRecord(ctx, e, a))
	noError(t, d.StreamWaitEvent(ctx, b, e, 0))
	noError(t, d.MemsetD8Async(ctx, on, 1, n, b)) // after the event, that is after the second
	noError(t, d.CtxSynchronize(ctx))
	if len(seen.queued) != len(want) || len(seen.ended) != len(want) {
		t.Fatalf("%d operations queued and %d ended, want %d", len(seen.queued), len(seen.ended), len(want))
	}
	for i, id := range seen.queued {
		o := seen.ended[id]
		blocker := uint64(0)
		if by[i] >= 0 {
			blocker = seen.queued[by[i]]
			if o.Start < seen.ended[blocker].End {
				t.Errorf("operation %d starts at %v, before %v", i, o.Start, seen.ended[blocker].End)
			}
		}
		if o.Blocked != want[i] || o.BlockedBy != blocker || o.Start < o.Queued || o.End <= o.Start || o.Bytes != n && i != 2 {
			t.Errorf("operation %d: %+v, want blocked by %v %d", i, o, want[i], blocker)
		}
	}
	if o := seen.ended[seen.queued[0]]; o.From != "page-locked" || o.To != "device" || o.Engine != "copy in" || o.Stream != a || o.Context != ctx {
		t.Errorf("the first operation is %+v", o)
	}
	d.Observe(nil)
	noError(t, d.MemsetD8(ctx, on, 1, n))
	noError(t, d.CtxSynchronize(ctx))
	if len(seen.queued) != len(want) {
		t.Error("an observer that was removed sees an operation")
	}
}

// The parts of a kernel's time say what it waits for.
func TestPartsOfAKernel(t *testing.T) {
	onlyFast(t)
	r := newRig(t, Options{})
	seen := &observed{ended: map[uint64]cu.Operation{}}
	r.Observe(seen)
	const n = 4 << 20
	host, _ := r.pinned(n)
	own := r.alloc(n)
	for _, c := range []struct {
		name   string
		want   string
		blocks uint32
		from   cu.DevicePtr
	}{
		{"host memory", "link", 1024, cu.DevicePtr(addressOf(host))},
		{"host memory by one block", "chain of waits", 1, cu.DevicePtr(addressOf(host))},
	} {
		r.ok(r.run(r.shipped("copy"), c.blocks, 256, 0, own, c.from, cu.DevicePtr(n)))
		r.sync(0)
		last := seen.ended[seen.queued[len(seen.queued)-1]]
		longest := last.Dominant()
		if took := last.End - last.Start; longest.Name != c.want || longest.Time > took || longest.Time < took/2 {
			t.Errorf("%s: %v of %v is for %s, want %s: %v", c.name, longest.Time, took, longest.Name, c.want, last.Parts)
		}
	}
}
