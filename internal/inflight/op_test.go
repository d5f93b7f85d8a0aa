package inflight

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// TestOp: an operation notes its number where it reads and where it writes, and
// releases everything.
func TestOp(t *testing.T) {
	for _, long := range []bool{false, true} {
		s := newTestStream(nil)
		var x [5]*Tracker // more than few
		for i := range x {
			x[i] = newTracker()
		}
		var op Op
		for n := uint64(1); n <= 3; n++ { // an Op is used again
			if long && !op.BeginLong(&s.Stream) || !long && !op.Begin(&s.Stream) || op.short == long {
				t.Fatal("cannot begin")
			}
			for i := range x {
				if !op.Acquire(x[i], Access(i%2), 0) {
					t.Fatal("cannot acquire")
				}
			}
			if got := x[0].state.Load(); (got == 1) != long {
				t.Errorf("long %v: %d users of a resource", long, got)
			}
			if s.users() != 1 {
				t.Errorf("%d users of the stream, want 1", s.users())
			}
			op.Queued()
			op.End()
			op.End() // does nothing
			for i := range x {
				want := map[*Stream]uint64{&s.Stream: n}
				if i%2 == int(Read) {
					if got := pending(x[i], Read); len(got) != 0 {
						t.Errorf("long %v: reads conflict: %v", long, got)
					}
				} else if got := pending(x[i], Read); got[&s.Stream] != n {
					t.Errorf("long %v: pending for a reader: %v, want %v", long, got, want)
				}
				if got := pending(x[i], Write); got[&s.Stream] != n {
					t.Errorf("long %v: pending for a writer: %v, want %v", long, got, want)
				}
				if got := x[i].state.Load(); got != 0 {
					t.Errorf("long %v: resource %d has %d users after End", long, i, got)
				}
			}
			if v := s.word.Load(); v != n*oneNumber {
				t.Errorf("long %v: word of the stream %#x, want %d operations", long, v, n)
			}
			if op.n != 0 || len(op.more) != 0 || len(op.entered) != 0 || op.inline != [inlineRetained]*atomic.Uint64{} || op.stream != nil {
				t.Errorf("long %v: End keeps %+v", long, op)
			}
			if slices.ContainsFunc(op.more[:cap(op.more)], func(last *atomic.Uint64) bool { return last != nil }) ||
				slices.ContainsFunc(op.entered[:cap(op.entered)], func(x *Tracker) bool { return x != nil }) {
				t.Errorf("long %v: End keeps a resource alive", long)
			}
		}
	}
}

// TestOpOfBothKinds: an Op that was short can be long, and the other way round.
func TestOpOfBothKinds(t *testing.T) {
	s, x := newTestStream(nil), newTracker()
	var op Op
	for i, begin := range []func(*Stream) bool{op.Begin, op.BeginLong, op.Begin} {
		if !begin(&s.Stream) || op.short != (i != 1) || !op.Acquire(x, Write, 0) {
			t.Fatalf("operation %d cannot begin", i)
		}
		op.Queued()
		if op.End(); s.word.Load() != uint64(i+1)*oneNumber || x.state.Load() != 0 {
			t.Errorf("operation %d: word of the stream %#x, state of the resource %#x", i, s.word.Load(), x.state.Load())
		}
	}
}

// TestOpNotQueued: what the driver does not have gets no number and is not noted.
func TestOpNotQueued(t *testing.T) {
	for _, long := range []bool{false, true} {
		s, x := newTestStream(nil), newTracker()
		op := new(Op)
		begin := op.Begin
		if long {
			begin = op.BeginLong
		}
		begin(&s.Stream)
		op.Acquire(x, Write, 0)
		op.End()
		begin(&s.Stream) // the next is not queued because the last was
		op.Acquire(x, Write, 0)
		op.Queued()
		op.End()
		begin(&s.Stream)
		op.Acquire(x, Write, 0)
		op.End()
		if v := s.word.Load(); v != oneNumber {
			t.Errorf("long %v: word %#x, want 1 operation", long, v)
		}
		if got := pending(x, Write); got[&s.Stream] != 1 {
			t.Errorf("long %v: pending %v, want 1", long, got)
		}
	}
}

// TestAcquireClosed: a closed resource cannot be acquired, nor can one in another
// generation. What was acquired before stays so until End.
func TestAcquireClosed(t *testing.T) {
	for _, long := range []bool{false, true} {
		s := newTestStream(nil)
		open, closed := newTracker(), newTracker()
		closed.CloseIn(0)
		var op Op
		if long {
			op.BeginLong(&s.Stream)
		} else {
			op.Begin(&s.Stream)
		}
		if !op.Acquire(open, Write, 0) || op.Acquire(closed, Read, 0) || op.Acquire(open, Read, 1) {
			t.Errorf("long %v: acquired what is closed", long)
		}
		op.Queued()
		op.End()
		if closed.state.Load() != lifetimeClosed || open.state.Load() != 0 {
			t.Errorf("long %v: states %#x and %#x", long, closed.state.Load(), open.state.Load())
		}
		if len(pending(closed, Write)) != 0 {
			t.Errorf("long %v: an operation is noted that does not use the resource", long)
		}
		if g := closed.Reopen(); !queue(&s.Stream, Read, long, closed) || g != 1 {
			t.Errorf("long %v: cannot use generation %d", long, g)
		}
	}
}

