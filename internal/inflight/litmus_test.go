package inflight

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// The litmus tests, here and in litmus_acquire_test.go, run two or three calls at the same
// time. TestExplore runs the same tests in all interleavings.

// TestLitmusLifetime: exactly one of the users that leave and the close cleans up. No user
// enters after Close.
func TestLitmusLifetime(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		l := new(Lifetime)
		var last atomic.Int32
		l.Enter()
		leave := func() {
			if l.Leave() {
				last.Add(1)
			}
		}
		enter := func() {
			if closed := l.Closed(); l.Enter() {
				if closed {
					t.Error("entered after Close")
				}
				leave()
			}
		}
		shut := func() {
			if _, unused := l.Close(); unused {
				last.Add(1)
			}
		}
		check = func() {
			if n := last.Load(); n != 1 {
				t.Errorf("%d calls were the last, want 1", n)
			}
		}
		return []func(){leave, shut, enter}, check
	})
}

// TestLitmusGenerations: a use of one generation is over before the next begins.
func TestLitmusGenerations(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		x := newTracker()
		var inside, entered atomic.Int32
		use := func() {
			for g := range uint32(2) {
				if x.EnterIn(g) {
					inside.Store(int32(g) + 1)
					if !x.OpenIn(g) && x.Generation() != g {
						t.Errorf("a use of generation %d, and the generation is %d", g, x.Generation())
					}
					inside.Store(0)
					entered.Add(1)
					x.Leave()
				}
			}
		}
		shut := func() {
			x.CloseIn(0)
			if x.Drain(); inside.Load() == 1 {
				t.Error("Drain returned during a use")
			}
			x.Reopen()
		}
		check = func() {
			if v := x.state.Load(); v != 1<<generationShift {
				t.Errorf("state %#x, want generation 1 without users", v)
			}
		}
		return []func(){use, shut}, check
	})
}

// TestLitmusUnused: exactly one of a close and the ends of the last uses destroys the
// stream, for each kind of last use. Then the stream has counted all operations.
func TestLitmusUnused(t *testing.T) {
	for _, c := range []struct{ long, short, queued bool }{{long: true}, {short: true}, {short: true, queued: true}, {long: true, short: true}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				s := newTestStream(nil)
				threads = append(threads, func() {
					if s.Close() {
						s.Unused()
					}
				})
				if c.long {
					s.Enter()
					threads = append(threads, s.Leave)
				}
				if c.short {
					s.BeginShort()
					threads = append(threads, func() { s.EndShort(c.queued) })
				}
				check = func() {
					if n := s.unused.Load(); n != 1 {
						t.Errorf("the stream was destroyed %d times, want 1", n)
					}
					if got, want := s.atEnd.Load(), s.Issued(); got != want || c.queued != (want == 1) {
						t.Errorf("destroyed after %d operations of %d", got, want)
					}
					if s.users() != 0 {
						t.Errorf("%d users at the end", s.users())
					}
				}
				return threads, check
			})
		})
	}
}

// TestLitmusStreamDrain: Drain of a closed stream waits for calls of both kinds.
func TestLitmusStreamDrain(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		s := newTestStream(nil)
		var inside atomic.Int32
		use := func() {
			if s.BeginShort() {
				inside.Add(1)
				inside.Add(-1)
				s.EndShort(true)
			}
			if s.Enter() {
				inside.Add(1)
				inside.Add(-1)
				s.Leave()
			}
		}
		shut := func() {
			s.Close()
			if s.Drain(); inside.Load() != 0 {
				t.Error("Drain returned while a call used the stream")
			}
		}
		return []func(){use, shut}, func() {}
	})
}

// TestLitmusShort: a short operation and long ones beside it have the stream to
// themselves, or share it, and drains wait for the short one that there is.
func TestLitmusShort(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		s := newTestStream(nil)
		var inside, ended atomic.Int32
		use := func() {
			var op Op
			op.Begin(&s.Stream)
			if op.short && inside.Add(1) != 1 {
				t.Error("two short operations at once")
			}
			if op.short {
				inside.Add(-1)
				ended.Add(1)
			}
			op.End()
		}
		s.BeginShort()
		first := func() {
			ended.Add(1)
			s.EndShort(true)
		}
		drain := func() {
			if s.drainShort(); ended.Load() == 0 {
				t.Error("a drain did not wait for the short operation")
			}
		}
		check = func() {
			if v := s.word.Load(); v != oneNumber {
				t.Errorf("word %#x at the end, want one operation", v)
			}
			if !s.BeginShort() {
				t.Error("no short operation can begin")
			}
		}
		return []func(){func() { first(); use() }, drain, func() { use(); drain() }}, check
	})
}

// TestLitmusNumbers: what counts as done after a synchronization was given to the driver
// before the synchronization.
func TestLitmusNumbers(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		s := newTestStream(nil)
		x := [2]*Tracker{newTracker(), newTracker()}
		var given, done [2]atomic.Bool
		operate := func(i int) {
			var op Op
			if i == 0 {
				op.Begin(&s.Stream)
			} else {
				op.BeginLong(&s.Stream)
			}
			op.Acquire(x[i], Write, 0)
			given[i].Store(true)
			op.Queued()
			op.End()
		}
		synchronize := func() {
			n := s.Issued()
			for i := range given {
				done[i].Store(given[i].Load())
			}
			s.Complete(n)
		}
		check = func() {
			for i := range x {
				if len(pending(x[i], Read)) == 0 && !done[i].Load() {
					t.Errorf("operation %d counts as done", i)
				}
			}
			if s.Issued() != 2 {
				t.Errorf("%d operations, want 2", s.Issued())
			}
		}
		return []func(){func() { operate(0) }, func() { operate(1) }, synchronize}, check
	})
}

