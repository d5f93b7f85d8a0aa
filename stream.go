package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// Stream is a queue of work for the GPU: operations of one stream run in order,
// those of different streams may run at once. It is safe for concurrent use;
// the order of operations queued by several goroutines is theirs to settle.
type Stream struct {
	q    *queue
	now  atomic.Pointer[queue] // q; nil where there is more to look at: in captures, and when the GPU is gone
	rec  atomic.Pointer[queue] // what is queued goes here while the stream captures
	leak runtime.Cleanup
}

// StreamOptions say how a stream is made.
type StreamOptions struct {
	// NonBlocking makes the stream independent of the default stream
	// (CU_STREAM_NON_BLOCKING). Otherwise work of the default stream waits for
	// earlier work of this one, and the other way round.
	NonBlocking bool
	// Priority: lower numbers run first. 0 is the default and the least; the
	// driver clamps what is out of the device's range.
	Priority int
}

// NewStream makes a stream (cuStreamCreateWithPriority). o may be nil.
func (g *GPU) NewStream(o *StreamOptions) (*Stream, error) {
	if err := g.enter("make a stream"); err != nil {
		return nil, err
	}
	g.tidy()
	handle, err := g.createStream(o)
	if err != nil {
		g.leave()
		return nil, fmt.Errorf("make a stream on %s: %w", g.label, err)
	}
	q := newQueue(g, handle, int(g.streams.Add(1)))
	if o != nil {
		q.priority = o.Priority
	}
	g.mu.Lock()
	g.live[q] = struct{}{}
	g.mu.Unlock()
	s := streamOn(q)
	s.leak = watchLeak(s, q.String)
	return s, nil
}

// streamOn is a stream of a queue.
func streamOn(q *queue) *Stream {
	s := &Stream{q: q}
	s.now.Store(q)
	return s
}

// createStream is the driver's part; drivers from before CUDA 5.5 know no
// priorities.
func (g *GPU) createStream(o *StreamOptions) (cu.Stream, error) {
	if o == nil {
		o = &StreamOptions{}
	}
	flags := cu.StreamDefault
	if o.NonBlocking {
		flags = cu.StreamNonBlocking
	}
	if o.Priority == 0 {
		return g.driver.StreamCreate(g.ctx, flags)
	}
	return g.driver.StreamCreateWithPriority(g.ctx, flags, int32(o.Priority))
}

// DefaultStream is the stream that is always there (CUDA's legacy default stream).
// Its work and that of all streams not NonBlocking keep the order in which they
// were queued. Closing it does nothing.
func (g *GPU) DefaultStream() *Stream { return g.legacy }

// String names the stream and its GPU.
func (s *Stream) String() string {
	if s == nil || s.q == nil {
		return "no stream"
	}
	return s.q.String()
}

// runs is the queue of a stream that does not capture, nil where there is more to
// look at.
func (s *Stream) runs() *queue {
	if s == nil {
		return nil
	}
	return s.now.Load()
}

// enter begins a use of the stream, or of what it captures with; q.leave ends it.
func (s *Stream) enter(what string) (*queue, error) {
	if q := s.runs(); q != nil && q.enter() {
		return q, nil
	}
	if s == nil || s.q == nil {
		return nil, refuse("%s: no stream given (nil)", what)
	}
	for {
		q := s.capturing()
		if q == nil {
			q = s.q
		}
		switch {
		case q.number == 0 && q.g.released.Load():
		case q.enter():
			return q, nil
		case q != s.q: // its capture has just ended
			runtime.Gosched()
			continue
		}
		return nil, fmt.Errorf("%s: %v: %w", what, q, ErrClosed)
	}
}

// operate runs an operation on one buffer. f says whether it queued anything.
func (s *Stream) operate(what string, r *region, a access, f func(*queue) (bool, error)) error {
	q, err := s.enter(what)
	if err != nil {
		return err
	}
	l, err := r.begin(q, a)
	if err != nil {
		q.leave()
		return fmt.Errorf("%s %w", what, err)
	}
	queued, err := f(q)
	r.end(l, a, q.finish(queued))
	if err != nil {
		return fmt.Errorf("%s %v on %v: %w", what, r, q, err)
	}
	return nil
}

// Wait waits until all work queued so far is done (cuStreamSynchronize). When ctx
// ends first, the error wraps ctx.Err() and the work goes on.
//
// Other errors are those of the work itself. A kernel that went wrong is a
// *cu.Fault or a sticky cu.Result, such as cu.ErrorIllegalAddress: the context is
// lost, and every later call says so. A panic in a host function is a
// *cu.HostPanic, told once. An error that a buffer's wait has come upon is told
// here, too. Wait also waits for a stream that was closed.
func (s *Stream) Wait(ctx context.Context) error {
	if s == nil || s.q == nil {
		return refuse("wait: no stream given (nil)")
	}
	q := s.q
	if s.capturing() != nil {
		return q.notYet("wait for")
	}
	err := q.wait(ctx)
	switch {
	case err == nil:
		q.g.tidy()
		err = q.unpark()
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("wait for %v: %w: the work goes on", q, err)
	default:
		if kept := q.unpark(); kept != nil && kept.Error() != err.Error() {
			err = errors.Join(err, kept)
		}
	}
	return q.explain(err)
}

// explain wraps an error of asynchronous work: who reports it, and what was
// launched.
func (q *queue) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*cu.Fault](err); !ok && sticky(err) {
		if k := q.last.Load(); k != nil {
			return fmt.Errorf("wait for %v: %w (the last kernel launched there was %s)", q, err, k.name)
		}
		return fmt.Errorf("wait for %v: %w (no kernel was launched there)", q, err)
	}
	return fmt.Errorf("wait for %v: %w", q, err)
}

// Done says whether all work is done, without waiting (cuStreamQuery). Errors are
// as for [Stream.Wait].
func (s *Stream) Done() (bool, error) {
	q, err := s.enter("query")
	if err != nil {
		return false, err
	}
	defer q.leave()
	if q.c != nil {
		return false, q.notYet("query")
	}
	n := q.issued()
	switch err := q.g.driver.StreamQuery(q.g.ctx, q.handle); {
	case errors.Is(err, cu.ErrorNotReady):
		return false, nil
	case err != nil:
		return false, q.explain(err)
	}
	q.pass(n)
	if err := q.unpark(); err != nil {
		return false, q.explain(err)
	}
	return true, nil
}

// HostFunc runs fn on a thread of the driver when the stream comes to it; later
// work of the stream waits for its end (cuLaunchHostFunc). Within fn the driver
// must not be called: what tries is refused with cu.ErrorNotPermitted, and Close
// takes effect afterwards. That goes for Slice, too: take slices before. A panic
// in fn is reported by Wait as a *cu.HostPanic.
func (s *Stream) HostFunc(fn func()) error {
	q, err := s.enter("queue a host function")
	if err != nil {
		return err
	}
	if fn == nil {
		err = refuse("no function given (nil)")
	} else {
		err = q.g.driver.LaunchHostFunc(q.g.ctx, q.handle, fn)
	}
	q.finish(err == nil)
	if err != nil {
		return fmt.Errorf("queue a host function on %v: %w", q, err)
	}
	return nil
}

// Close gives the stream up and returns at once; work in it goes on to its end
// (cuStreamDestroy), and buffers in flight on it still wait for it. Close of a
// closed or nil stream, or of the default stream, is nil.
func (s *Stream) Close() error {
	if s == nil || s.q == nil || s.q.number == 0 {
		return nil
	}
	s.leak.Stop()
	return s.q.close()
}
