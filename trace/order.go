package trace

import (
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// order finds the operations that start when another operation ends, or when they are queued if that
// is later. They need no event of their own before them, which takes the host and the device 1.5 us
// each, and 6 us on a busy link. A clock has one order, and its lock guards it.
type order struct {
	events map[cu.Event][]*timing // recorded behind these operations
	legacy uint64                 // operations of the default stream so far, which others can wait for
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
func (o *order) before(q *queue) []*timing {
	if q.legacy == o.legacy {
		return q.on
	}
	return nil
}

// set changes what the next operation of stream s waits for; nil if that is not known. q is its queue.
func (o *order) set(q *queue, s cu.Stream, on []*timing) {
	if len(on) > mostWaits {
		on = nil
	}
	if !usual(s) {
		o.legacy++
		on = nil
	}
	q.behind = behind{on, o.legacy}
}

// unknown notes that it is not known what the next operation of a stream waits for.
func (t *timer) unknown(ctx cu.Context, s cu.Stream) {
	k := t.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.order.set(k.queue(s), s, nil)
}

// recorded notes that an event was recorded in a stream.
func (t *timer) recorded(ctx cu.Context, e cu.Event, s cu.Stream) {
	k := t.clock(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if on := k.order.before(k.queue(s)); len(on) > 0 {
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
	q := k.queue(s)
	on, more := k.order.before(q), k.order.events[e]
	if len(on) == 0 || len(more) == 0 {
		k.order.set(q, s, nil)
		return
	}
	on = slices.Clip(on)
	for _, x := range more {
		if !slices.Contains(on, x) {
			on = append(on, x)
		}
	}
	k.order.set(q, s, on)
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
	x.over, x.at, x.err = true, x.anchor.at+int64(float64(ms)*1e6), err
	return x.at, x.err
}

// began returns when an operation started, which is no later than its end. Without an event before it
// that is when those have ended that it waits for. If they had ended when it was queued, the stream
// was idle. Then the device gets to it as soon as to an event.
func (x *timing) began(d cu.Driver, end int64) (int64, error) {
	if x.start != 0 {
		ms, err := d.EventElapsedTime(x.clock.ctx, x.anchor.event, x.start)
		return x.anchor.at + int64(float64(ms)*1e6), err
	}
	last, err := x.after[0].ended(d) // the stream's last operation
	if err != nil {
		return 0, err
	}
	start := max(last, x.op.queued+x.anchor.late)
	for _, y := range x.after[1:] {
		if at, err := y.ended(d); err == nil {
			start = max(start, at)
		}
	}
	return min(start, end), nil
}
