package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// queue is what is behind a [Stream]. Buffers in flight refer to it, so it lives
// on, without a driver's stream, when the Stream is closed.
//
// Operations have numbers. An operation gets its number when the driver has it,
// so a synchronisation that begins when number n has been given covers all up to
// n. passed is the highest number that is known to be done.
type queue struct {
	g        *GPU
	handle   cu.Stream
	number   int // 0 for the default stream
	priority int
	c        *capture // it records, nil for a stream that runs: see Stream.Capture

	state  atomic.Uint64 // operations issued, and who uses it: see queueUsers
	passed atomic.Uint64
	last   atomic.Pointer[Kernel] // launched last
	frame  frame                  // of the one who has queueCall

	waits waiter

	sweeping sync.Mutex    // for queueSwept
	swept    chan struct{} // for the one who sweeps, of room 1

	gone      chan struct{} // closed when the driver's stream is destroyed
	postponed atomic.Bool   // destroying it was tried in a host function
	tail      *tail         // of a destroyed stream that was busy

	mu     sync.Mutex
	parked error // found by somebody other than Wait, for Wait to tell

	_ [3]uint64 // whole lines of the cache: the allocator begins at one then
}

// The state of a queue, from the lowest bit: how many use it for as long as they
// like; whether one uses it for a call of the driver that only queues; whether that
// one is waited for, so that nobody follows; whether the queue is closed; and how
// many operations were issued.
const (
	queueUsers  = 1<<14 - 1
	queueCall   = 1 << 14
	queueSwept  = 1 << 15
	queueClosed = 1 << 16
	queueBits   = 17

	queueInUse   = queueUsers | queueCall
	queueWatched = queueSwept | queueClosed
	queueNoCalls = queueCall | queueWatched

	queued    = 1<<queueBits - queueCall
	notQueued = 1<<64 - queueCall
)

func newQueue(g *GPU, handle cu.Stream, number int) *queue {
	return &queue{g: g, handle: handle, number: number, swept: make(chan struct{}, 1), gone: make(chan struct{})}
}

func (q *queue) String() string {
	if q.number == 0 {
		return "the default stream of " + q.g.label
	}
	return fmt.Sprintf("stream %d of %s", q.number, q.g.label)
}

// enter starts a use of the driver's stream. It fails when the stream is closed.
// leave or finish ends it.
func (q *queue) enter() bool {
	for {
		v := q.state.Load()
		switch {
		case v&queueClosed != 0:
			return false
		case v&queueUsers == queueUsers: // no room for another
			runtime.Gosched()
		case q.state.CompareAndSwap(v, v+1):
			return true
		}
	}
}

// leave ends a use that queued nothing. The last one out of a closed stream
// destroys it.
func (q *queue) leave() { q.left(q.state.Add(^uint64(0))) }

// finish ends a use and, if it queued an operation, numbers it. What was captured
// has not been queued: it has no number.
func (q *queue) finish(queued bool) (seq uint64) {
	if !queued || q.c != nil {
		q.leave()
		return 0
	}
	v := q.state.Add(1<<queueBits - 1)
	q.left(v)
	return v >> queueBits
}

func (q *queue) left(v uint64) {
	if v&(queueClosed|queueInUse) == queueClosed {
		q.leftLast()
	}
}

// call starts a use that ends when a call of the driver returns; called ends it. One
// at a time has it, and with it the frame; others find that call is false, and
// enter. As long as it lasts, what the operation uses is neither closed nor taken
// from its lane, so that needs no counting by itself: see flight.
func (q *queue) call() bool {
	v := q.state.Load()
	return v&queueNoCalls == 0 && q.state.CompareAndSwap(v, v|queueCall)
}

// next is a number for an operation that the driver has and that called has not
// numbered yet. That may get another, but a synchronisation that begins when
// this one has been given begins after the driver got the operation.
func (q *queue) next() uint64 { return q.issued() + 1 }

// called ends a use by call: what is queued or notQueued. It numbers the operation.
func (q *queue) called(what uint64) {
	if v := q.state.Add(what); v&queueWatched != 0 {
		q.calledLast(v)
	}
}

// calledLast looks at the state after a call that somebody may wait for.
func (q *queue) calledLast(v uint64) {
	if v&queueSwept != 0 {
		select {
		case q.swept <- struct{}{}:
		default:
		}
	}
	q.left(v)
}

