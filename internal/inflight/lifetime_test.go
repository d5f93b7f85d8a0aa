package inflight

import "testing"

// TestLifetime follows a Lifetime through its calls.
func TestLifetime(t *testing.T) {
	var l Lifetime
	if !l.Enter() || !l.EnterIn(0) || l.Closed() || !l.OpenIn(0) {
		t.Fatal("a new Lifetime is not open in generation 0")
	}
	if l.EnterIn(1) || l.OpenIn(1) || l.CloseIn(1) {
		t.Error("it is open in a later generation")
	}
	if l.Leave() {
		t.Error("the last user of an open thing is reported as the last of a closed one")
	}
	l.AddUser()
	if first, unused := l.Close(); !first || unused {
		t.Errorf("Close with 2 users: first %v, unused %v; want true, false", first, unused)
	}
	if first, unused := l.Close(); first || unused {
		t.Errorf("second Close: first %v, unused %v", first, unused)
	}
	if l.Enter() || l.EnterIn(0) || l.OpenIn(0) || l.CloseIn(0) || !l.Closed() {
		t.Error("a closed Lifetime can be entered or closed again")
	}
	if !l.EnterUsed() {
		t.Error("a closed Lifetime with users cannot be used")
	}
	for range 2 {
		if l.Leave() || l.unused() {
			t.Error("a user that is not the last is reported as the last")
		}
	}
	if !l.Leave() || !l.unused() {
		t.Error("the last user is not reported")
	}
	if first, unused := l.Close(); first || unused {
		t.Errorf("Close after all: first %v, unused %v; want false, false: a user was the last", first, unused)
	}
	if l.EnterUsed() {
		t.Error("a closed Lifetime without users can be used")
	}
}

// TestLifetimeUnusedClose: Close of a thing without users reports that, once.
func TestLifetimeUnusedClose(t *testing.T) {
	var l Lifetime
	if first, unused := l.Close(); !first || !unused {
		t.Errorf("first %v, unused %v; want both", first, unused)
	}
	if first, unused := l.Close(); first || unused {
		t.Errorf("again: first %v, unused %v", first, unused)
	}
}

// TestGenerations: callers of an earlier generation cannot enter or close. After the
// last generation comes the first.
func TestGenerations(t *testing.T) {
	var l Lifetime
	if !l.CloseIn(0) || l.CloseIn(0) {
		t.Fatal("generation 0 must close once")
	}
	if g := l.Reopen(); g != 1 || l.Generation() != 1 {
		t.Fatalf("generation %d, %d; want 1", g, l.Generation())
	}
	if l.EnterIn(0) || l.CloseIn(0) || l.OpenIn(0) {
		t.Error("generation 0 is open again")
	}
	if !l.EnterIn(1) || !l.OpenIn(1) || l.Leave() || !l.CloseIn(1) || l.Generation() != 1 {
		t.Error("generation 1 cannot be used")
	}
	l.state.Store(generationMask | lifetimeClosed)
	if g := l.Generation(); g != 1<<30-1 {
		t.Errorf("the last generation is %d", g)
	}
	if g := l.Reopen(); g != 0 || !l.EnterIn(0) || l.Leave() || l.state.Load() != 0 {
		t.Errorf("after the last generation came %d, state %#x", g, l.state.Load())
	}
}

// TestLifetimeManyUsers: the count of users does not run into the generation.
func TestLifetimeManyUsers(t *testing.T) {
	var l Lifetime
	l.state.Store(3<<generationShift | 1<<31 - 1)
	if !l.EnterIn(3) || l.Generation() != 3 || l.Leave() || !l.CloseIn(3) {
		t.Errorf("with 2^31 users: generation %d", l.Generation())
	}
	if v := l.state.Load() & lifetimeUsers; v != 1<<31-1 {
		t.Errorf("%d users, want %d", v, 1<<31-1)
	}
}
