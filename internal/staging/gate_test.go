package staging

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// states returns the states of turns.
func states(turns []*turn) (all []uint32) {
	for _, t := range turns {
		all = append(all, t.state.Load())
	}
	return all
}

// wantStates compares the states of turns: h, q and n are held, queued and none.
func wantStates(t *testing.T, what string, turns []*turn, want string) {
	t.Helper()
	for i, s := range states(turns) {
		if "nqh"[s] != want[i] {
			t.Fatalf("%s: states are %v, want %s", what, states(turns), want)
		}
	}
}

// TestGateOrder: places go to turns in the order of arrival. A turn that gives up its place
// for others goes to the end.
func TestGateOrder(t *testing.T) {
	g := &gate{places: 2, patience: time.Hour}
	var turns []*turn
	for range 5 {
		turns = append(turns, g.arrive(nil))
	}
	wantStates(t, "arrived", turns, "hhqqq")
	if g.rotate(turns[0]) {
		t.Error("rotate kept the place although others wait")
	}
	wantStates(t, "0 rotates", turns, "qhhqq")
	g.leave(turns[1])
	wantStates(t, "1 leaves", turns, "qnhhq")
	g.leave(turns[4])
	wantStates(t, "4 leaves the queue", turns, "qnhhn")
	if g.enter(turns[1]) {
		t.Error("enter passed the queue")
	}
	g.leave(turns[2])
	wantStates(t, "2 leaves", turns, "hqnhn")
	g.leave(turns[3])
	wantStates(t, "3 leaves", turns, "hhnnn")
	if !g.rotate(turns[0]) {
		t.Error("rotate lost the place although nobody waits")
	}
	for _, x := range turns {
		g.quit(x)
	}
	if g.users.Load()+g.holding.Load()+g.waiting.Load() != 0 || g.first != nil || g.last != nil {
		t.Error("the gate is not empty")
	}
	again := g.arrive(nil)
	if !slices.Contains(turns, again) {
		t.Error("a turn was allocated, want one that was used before")
	}
}

// TestGateRevokes: a holder that makes no progress while others wait loses its place. One
// that makes progress keeps it.
func TestGateRevokes(t *testing.T) {
	g := &gate{places: 2, patience: time.Hour} // the test calls check
	var progress atomic.Int64
	turns := []*turn{g.arrive(&progress), g.arrive(nil)}
	for range 3 {
		g.check()
	}
	wantStates(t, "nobody waits", turns, "hh")
	turns = append(turns, g.arrive(nil))
	g.check()
	wantStates(t, "first check", turns, "hhq")
	progress.Add(1)
	g.check()
	wantStates(t, "second check", turns, "hnh")
	if err := turns[2].await(context.Background()); err != nil {
		t.Error(err)
	}
	turns = append(turns, g.arrive(nil))
	g.check() // progress is as it was
	wantStates(t, "third check", turns, "nnhh")
}

// TestGateRevokedBeforeItRuns: a turn that gets a place and loses it before its user has
// run does not wait for ever.
func TestGateRevokedBeforeItRuns(t *testing.T) {
	g := &gate{places: 1, patience: time.Hour}
	turns := []*turn{g.arrive(nil), g.arrive(nil), g.arrive(nil)}
	g.quit(turns[0])
	g.check()
	g.check()
	wantStates(t, "revoked", turns, "nnh")
	if err := turns[1].await(context.Background()); err != nil {
		t.Error(err)
	}
	if g.enter(turns[1]) {
		t.Error("enter passed the holder")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := turns[1].await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v: the old place counts", err)
	}
}