// sweep waits for the call that is being made.
func (q *queue) sweep() {
	if q.state.Load()&queueCall == 0 {
		return
	}
	q.sweeping.Lock()
	defer q.sweeping.Unlock()
	for q.state.Or(queueSwept)&queueCall != 0 {
		<-q.swept
	}
	q.state.And(^uint64(queueSwept))
}

func (q *queue) leftLast() {
	if q.c == nil {
		q.park(q.g.soon(q.destroy))
	}
}

// close lets nobody in from now on, and destroys the stream if nobody is.
func (q *queue) close() error {
	if q.state.Or(queueClosed)&(queueClosed|queueInUse) == 0 {
		return q.g.soon(q.destroy)
	}
	return nil
}

// issued is the number of operations queued so far.
func (q *queue) issued() uint64 { return q.state.Load() >> queueBits }

// pass notes that all operations up to number n are done.
func (q *queue) pass(n uint64) {
	for {
		old := q.passed.Load()
		if old >= n || q.passed.CompareAndSwap(old, n) {
			return
		}
	}
}

// idle says whether all work is known to be done.
func (q *queue) idle() bool { return q.passed.Load() >= q.issued() }

// alone says that one who uses the driver's stream is the only one, and that all that was
// queued before is known to be done. Who asks must not have queued anything yet.
func (q *queue) alone() bool {
	v := q.state.Load()
	return v&queueInUse == 1 && q.passed.Load() >= v>>queueBits
}

// synchronize waits in the driver for all work so far.
func (q *queue) synchronize() error {
	n := q.issued()
	err := q.driverWait()
	if err == nil || q.drained(err) {
		q.pass(n)
	}
	return err
}

// drained says whether the stream's work is done although waiting for it gave an
// error, as that of a host function that panicked.
func (q *queue) drained(err error) bool {
	if sticky(err) || inCallback(err) || !q.enter() {
		return false
	}
	defer q.leave()
	err = q.g.driver.StreamQuery(q.g.ctx, q.handle)
	if err != nil && !errors.Is(err, cu.ErrorNotReady) {
		q.park(err)
	}
	return err == nil
}

// driverWait is StreamSynchronize, or EventSynchronize once the stream is closed.
func (q *queue) driverWait() error {
	if q.g.released.Load() {
		return nil // release has waited for everything
	}
	if q.enter() {
		defer q.leave()
		return q.g.driver.StreamSynchronize(q.g.ctx, q.handle)
	}
	q.g.tidy()
	if q.postponed.Load() {
		return cu.ErrorNotPermitted
	}
	<-q.gone
	return q.tail.wait(q.g)
}

// destroy gives the driver's stream up. Work in it goes on; an event that stands
// for its end stays behind.
func (q *queue) destroy() error {
	var err error
	if !q.idle() && q.tail == nil {
		q.tail, err = newTail(q)
	}
	if err == nil {
		err = q.g.driver.StreamDestroy(q.g.ctx, q.handle)
	}
	q.postponed.Store(inCallback(err))
	if inCallback(err) {
		return err
	}
	close(q.gone)
	q.g.forget(q)
	q.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", q, err)
	}
	return nil
}

// wait is synchronize with a context.
func (q *queue) wait(ctx context.Context) error {
	if done, err := q.poll(ctx); done {
		return err
	}
	return q.waits.wait(ctx, q.g, q.synchronize, q.park)
}

// poll asks the driver for a short while whether the work is done, if that is
// better than to wait with a context.
func (q *queue) poll(ctx context.Context) (done bool, err error) {
	if ctx.Done() == nil || q.g.emulated != nil || q.g.released.Load() || !q.enter() {
		return false, nil
	}
	defer q.leave()
	n := q.issued()
	done, err = poll(ctx, func() error { return q.g.driver.StreamQuery(q.g.ctx, q.handle) })
	if done && (err == nil || q.drained(err)) {
		q.pass(n)
	}
	return done, err
}

// settle waits for all work so far on behalf of a buffer. Errors are kept for
// Wait to tell; the error returned means that the work may not be done.
func (q *queue) settle(ctx context.Context) error {
	n := q.issued()
	err := q.wait(ctx)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	if !inCallback(err) {
		q.park(err)
	}
	if q.passed.Load() >= n {
		return nil
	}
	return err
}

// park keeps an error for the next Wait.
func (q *queue) park(err error) {
	if err == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.parked == nil {
		q.parked = err
	}
}

// unpark is the error kept, once.
func (q *queue) unpark() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.parked
	q.parked = nil
	return err
}
