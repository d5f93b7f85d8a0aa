package check

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/vclock"
)

// lane is a stream.
type lane struct {
	slot     int // of its operations in clocks
	ctx      cu.Context
	blocking bool // ordered with the default stream of its context
	legacy   bool // is that stream
	name     string
	after    vclock.Clock // what the next operation follows
	waits    []wait
	capture  *capture     // that the stream records; nil for none
	within   vclock.Clock // what the next node of the capture follows
	capSlot  int
}

// wait is a wait of a stream, or of the host, for an event.
type wait struct {
	event *event
	site  int
	meant record // the record that it waited for
	ever  bool   // the event had a record
}

// record is a record of an event.
type record struct {
	at   vclock.Clock
	lane *lane
	site int
}

// event is an event and its last records.
type event struct {
	number  int
	ctx     cu.Context
	ever    bool
	unknown bool // recorded in a way that this package does not follow
	last    record
	before  []record // earlier records, the last few
	capture *capture
}

// kept is the number of waits of a stream, and of records of an event, that the check keeps. Its
// explanations name them.
const kept = 8

// orders has what orders operations. The driver's lock guards it.
type orders struct {
	lanes  map[laneKey]*lane
	events map[cu.Event]*event
	last   []uint64       // number of the last operation of each slot
	free   []int          // slots of destroyed streams
	host   vclock.Clock   // what the host knows to be done
	maybe  vclock.Clock   // what the host can know from memory that the device wrote
	hosts  []wait         // waits of the host
	values []vclock.Point // waits for values that the host does not know to be done
	count  int            // streams so far
	eventN int
}

type laneKey struct {
	ctx    cu.Context
	stream cu.Stream
}

// lane returns a stream. A stream that was made before the driver was wrapped counts as
// one that the default stream orders.
func (o *orders) lane(ctx cu.Context, s cu.Stream) *lane {
	k := laneKey{stream: s}
	if s == 0 || s == cu.StreamLegacy {
		k = laneKey{ctx, cu.StreamLegacy}
	} else if s == cu.StreamPerThread {
		k.ctx = ctx
	}
	l := o.lanes[k]
	if l == nil {
		l = o.newLane(k, ctx, true)
	}
	return l
}

func (o *orders) newLane(k laneKey, ctx cu.Context, blocking bool) *lane {
	l := &lane{slot: o.slot(), ctx: ctx, blocking: blocking, legacy: k.stream == cu.StreamLegacy, capSlot: -1}
	switch {
	case l.legacy:
		l.name = "the default stream"
	case k.stream == cu.StreamPerThread:
		l.name = "the per-thread stream"
	default:
		o.count++
		l.name = fmt.Sprintf("stream %d", o.count)
	}
	o.lanes[k] = l
	return l
}

// slot returns a slot whose operations the host knows to be done, or a new one.
func (o *orders) slot() int {
	for i, s := range o.free {
		if o.host.At(s) >= o.last[s] {
			o.free = append(o.free[:i], o.free[i+1:]...)
			return s
		}
	}
	o.last = append(o.last, 0)
	return len(o.last) - 1
}

// take takes a stream that is about to be destroyed from its handle: another goroutine can
// get the handle for a new stream before the call has returned.
func (o *orders) take(s cu.Stream) *lane {
	k := laneKey{stream: s}
	l := o.lanes[k]
	delete(o.lanes, k)
	return l
}

// destroyed ends a stream that was taken. Its work goes on. It forgets its waits: records of
// events keep streams, and a chain of such streams would keep them all.
func (o *orders) destroyed(l *lane) {
	l.waits = nil
	o.free = append(o.free, l.slot)
	if l.blocking {
		x := o.lane(l.ctx, 0)
		x.after = x.after.Join(l.after) // the default stream still follows it
	}
}

// reach returns the operations that a wait for the stream covers. They also come before the
// next operation of the stream. Streams that the default stream orders are included.
func (o *orders) reach(l *lane) vclock.Clock {
	k := l.after
	switch {
	case l.legacy:
		for _, x := range o.lanes {
			if x.blocking && x.ctx == l.ctx {
				k = k.Join(x.after)
			}
		}
	case l.blocking:
		if x := o.lanes[laneKey{l.ctx, cu.StreamLegacy}]; x != nil {
			k = k.Join(x.after)
		}
	}
	return k
}

// all returns what a wait for a context waits for. 0 stands for every context.
func (o *orders) all(ctx cu.Context) vclock.Clock {
	var k vclock.Clock
	for _, l := range o.lanes {
		if ctx == 0 || l.ctx == ctx {
			k = k.Join(l.after)
		}
	}
	for _, s := range o.free { // the contexts of destroyed streams are not kept
		k = k.With(vclock.Point{Chain: s, N: o.last[s]})
	}
	return k
}

// next begins an operation of a stream. It sets l.after to what comes before the operation. done
// then adds the operation to it.
func (o *orders) next(l *lane) (n uint64) {
	if l.blocking {
		l.after = o.reach(l)
	}
	l.after = l.after.Join(o.host)
	o.last[l.slot]++
	return o.last[l.slot]
}

func (o *orders) done(l *lane, n uint64) {
	l.after = l.after.With(vclock.Point{Chain: l.slot, N: n})
}

// waitsForValue notes that an operation waits for a value, which other work or the host writes.
func (o *orders) waitsForValue(l *lane, n uint64) {
	o.values = slices.DeleteFunc(o.values, func(p vclock.Point) bool { return o.host.At(p.Chain) >= p.N })
	o.values = append(o.values, vclock.Point{Chain: l.slot, N: n})
}

// behindValue reports whether the next operation of a stream follows a wait for a value. What else
// it follows is not known then.
func (o *orders) behindValue(l *lane) bool {
	return slices.ContainsFunc(o.values, func(p vclock.Point) bool { return l.after.At(p.Chain) >= p.N && o.host.At(p.Chain) < p.N })
}

// knows notes that the host knows the operations of a clock to be done.
func (o *orders) knows(k vclock.Clock) { o.host = o.host.Join(k) }

// event returns an event. One that was made before the driver was wrapped has a record
// that is not known.
func (o *orders) event(h cu.Event) *event {
	e := o.events[h]
	if e == nil {
		o.eventN++
		e = &event{number: o.eventN, ever: true, unknown: true}
		o.events[h] = e
	}
	return e
}

// recorded notes a record of an event.
func (o *orders) recorded(e *event, l *lane, site int) {
	if e.ever && !e.unknown {
		e.before = append(e.before, e.last)
		if len(e.before) > kept {
			e.before = e.before[1:]
		}
	}
	if l.capture != nil {
		e.capture, e.ever, e.unknown = l.capture, true, false
		e.last = record{at: l.within, lane: l, site: site}
		return
	}
	k := o.reach(l)
	k = k.Join(o.host)
	e.capture, e.ever, e.unknown = nil, true, false
	e.last = record{at: k, lane: l, site: site}
}

// waited notes that a stream waits for an event.
func (o *orders) waited(l *lane, e *event, site int) {
	l.waits = keep(l.waits, wait{e, site, e.last, e.ever})
	switch {
	case !e.ever:
	case e.unknown:
		l.after = l.after.Join(o.all(0))
	default:
		l.after = l.after.Join(e.last.at)
	}
}

func keep(list []wait, w wait) []wait {
	if len(list) >= kept {
		copy(list, list[1:])
		list = list[:kept-1]
	}
	return append(list, w)
}
