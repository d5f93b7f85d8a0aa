package trace

import (
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// order finds the operations that start when another operation ends, because they are queued
// behind it. They need no event of their own before them, which on a busy link costs some
// microseconds. A clock has one order, and its lock guards it.
type order struct {
	streams map[cu.Stream]behind
	events  map[cu.Event][]*timing // recorded behind these operations
	legacy  uint64                 // operations of the default stream so far, which others can wait for
}

// behind is what the next operation of a stream waits for: the stream's last operation, and the
// operations before the events that the stream waits for.
type behind struct {
	on     []*timing
	legacy uint64 // operations of the default stream that it is later than
}

// mostWaits is how many operations behind can have.
const mostWaits = 8

// usual reports whether a stream is not a default stream. Only the order of such streams is known.
func usual(s cu.Stream) bool { return s != 0 && s != cu.StreamLegacy && s != cu.StreamPerThread }

// before returns what the next operation of a stream waits for, its last operation first;
// nil if that is not known. The caller holds the clock's lock.
func (o *order) before(s cu.Stream) []*timing {
	if w := o.streams[s]; w.legacy == o.legacy {
		return w.on
	}
	return nil
}

// set changes what the next operation of a stream waits for; nil if that is not known.
func (o *order) set(s cu.Stream, on []*timing) {
	switch {
	case !usual(s):
		o.legacy++
	case len(on) == 0 || len(on) > mostWaits:
		delete(o.streams, s)
	default:
		o.streams[s] = behind{on, o.legacy}
	}
}

// before returns what the next operation of a stream waits for, if its last operation is
// not done yet. If that is done, the start is when the device gets to the operation, and
// takes an event.
func (t *timer) before(k *clock, s cu.Stream) []*timing {
	k.mu.Lock()
	on := k.order.before(s)
	k.mu.Unlock()
	if len(on) == 0 || !t.captures.none() {
		return nil
	}
	defer t.restore(t.relax())
	if !on[0].pending(t.d.inner) {
		return nil
	}
	return on
}

// queued notes that a stream has a new last operation; nil for work that is no operation.
func (t *timer) queued(ctx cu.Context, s cu.Stream, x *timing) {
	k := t.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if x == nil {
		k.order.set(s, nil)
	} else {
		k.order.set(s, []*timing{x})
	}
}

// recorded notes that an event was recorded in a stream.
func (t *timer) recorded(ctx cu.Context, e cu.Event, s cu.Stream) {
	k := t.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if on := k.order.before(s); len(on) > 0 {
		k.order.events[e] = on
	} else {
		delete(k.order.events, e)
	}
}

// waited notes that a stream waits for an event.
func (t *timer) waited(ctx cu.Context, s cu.Stream, e cu.Event) {
	k := t.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	on, more := k.order.before(s), k.order.events[e]
	if len(on) == 0 || len(more) == 0 {
		k.order.set(s, nil)
		return
	}
	on = slices.Clip(on)
	for _, x := range more {
		if !slices.Contains(on, x) {
			on = append(on, x)
		}
	}
	k.order.set(s, on)
}

// forgets notes that an event has another record, or none.
func (t *timer) forgets(ctx cu.Context, e cu.Event) {
	k := t.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.order.events, e)
}

// errNoTimes is the error of an operation whose events have failed.
var errNoTimes = errors.New("the events of the operation failed")

// ended returns when an operation ended. It keeps the operation's events from other use
// while it asks.
func (x *timing) ended(d cu.Driver) (int64, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return x.at, x.err
	}
	ms, err := d.EventElapsedTime(x.clock.ctx, x.anchor.event, x.end)
	if err != nil {
		return 0, err
	}
	x.over, x.at = true, x.anchor.at+int64(float64(ms)*1e6)
	return x.at, nil
}

// pending reports whether an operation is not done yet.
func (x *timing) pending(d cu.Driver) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.over && errors.Is(d.EventQuery(x.clock.ctx, x.end), cu.ErrorNotReady)
}

// began returns when an operation started, which is no later than its end.
func (x *timing) began(d cu.Driver, end int64) (int64, error) {
	if x.start != 0 {
		ms, err := d.EventElapsedTime(x.clock.ctx, x.anchor.event, x.start)
		return x.anchor.at + int64(float64(ms)*1e6), err
	}
	start, err := x.after[0].ended(d) // the stream's last operation, which was in progress
	if err != nil {
		return 0, err
	}
	for _, y := range x.after[1:] {
		if at, err := y.ended(d); err == nil {
			start = max(start, at)
		}
	}
	return min(start, end), nil
}
