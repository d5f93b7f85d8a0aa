package inflight

import (
	"errors"
	"testing"
)

// TestRecorder: a capture collects each resource once, with the stronger access, and
// owns it until the graph disowns it.
func TestRecorder(t *testing.T) {
	r := new(Recorder)
	a, b := newTestStream(r), newTestStream(r) // two streams of one capture
	x, y, closed := newTracker(), newTracker(), newTracker()
	closed.CloseIn(0)
	queue(&a.Stream, Read, false, x)
	queue(&b.Stream, Write, true, x, y)
	queue(&a.Stream, Read, true, y)
	if queue(&a.Stream, Read, false, closed) {
		t.Error("a capture acquired a closed resource")
	}
	if x.owners.Load() != 1 || y.owners.Load() != 1 || closed.owners.Load() != 0 {
		t.Errorf("%d, %d and %d owners, want 1, 1, 0", x.owners.Load(), y.owners.Load(), closed.owners.Load())
	}
	uses := r.Uses()
	got := map[*Tracker]Access{}
	for _, u := range uses {
		got[u.Tracker] = u.Access
	}
	if len(uses) != 2 || len(got) != 2 || got[x] != Write || got[y] != Write {
		t.Errorf("uses %v, want both resources, written", uses)
	}
	if again := r.Uses(); len(again) != 0 {
		t.Errorf("the uses belong to two graphs: %v", again)
	}
	disposed := 0
	failed := errors.New("failed")
	for _, z := range []*Tracker{x, y} {
		z.CloseIn(0)
		z.Drain()
		if err := z.AfterOwners(func() error { disposed++; return failed }); err != nil {
			t.Error(err)
		}
	}
	if err := DisownAll(uses); disposed != 2 || !errors.Is(err, failed) {
		t.Errorf("disposed of %d, want 2; %v", disposed, err)
	}
	if x.owners.Load() != 0 || y.owners.Load() != 0 {
		t.Error("owners are left")
	}
}
