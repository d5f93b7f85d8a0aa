package inflight

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
)

// closing is one round of a test of Op.Acquire against a close: use runs an operation,
// shut closes the resource. Drain must not return while the operation is between
// Acquire and End, and the operation must be pending afterwards.
type closing struct {
	closingCase
	t        *testing.T
	x        *Tracker
	s        *testStream
	drained  atomic.Bool
	acquired bool
	pending  map[*Stream]uint64
}

// closingCase says how: with a long operation, a short one, or a short one without Op;
// whether the stream has its use already, or another has one, busy or done; and whether
// the close asks until all is drained, instead of Drain.
// The next generation may forget the streams.
type closingCase struct{ long, direct, has, other, otherDone, asks, forgets bool }

func (c *closing) prepare() {
	c.x, c.s = newTracker(), newTestStream(nil)
	if c.has && !c.other {
		c.s.Enter()
		c.x.UseOf(&c.s.Stream)
		c.s.Leave()
	}
	if c.other {
		other := newTestStream(nil)
		queue(&other.Stream, Write, true, c.x)
		if c.otherDone {
			other.Complete(1)
		}
	}
}

func (c *closing) use() {
	if c.direct {
		c.useDirect()
		return
	}
	var op Op
	if c.long {
		op.BeginLong(&c.s.Stream)
	} else {
		op.Begin(&c.s.Stream)
	}
	if c.acquired = op.Acquire(c.x, Write, 0); c.acquired {
		c.look()
		op.Queued()
	}
	op.End()
}

// useDirect is a short operation without an Op.
func (c *closing) useDirect() {
	s := &c.s.Stream
	s.BeginShort()
	u := c.x.UseOf(s)
	if c.acquired = c.x.OpenIn(0); c.acquired {
		c.look()
		u.Record(Write, s.Next())
	}
	s.EndShort(c.acquired)
}

// look looks for a Drain that has returned too early.
func (c *closing) look() {
	if seen(c.drained.Load) {
		c.t.Error("Drain returned between Acquire and End")
	}
}

// shut closes the resource and opens its next generation, as a pool does. With forgets, the
// next generation has an operation in another stream, which must be known.
func (c *closing) shut() {
	c.x.CloseIn(0)
	if !c.asks {
		c.x.Drain()
	}
	for !c.x.Drained() {
		runtime.Gosched()
	}
	c.drained.Store(true)
	c.pending = pending(c.x, Read)
	if !c.forgets {
		c.x.Reopen()
		return
	}
	c.x.Forget()
	next := newTestStream(nil)
	c.x.Reopen()
	queue(&next.Stream, Write, c.long, c.x)
	if p := pending(c.x, Read); len(p) != 1 || p[&next.Stream] != 1 {
		c.t.Errorf("pending after Forget: %d streams, operation %d, want 1 and 1", len(p), p[&next.Stream])
	}
}

// check checks that the operation is known if and only if it had the resource.
func (c *closing) check() {
	if n := c.pending[&c.s.Stream]; (n == 1) != c.acquired {
		c.t.Errorf("acquired: %v; pending after Drain: %d", c.acquired, n)
	}
	if c.s.users() != 0 || c.x.state.Load() != 1<<generationShift {
		c.t.Errorf("%d users of the stream, state of the resource %#x", c.s.users(), c.x.state.Load())
	}
}

// TestLitmusAcquireOrClose is the order of Op.Acquire and Close: one of them sees the
// other.
func TestLitmusAcquireOrClose(t *testing.T) {
	for _, c := range []closingCase{
		{has: true}, {}, {other: true}, {other: true, otherDone: true}, {asks: true, has: true}, {asks: true},
		{direct: true, has: true}, {direct: true, other: true},
		{forgets: true}, {forgets: true, has: true}, {forgets: true, direct: true, has: true}, {forgets: true, long: true, other: true},
		{long: true, has: true}, {long: true}, {long: true, other: true, otherDone: true}, {long: true, asks: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				c := &closing{t: t, closingCase: c}
				c.prepare()
				return []func(){c.use, c.shut}, c.check
			})
		})
	}
}

