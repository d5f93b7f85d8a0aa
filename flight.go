package ferry

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// access is what an operation does with memory.
type access uint8

const (
	reads access = iota
	writes
)

// flight knows the operations in flight on one thing, per stream: the number of
// the last that read it and of the last that wrote it. No event is recorded for
// an operation; a stream is synchronised when somebody asks and the stream has
// not been seen to pass that number. It also counts who is using the thing right
// now, so that a close comes before a use or waits for its end, and which graphs
// will use it, so that it outlives its close.
//
// An operation that may take long costs two atomic instructions: begin and end, in the
// lane of its stream. One that is a call of the driver and nothing else is known
// by its queue, for all that it uses together (queue.call), and costs none: lane.note
// is a store. The lanes are found without a lock and change hands under mu.
// Most things are used by one stream, whose lane is here, beside what else an
// operation reads.
type flight struct {
	life  lifetime // users outside of streams, and whether the thing is closed
	first lane
	order *order                  // of memory allocated in stream order
	lanes atomic.Pointer[[]*lane] // all of them
	wake  chan struct{}           // for the one who closes, of room 1

	mu     sync.Mutex   // for changes of lanes, and what follows
	owners atomic.Int32 // graphs that will use it; changes under mu
	orphan func() error // what Close left to the last of them
}

// lane is the operations of one stream on one thing.
type lane struct {
	q     atomic.Pointer[queue] // nil at first: see owner
	noted [2]uint64             // by access: number of the last by queue.call; read as atomics are
	words [2]atomic.Uint64      // by access: number of the last other one, then users in the lower laneBits
}

const (
	laneBits  = 16
	laneUsers = 1<<laneBits - 1
	laneDead  = laneUsers // in place of users: the lane changes hands
)

func (f *flight) init() {
	f.wake = make(chan struct{}, 1)
	f.lanes.Store(&[]*lane{&f.first})
}

// begin starts an operation of q. It is nil when the thing is closed. Give the
// lane to end.
func (f *flight) begin(q *queue, a access) *lane { return f.beginOf(q, a, 0) }

// beginOf is begin of a generation of the thing.
func (f *flight) beginOf(q *queue, a access, generation uint32) *lane {
	l := &f.first
	if l.q.Load() != q || !l.enter(q, a) {
		l = f.beginOwned(q, a)
	}
	if !f.life.openIn(generation) {
		f.end(l, a, 0)
		return nil
	}
	if q.c != nil {
		q.c.keep(f, a)
	}
	return l
}

// beginOwned is begin for an operation of a graph that owns the thing: it may be
// closed.
func (f *flight) beginOwned(q *queue, a access) *lane {
	l := f.find(q)
	for l == nil || !l.enter(q, a) {
		f.nudge() // a failed enter may have been seen
		l = f.lane(q)
	}
	return l
}

// end ends what begin started: the operation has number seq, or 0 if it was not
// queued.
func (f *flight) end(l *lane, a access, seq uint64) {
	for w := &l.words[a]; ; {
		v := w.Load()
		if w.CompareAndSwap(v, max(v>>laneBits, seq)<<laneBits|v&laneUsers-1) {
			break
		}
	}
	if f.life.closed() {
		f.nudge()
	}
}

// lend is the lane for a use by queue.call. The user looks whether the thing is open
// after that: openIn.
func (f *flight) lend(q *queue) *lane {
	if f.first.q.Load() == q {
		return &f.first
	}
	return f.lendOther(q)
}

// lendBoth is lend of two.
func lendBoth(f, other *flight, q *queue) (l, also *lane) { return f.lend(q), other.lend(q) }

// lendOther is lend where the first lane is somebody else's.
func (f *flight) lendOther(q *queue) *lane {
	if l := f.find(q); l != nil {
		return l
	}
	return f.lane(q)
}

// openIn says whether the thing is open and of a generation.
func (f *flight) openIn(generation uint32) bool { return f.life.openIn(generation) }

// note notes that an operation of a number, or an earlier one, uses the thing. It is
// for uses by queue.call, of which there is one at a time, with numbers that grow:
// this need not be an atomic instruction, as the end of the use is one, and comes
// after it.
//
//go:norace
func (l *lane) note(a access, seq uint64) { l.noted[a] = seq }

// last is the number of the last operation.
func (l *lane) last(a access) uint64 {
	return max(l.words[a].Load()>>laneBits, atomic.LoadUint64(&l.noted[a]))
}

// find is q's lane, nil if it has none.
func (f *flight) find(q *queue) *lane {
	for _, l := range *f.lanes.Load() {
		if l.q.Load() == q {
			return l
		}
	}
	return nil
}

// lane is q's lane, if need be that of a stream that is done, or a new one.
func (f *flight) lane(q *queue) *lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.find(q); l != nil {
		return l
	}
	old := *f.lanes.Load()
	for _, l := range old {
		if l.retire() {
			for a := range l.words {
				atomic.StoreUint64(&l.noted[a], 0)
				l.words[a].Store(0)
			}
			l.q.Store(q) // from now on it is used
			return l
		}
	}
	l := new(lane)
	l.q.Store(q)
	lanes := append(slices.Clone(old), l)
	f.lanes.Store(&lanes)
	return l
}