// TestAcquireOwned: a launch of a graph uses resources that are closed, and is in
// flight on them as any other operation.
func TestAcquireOwned(t *testing.T) {
	for _, long := range []bool{false, true} {
		s, x := newTestStream(nil), newTracker()
		x.Own()
		x.CloseIn(0)
		x.Drain()
		disposed := 0
		if err := x.AfterOwners(func() error { disposed++; return nil }); err != nil || disposed != 0 {
			t.Fatalf("disposed of an owned resource; %v", err)
		}
		var op Op
		if long {
			op.BeginLong(&s.Stream)
		} else {
			op.Begin(&s.Stream)
		}
		op.AcquireOwned(x, Write)
		if x.Drained() {
			t.Errorf("long %v: drained while a launch uses it", long)
		}
		op.Queued()
		op.End()
		if !x.Drained() || pending(x, Read)[&s.Stream] != 1 {
			t.Errorf("long %v: drained %v, pending %v", long, x.Drained(), pending(x, Read))
		}
		if err := x.Disown(); err != nil || disposed != 1 {
			t.Errorf("long %v: disposed %d times, want 1; %v", long, disposed, err)
		}
	}
}

// TestLend: a close waits for no operation that has lent the resource. What it leaves is done when
// the last of them, and the last graph, gives it back. The operation is in flight then.
func TestLend(t *testing.T) {
	s, x, other := newTestStream(nil), newTracker(), newTracker()
	var op, second Op
	op.BeginLong(&s.Stream)
	second.BeginLong(&s.Stream)
	for _, o := range []*Op{&op, &second} {
		if !o.Acquire(other, Read, 0) || !o.Acquire(x, Write, 0) || o.Lend() != x {
			t.Fatal("the resource that was acquired last is not the one that is lent")
		}
	}
	x.Own()
	x.CloseIn(0)
	if !x.Drained() || !x.Lent() || other.state.Load() != 2 || other.Lent() {
		t.Errorf("drained %t, lent %t; the other resource has the state %#x, lent %t", x.Drained(), x.Lent(), other.state.Load(), other.Lent())
	}
	disposed, failed := 0, errors.New("planted")
	task := func() error {
		disposed++
		if pending(x, Read)[&s.Stream] != 1 {
			t.Errorf("disposed of with %v in flight", pending(x, Read))
		}
		return failed
	}
	if err := x.AfterOwners(task); err != ErrLent || disposed != 0 {
		t.Errorf("got %v, want %v; disposed %d times", err, ErrLent, disposed)
	}
	op.Queued()
	op.End()
	second.End()
	for range 2 {
		if task := x.GiveBack(); task != nil {
			t.Error("GiveBack returns a task while a graph owns it")
		}
	}
	if err := x.Disown(); x.Lent() || err != failed || disposed != 1 || other.state.Load() != 0 {
		t.Errorf("lent %t, %v, disposed %d times", x.Lent(), err, disposed)
	}
}

// TestEndOnEveryWay: whichever way a function is left, a deferred End releases what the
// operation has, and numbers it if it was queued.
func TestEndOnEveryWay(t *testing.T) {
	failed := errors.New("failed")
	for _, long := range []bool{false, true} {
		for what, leave := range map[string]func() error{
			"return": func() error { return nil },
			"error":  func() error { return failed },
			"panic":  func() error { panic(failed) },
			"Goexit": func() error { runtime.Goexit(); return nil },
		} {
			for _, queued := range []bool{false, true} {
				s, x, y, z := newTestStream(nil), newTracker(), newTracker(), newTracker()
				operate := func() (err error) {
					var op Op
					defer op.End()
					if long && !op.BeginLong(&s.Stream) || !long && !op.Begin(&s.Stream) {
						t.Error("cannot begin")
					}
					for _, tracker := range []*Tracker{x, y, z} {
						op.Acquire(tracker, Write, 0)
					}
					if queued {
						op.Queued()
					}
					return leave()
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = operate()
				}()
				<-done
				want := uint64(0)
				if queued {
					want = 1
				}
				if v := s.word.Load(); v != want*oneNumber {
					t.Errorf("long %v, %s, queued %v: word of the stream %#x", long, what, queued, v)
				}
				for _, tracker := range []*Tracker{x, y, z} {
					if got := pending(tracker, Write)[&s.Stream]; got != want || tracker.state.Load() != 0 {
						t.Errorf("long %v, %s, queued %v: state %#x, pending %d", long, what, queued, tracker.state.Load(), got)
					}
					tracker.CloseIn(0)
					tracker.Drain() // hangs if a use was left behind
				}
				if !s.Close() {
					t.Errorf("long %v, %s, queued %v: the stream is in use", long, what, queued)
				}
			}
		}
	}
}

// TestOpAllocates: an operation allocates nothing on resources that its stream has used.
func TestOpAllocates(t *testing.T) {
	s, x, y, z := newTestStream(nil), newTracker(), newTracker(), newTracker()
	reused := new(Op)
	for what, f := range map[string]func(){
		"two resources": func() {
			var op Op
			op.Begin(&s.Stream)
			op.Acquire(x, Read, 0)
			op.Acquire(y, Write, 0)
			op.Queued()
			op.End()
		},
		"three, reused": func() {
			reused.BeginLong(&s.Stream)
			reused.Acquire(x, Read, 0)
			reused.Acquire(y, Write, 0)
			reused.Acquire(z, Write, 0)
			reused.Queued()
			reused.End()
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", what, n)
		}
	}
}
