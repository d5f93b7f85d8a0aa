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
	uses  int // by operations without times, and by the clock; the clock's lock guards it
}

// useAnchor returns the anchor for an operation, and whether another one is due. The caller
// drops the anchor after use.
func (k *clock) useAnchor(now int64) (a *anchor, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a = k.anchor; a != nil {
		a.uses++
	}
	return a, now >= k.retry && (a == nil || now-a.at >= anchorAge)
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
	busy    bool // a goroutine reads times
}

// timing is an operation and its events. Without a start it starts when those in after end.
type timing struct {
	op         opRow
	stream     cu.Stream
	clock      *clock
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
}

// discard frees the events of an operation.
func (x *timing) discard() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		x.over, x.err = true, errNoTimes
	}
	x.after = nil
	x.clock.release(x.start, x.end)
	x.start, x.end = 0, 0
	if x.anchor != nil {
		x.clock.dropAnchor(x.anchor)
		x.anchor = nil
	}
}

// event returns a free event, or 0 if none can be made.
func (k *clock) event(d cu.Driver) cu.Event {
	k.mu.Lock()
	if n := len(k.free); n > 0 {
		e := k.free[n-1]
		k.free = k.free[:n-1]
		k.mu.Unlock()
		return e
	}
	k.mu.Unlock()
	e, err := d.EventCreate(k.ctx, cu.EventDefault)
	if err != nil {
		return 0
	}
	return e
}

// release makes events free.
func (k *clock) release(events ...cu.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range events {
		if e != 0 {
			k.free = append(k.free, e)
		}
	}
}

// push appends an operation to the queue of its stream, and reports whether the queue is
// long.
func (k *clock) push(x *timing) (q *queue, long bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q = k.queues[x.stream]
	if q == nil {
		q = &queue{}
		k.queues[x.stream] = q
	}
	q.pending = append(q.pending, x)
	return q, len(q.pending) >= readAhead
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

// take takes all pending operations of a queue, after a goroutine that reads times now.
func (k *clock) take(q *queue) []*timing {
	for {
		k.mu.Lock()
		if !q.busy {
			pending := q.pending
			q.pending = nil
			k.mu.Unlock()
			return pending
		}
		k.mu.Unlock()
		runtime.Gosched()
	}
}