// enter counts a user. It fails when the lane is not q's any more.
func (l *lane) enter(q *queue, a access) bool {
	w := &l.words[a]
	v := w.Load()
	if (v&laneUsers >= laneDead-1 || !w.CompareAndSwap(v, v+1)) && !enterAnyway(w) {
		return false
	}
	return l.q.Load() == q || retreat(w)
}

// enterAnyway counts a user where that is not done at once. It fails when the lane
// changes hands.
func enterAnyway(w *atomic.Uint64) bool {
	for {
		v := w.Load()
		switch v & laneUsers {
		case laneDead:
			return false
		case laneDead - 1: // no room for another
			runtime.Gosched()
			continue
		}
		if w.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// retreat takes a user back, of a lane that is somebody else's by now.
func retreat(w *atomic.Uint64) (entered bool) {
	w.Add(^uint64(0))
	return false
}

// nobody is whose a lane is while it changes hands.
var nobody = new(queue)

// owner is whose operations are in the lane, nil if it never had any.
func (l *lane) owner() *queue {
	for {
		if q := l.q.Load(); q != nobody {
			return q
		}
		runtime.Gosched()
	}
}

// retire takes the lane from a stream that is done with it, for the caller to give
// it to another. While the stream makes calls, who knows whether the lane was lent
// to them: it stays.
func (l *lane) retire() bool {
	q := l.q.Load()
	if !l.stop(q) {
		return false
	}
	l.q.Store(nobody)
	if q == nil || q.state.Load()&queueCall == 0 {
		return true
	}
	l.q.Store(q)
	for a := range l.words {
		l.words[a].And(^uint64(laneUsers))
	}
	return false
}

// stop lets nobody in if q is done with the lane.
func (l *lane) stop(q *queue) bool {
	for a := range l.words {
		w := &l.words[a]
		v := w.Load()
		done := v&laneUsers == 0 && (q == nil || q.passed.Load() >= l.last(access(a)))
		if done && w.CompareAndSwap(v, v|laneDead) {
			continue
		}
		if a == int(writes) {
			l.words[reads].And(^uint64(laneUsers))
		}
		return false
	}
	return true
}

// latest is the last operation that conflicts with an access: reads conflict
// with writes, writes with all.
func (l *lane) latest(a access) uint64 {
	last := l.last(writes)
	if a == writes {
		last = max(last, l.last(reads))
	}
	return last
}

// wait returns when the hardware is done with all that conflicts with a and was
// queued before the call. What was queued later on the same streams may be
// waited for, too.
func (f *flight) wait(ctx context.Context, a access) error {
	for _, l := range *f.lanes.Load() {
		q := l.owner()
		if q == nil || q.passed.Load() >= l.latest(a) {
			continue
		}
		if err := q.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// enter starts a use outside of streams; leave ends it.
func (f *flight) enter() bool { return f.life.enter() }

func (f *flight) leave() {
	if f.life.leave() {
		f.nudge()
	}
}

// shut lets nobody in from now on and waits for those who are. It is false if
// the thing was closed before.
func (f *flight) shut() bool {
	if first, _ := f.life.close(); !first {
		return false
	}
	f.calm()
	return true
}

// shutOf is shut of a generation of the thing. It is false if that is over.
func (f *flight) shutOf(generation uint32) bool {
	if !f.life.closeOf(generation) {
		return false
	}
	f.calm()
	return true
}

// calm waits until nobody uses the closed thing. Lanes are not lent any more.
func (f *flight) calm() {
	for _, l := range *f.lanes.Load() {
		if q := l.owner(); q != nil {
			q.sweep()
		}
	}
	for !f.quiet() {
		<-f.wake
	}
}

// quiet says that nobody uses the closed thing.
func (f *flight) quiet() bool {
	if !unused(f.life.state.Load()) {
		return false
	}
	for _, l := range *f.lanes.Load() {
		for a := range l.words {
			if u := l.words[a].Load() & laneUsers; u != 0 && u != laneDead {
				return false
			}
		}
	}
	return true
}

// own keeps the thing from going away with its Close until disown.
func (f *flight) own() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owners.Add(1)
}

// disown ends own. If that was the last owner of a closed thing, it goes away.
func (f *flight) disown() error {
	f.mu.Lock()
	var last func() error
	if f.owners.Add(-1) == 0 {
		last, f.orphan = f.orphan, nil
	}
	f.mu.Unlock()
	if last == nil {
		return nil
	}
	return last()
}

// dismiss does the last thing for what is shut, now or when it has no owner any
// more. What is shut gets no new owner.
func (f *flight) dismiss(last func() error) error {
	if f.owners.Load() == 0 {
		return last()
	}
	f.mu.Lock()
	owned := f.owners.Load() > 0
	if owned {
		f.orphan = last
	}
	f.mu.Unlock()
	if owned {
		return nil
	}
	return last()
}

// nudge lets the one who closes look again.
func (f *flight) nudge() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