// TestLitmusNote: of numbers that are noted at the same time, the highest stays.
func TestLitmusNote(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		u := new(Use)
		check = func() {
			if n := u.latest(Read); n != 3 {
				t.Errorf("the last operation is %d, want 3", n)
			}
		}
		for n := range uint64(3) {
			threads = append(threads, func() { u.Record(Write, n+1) })
		}
		return threads, check
	})
}

// TestLitmusOwners: of a close and the last owners, exactly one disposes, and that when
// there is no owner.
func TestLitmusOwners(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		x := newTracker()
		x.Own()
		x.Own()
		var owners, disposed atomic.Int32
		owners.Store(2)
		disown := func() {
			owners.Add(-1)
			_ = x.Disown()
		}
		dispose := func() {
			_ = x.AfterOwners(func() error {
				if disposed.Add(1); owners.Load() != 0 {
					t.Errorf("disposed of with %d owners", owners.Load())
				}
				return nil
			})
		}
		check = func() {
			if disposed.Load() != 1 {
				t.Errorf("disposed %d times, want 1", disposed.Load())
			}
		}
		return []func(){disown, dispose, disown}, check
	})
}

// TestLitmusRecorder: a resource that a capture has acquired is owned before a close
// looks for owners, also if two operations of the capture acquire it at the same time.
func TestLitmusRecorder(t *testing.T) {
	for _, long := range []bool{false, true} {
		t.Run(fmt.Sprintf("long %v", long), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				r := new(Recorder)
				a, b := newTestStream(r), newTestStream(r)
				x := newTracker()
				var acquired [2]bool
				var disposed atomic.Int32
				capture := func() { acquired[0] = queue(&a.Stream, Read, long, x) }
				also := func() { acquired[1] = queue(&b.Stream, Write, !long, x) }
				shut := func() {
					x.CloseIn(0)
					x.Drain()
					_ = x.AfterOwners(func() error { disposed.Add(1); return nil })
				}
				check = func() {
					uses := r.Uses()
					owned := acquired[0] || acquired[1]
					if (len(uses) == 1) != owned || (disposed.Load() == 0) != owned {
						t.Errorf("acquired %v: %d uses, disposed %d times before the graph was", owned, len(uses), disposed.Load())
					}
					if _ = DisownAll(uses); disposed.Load() != 1 {
						t.Errorf("disposed %d times in all, want 1", disposed.Load())
					}
				}
				return []func(){capture, also, shut}, check
			})
		})
	}
}

// TestLitmusEvent: what an event stands for is whole, and the latest Record, or not
// known.
func TestLitmusEvent(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		e := new(Event)
		a, b := issued(1), issued(2)
		record(e, a, true)
		var latest atomic.Pointer[testStream] // recorded by the driver last
		latest.Store(a)
		recordIn := func(s *testStream, done bool) {
			r, _ := e.BeginRecord(&s.Stream)
			if done {
				latest.Store(s)
			}
			e.EndRecord(r, madeIn(s, done))
		}
		look := func() {
			m := e.StandsFor()
			if m.stream == nil {
				return
			}
			if m.before != m.stream.Issued() {
				t.Errorf("torn: %d of a stream with %d operations", m.before, m.stream.Issued())
			}
			if s := latest.Load(); m.stream != &s.Stream { // unless it was recorded since
				if e.Passed(m); m.stream.Completed(1) {
					t.Error("completed a stream in which the event was not recorded last")
				}
			}
		}
		check = func() {
			if m := e.StandsFor(); m.stream != nil && m.stream != &latest.Load().Stream {
				t.Error("the event stands for another Record than the last")
			}
			if v := e.word.Load() & (oneRecord - 1); v != 0 {
				t.Errorf("word %#x at the end", v)
			}
		}
		return []func(){func() { recordIn(b, true); look() }, look, func() { recordIn(a, false); recordIn(a, true) }}, check
	})
}

// TestLitmusEventClose: of a close and the end of the last use, exactly one destroys the
// event.
func TestLitmusEventClose(t *testing.T) {
	s := issued(1)
	for _, records := range []bool{false, true} {
		t.Run(fmt.Sprintf("records %v", records), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				e := new(Event)
				var last atomic.Int32
				var r Record
				if records {
					r, _ = e.BeginRecord(&s.Stream)
				} else {
					e.Enter()
				}
				leave := func() {
					e.StandsFor()
					if records && e.EndRecord(r, &s.Stream) || !records && e.Leave() {
						last.Add(1)
					}
				}
				shut := func() {
					if e.Close() {
						last.Add(1)
					}
				}
				enter := func() {
					if e.Enter() && e.Leave() {
						last.Add(1)
					}
				}
				check = func() {
					if last.Load() != 1 {
						t.Errorf("destroyed %d times, want 1", last.Load())
					}
				}
				return []func(){leave, shut, enter}, check
			})
		})
	}
}
