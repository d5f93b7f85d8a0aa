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
}

// anchor is an event whose time is known on the host's clock.
type anchor struct {
	event cu.Event
	at    int64
}

// queue has the operations of a stream that wait for their times, in their order.
type queue struct {
	pending []*timing
	busy    bool // a goroutine reads times
}

// timing is an operation between its two events.
type timing struct {
	op         opRow
	stream     cu.Stream
	clock      *clock
	anchor     *anchor
	start, end cu.Event
	next       *timing // of the same call, in another stream
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