// TestLitmusCloseWhileReassigned: a close waits for a short operation, also while other
// streams check whether they can have its use.
func TestLitmusCloseWhileReassigned(t *testing.T) {
	for _, asks := range []bool{false, true} {
		t.Run(fmt.Sprintf("asks %v", asks), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				x, s := newTracker(), newTestStream(nil)
				others := []*testStream{newTestStream(nil), newTestStream(nil)}
				var op Op
				op.Begin(&s.Stream)
				op.Acquire(x, Write, 0)
				var ended atomic.Bool
				reassign := func() {
					for _, other := range others {
						queue(&other.Stream, Read, true, x)
					}
					ended.Store(true)
					op.End()
				}
				shut := func() {
					x.CloseIn(0)
					drained := true
					if asks {
						drained = x.Drained()
					} else {
						x.Drain()
					}
					if drained && !ended.Load() {
						t.Error("drained before the short operation had ended")
					}
				}
				return []func(){reassign, shut}, func() {}
			})
		})
	}
}

// TestLitmusPending: an operation stays pending while other streams check whether they can
// have its use.
func TestLitmusPending(t *testing.T) {
	litmus(t, func() (threads []func(), check func()) {
		x, s := newTracker(), newTestStream(nil)
		others := []*testStream{newTestStream(nil), newTestStream(nil)}
		queue(&s.Stream, Write, false, x)
		reassign := func() {
			for _, other := range others {
				queue(&other.Stream, Read, true, x)
			}
		}
		look := func() {
			if pending(x, Read)[&s.Stream] != 1 {
				t.Error("an operation in flight is not pending")
			}
		}
		return []func(){reassign, look}, func() {}
	})
}

// TestLitmusReassign: a stream that wants the use of another sees the operation that has
// found it, or its number, or the operation finds another use.
func TestLitmusReassign(t *testing.T) {
	for _, c := range []struct{ long, begun bool }{{}, {long: true}, {begun: true}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				x, s, other := newTracker(), newTestStream(nil), newTestStream(nil)
				queue(&s.Stream, Read, false, x)
				s.Complete(1)
				var op Op
				begin := func() {
					if c.long {
						op.BeginLong(&s.Stream)
					} else {
						op.Begin(&s.Stream)
					}
					op.Acquire(x, Write, 0)
					op.Queued()
				}
				if c.begun {
					begin()
				}
				operate := func() {
					if !c.begun {
						begin()
					}
					op.End()
				}
				reassign := func() { queue(&other.Stream, Write, c.long, x) }
				check = func() {
					if p := pending(x, Read); p[&s.Stream] != 2 || p[&other.Stream] != 1 {
						t.Errorf("pending: operations %d and %d, want 2 and 1", p[&s.Stream], p[&other.Stream])
					}
				}
				return []func(){operate, reassign}, check
			})
		})
	}
}

// TestLitmusFirstUse: of two operations with which a stream begins to use a resource,
// neither loses the other's number, and the stream gets one use.
func TestLitmusFirstUse(t *testing.T) {
	for _, otherDone := range []bool{false, true} {
		t.Run(fmt.Sprintf("other done %v", otherDone), func(t *testing.T) {
			litmus(t, func() (threads []func(), check func()) {
				x, s, other := newTracker(), newTestStream(nil), newTestStream(nil)
				queue(&other.Stream, Read, false, x)
				want := 2
				if otherDone {
					other.Complete(1)
					want = 1
				}
				queued := func() { queue(&s.Stream, Write, false, x) }
				failed := func() { // finds the use and is not queued
					var op Op
					op.BeginLong(&s.Stream)
					op.Acquire(x, Read, 0)
					op.End()
				}
				check = func() {
					if p := pending(x, Read); p[&s.Stream] != 1 {
						t.Errorf("pending: operation %d, want 1", p[&s.Stream])
					}
					if n := len(*x.uses.Load()); n != want {
						t.Errorf("%d uses, want %d", n, want)
					}
				}
				return []func(){queued, failed}, check
			})
		})
	}
}
