package trace

import (
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// clock has the events of a context, and the operations that wait for their times.
type clock struct {
	ctx    cu.Context
	device int

	mu     sync.Mutex
	free   []cu.Event
	made   int // events so far
	most   int // of which a call makes no more before it has read times
	pushed int // operations so far
	queues map[cu.Stream]*queue
	anchor *anchor
	stream cu.Stream // of the anchors
	retry  int64     // no anchor is made before this time
	order  order
}

// anchor is an event whose time is known on the host's clock.
type anchor struct {
	event cu.Event
	at    int64
	late  int64 // from the end of a call that records an event in an idle stream to the event
	uses  int   // by operations without times, and by the clock; the clock's lock guards it
}

// prepare gives an operation what the clock has for it: the anchor, what its stream's next operation
// waits for, and free events. It reports whether another anchor is due.
func (k *clock) prepare(x *timing, now int64) (due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	x.queue = k.queue(x.stream)
	x.after = k.order.before(x.queue)
	x.end = k.pop()
	if x.after == nil {
		x.start = k.pop()
	}
	if x.anchor = k.anchor; x.anchor != nil {
		x.anchor.uses++
	}
	return now >= k.retry && (x.anchor == nil || now-x.anchor.at >= anchorAge)
}

// renew replaces the anchor by fresh, and returns it for an operation. If fresh is nil, the old
// anchor stays, and no other is made before the time retry. If retry is 0, too, the clock drops
// its anchor.
func (k *clock) renew(fresh *anchor, retry int64) *anchor {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case fresh == nil && retry != 0:
		k.retry = retry
	default:
		k.drop(k.anchor)
		if k.anchor = fresh; fresh != nil {
			fresh.uses++
		}
	}
	if k.anchor != nil {
		k.anchor.uses++
	}
	return k.anchor
}

// dropAnchor ends one use of an anchor. The last one frees its event.
func (k *clock) dropAnchor(a *anchor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(a)
}

// drop ends one use of an anchor, which can be nil. The caller holds mu.
func (k *clock) drop(a *anchor) {
	if a == nil {
		return
	}
	if a.uses--; a.uses == 0 {
		k.free = append(k.free, a.event)
	}
}

// queue has the operations of a stream that wait for their times, in their order.
type queue struct {
	pending []*timing
	busy    bool // a goroutine asks whether the first ones are done
	reading int  // goroutines that read times of operations that were in the queue
	behind       // what the next operation waits for
}

// queue returns the queue of a stream. The caller holds mu.
func (k *clock) queue(s cu.Stream) *queue {
	q := k.queues[s]
	if q == nil {
		q = &queue{}
		k.queues[s] = q
	}
	return q
}

// timing is an operation and its events. Without a start it starts when those in after end.
type timing struct {
	op         opRow
	stream     cu.Stream
	clock      *clock
	queue      *queue // of the stream; nil without events
	anchor     *anchor
	start, end cu.Event
	after      []*timing
	next       *timing // of the same call, in another stream
	batch      bool
	partly     bool // the call failed after this part of it was made

	mu   sync.Mutex // guards the events until over is set
	over bool       // at or err is known
	at   int64      // when it ended
	err  error

	self [1]*timing // itself, as what another operation waits for
}

// discard frees the events of an operation.
func (x *timing) discard() {
	x.retire()
	x.clock.mu.Lock()
	defer x.clock.mu.Unlock()
	x.clock.reclaim(x)
}

// retire ends the use of an operation's events by others, which wait for its end.
func (x *timing) retire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.over, x.err = true, errNoTimes
	}
}

// reclaim frees the events and the anchor of an operation that is over. The caller holds mu.
func (k *clock) reclaim(x *timing) {
	for _, e := range [...]cu.Event{x.start, x.end} {
		if e != 0 {
			k.free = append(k.free, e)
		}
	}
	k.drop(x.anchor)
	x.start, x.end, x.anchor, x.after = 0, 0, nil, nil
}

// event returns a free event, or 0 if none can be made.
func (k *clock) event(d cu.Driver) cu.Event {
	k.mu.Lock()
	e := k.pop()
	if e == 0 {
		k.made++
	}
	k.mu.Unlock()
	if e != 0 {
		return e
	}
	e, err := d.EventCreate(k.ctx, cu.EventDefault)
	if err != nil {
		return 0
	}
	return e
}

// many reports whether no event is free, and the clock has as many as it may make without a question.
func (k *clock) many() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.free) == 0 && k.made >= k.most
}

// allow lets more events be made, because none of those that exist gets free.
func (k *clock) allow() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.most = k.made + readAtOnce
}

// pop takes a free event, and returns 0 if there is none. The caller holds mu.
func (k *clock) pop() (e cu.Event) {
	if n := len(k.free); n > 0 {
		e, k.free = k.free[n-1], k.free[:n-1]
	}
	return e
}

// release makes an event free.
func (k *clock) release(e cu.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.free = append(k.free, e)
}

// push appends an operation to the queue of its stream, whose last one it is.
func (k *clock) push(x *timing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pushed++
	x.queue.pending = append(x.queue.pending, x)
	if x.batch {
		k.order.set(x.queue, x.stream, nil)
	} else {
		x.self[0] = x
		k.order.set(x.queue, x.stream, x.self[:])
	}
}

// young reports whether the context has had few operations.
func (k *clock) young() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pushed <= waitedFor
}

// claim returns the first n operations of a queue, for a question whether the last of them is done.
// It returns nil if the queue has fewer. While another goroutine asks, it waits, or returns nil
// without wait. After the question the caller calls asked.
func (k *clock) claim(q *queue, n int, wait bool) []*timing {
	for {
		k.mu.Lock()
		busy := q.busy
		if !busy && len(q.pending) >= n {
			q.busy = true
			defer k.mu.Unlock()
			return q.pending[:n:n]
		}
		k.mu.Unlock()
		if !busy || !wait {
			return nil
		}
		runtime.Gosched()
	}
}

// asked ends a claim of n operations. If they are done, they leave the queue, and the caller reads
// their times and then calls ended.
func (k *clock) asked(q *queue, n int, done bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q.busy = false
	if !done {
		return
	}
	q.reading++
	if q.pending = q.pending[n:]; len(q.pending) == 0 {
		q.pending = nil
	}
}

// ended frees the events of operations whose times are known.
func (k *clock) ended(q *queue, done []*timing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q.reading--
	for _, x := range done {
		k.reclaim(x)
	}
	clear(done) // the queue can have the rest of this array
}

// quiet waits until no other goroutine asks or reads times of a queue, and locks mu.
func (k *clock) quiet(q *queue) {
	k.mu.Lock()
	for q.busy || q.reading > 0 {
		k.mu.Unlock()
		runtime.Gosched()
		k.mu.Lock()
	}
}

// left returns the number of operations of a queue that are left when no other goroutine reads.
func (k *clock) left(q *queue) int {
	k.quiet(q)
	defer k.mu.Unlock()
	return len(q.pending)
}

// length returns the length of a queue.
func (k *clock) length(q *queue) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(q.pending)
}

// all returns the queues of the context.
func (k *clock) all() []*queue {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]*queue, 0, len(k.queues))
	for _, q := range k.queues {
		all = append(all, q)
	}
	return all
}

// take takes all pending operations of a queue, after other goroutines that read times now.
func (k *clock) take(q *queue) []*timing {
	k.quiet(q)
	defer k.mu.Unlock()
	pending := q.pending
	q.pending = nil
	return pending
}
