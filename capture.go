package ferry

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// capture is the recording of a graph: of what is queued on the stream where it
// began and on those that joined it by waiting for an event recorded in it.
//
// What is recorded goes to streams of the driver that are made for the capture,
// one for each of ours. So nobody can be waiting for them, and what is in flight
// on a stream can be waited for while it captures.
type capture struct {
	mu      sync.Mutex
	over    bool
	streams []*Stream // the first is where it began
	queues  []*queue  // theirs, of the capture
	uses    map[*flight]access
}

// use is something that a graph will use, and owns.
type use struct {
	f *flight
	a access
}

// errCapturing is the refusal of a wait for a device where a stream captures.
var errCapturing error = &refusal{cu.ErrorStreamCaptureUnsupported, "a stream captures, and the wait would spoil that: wait for streams or buffers, or after the capture"}

// capturing is what the stream captures with, nil if it does not.
func (s *Stream) capturing() *queue {
	if s.q.state.Load()&queueClosed != 0 {
		return nil
	}
	return s.rec.Load()
}

// notYet refuses to wait for a stream that captures.
func (q *queue) notYet(what string) error {
	return fmt.Errorf("%s %v: %w", what, q, &refusal{cu.ErrorStreamCaptureUnsupported, "it captures: what is queued runs when the graph is launched"})
}

// record captures what f queues. The graph and the uses are the caller's.
func (s *Stream) record(what string, f func(*Stream) error) (graph cu.Graph, uses []use, err error) {
	if f == nil {
		return 0, nil, refuse("%s on %v: no function given (nil)", what, s)
	}
	q, err := s.enter(what)
	if err != nil {
		return 0, nil, err
	}
	if err := q.g.enter(what); err != nil { // f may close all else
		q.leave()
		return 0, nil, err
	}
	defer q.g.leave()
	c := &capture{uses: map[*flight]access{}}
	if err = errAlready; q.c == nil {
		err = c.begin(s)
	}
	q.leave()
	if err != nil {
		return 0, nil, fmt.Errorf("%s on %v: %w", what, q, err)
	}
	failed := errors.New("the function did not return") // it panics, or ends the goroutine
	defer func() {
		var endErr error
		graph, endErr = c.end()
		uses = c.owned()
		if err = failed; err == nil {
			err = endErr
		} else if endErr == nil {
			err = errors.Join(err, q.g.driver.GraphDestroy(graph))
		}
		if err != nil {
			_ = disown(uses) // what was closed meanwhile tells nobody
			err = fmt.Errorf("%s on %v: %w%s", what, q, err, endHint(err))
		}
	}()
	failed = f(s)
	return 0, nil, nil
}

// endHint says what to do about a capture that did not end well.
func endHint(err error) string {
	switch {
	case errors.Is(err, cu.ErrorStreamCaptureUnjoined):
		return ": record an event on each stream that joined, and let this stream wait for it"
	case errors.Is(err, cu.ErrorStreamCaptureInvalidated):
		return ": a call within it, or at the same time elsewhere, is not allowed in captures"
	}
	return ""
}

// begin begins the capture on a stream.
func (c *capture) begin(s *Stream) error {
	return c.enlist(s, func(q *queue) error {
		return q.g.driver.StreamBeginCapture(q.g.ctx, q.handle, cu.StreamCaptureModeRelaxed)
	})
}

// join makes a stream part of the capture by waiting for an event of it.
func (c *capture) join(s *Stream, e *Event) error {
	return c.enlist(s, func(q *queue) error { return q.follow(e.handle) })
}

// enlist lets what is queued on s go to a stream of the capture, which a call of
// the driver makes a part of it.
func (c *capture) enlist(s *Stream, call func(*queue) error) error {
	g := s.q.g
	handle, err := g.createStream(&StreamOptions{NonBlocking: true, Priority: s.q.priority})
	if err != nil {
		return err
	}
	q := newQueue(g, handle, s.q.number)
	q.c = c
	g.captures.Add(1)
	if err = call(q); err == nil {
		err = c.enter(s, q)
	}
	if err != nil {
		g.captures.Add(-1)
		return errors.Join(err, g.driver.StreamDestroy(g.ctx, handle))
	}
	return nil
}

// enter lets what is queued on s go to q.
func (c *capture) enter(s *Stream, q *queue) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errCaptured
	}
	if !s.rec.CompareAndSwap(nil, q) {
		return errAlready
	}
	s.now.Store(nil)
	c.streams, c.queues = append(c.streams, s), append(c.queues, q)
	return nil
}

// end ends the capture in all its streams, well or not.
func (c *capture) end() (cu.Graph, error) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	for i, q := range c.queues {
		q.state.Or(queueClosed)
		c.streams[i].now.Store(c.streams[i].q) // before another capture can begin
		c.streams[i].rec.Store(nil)
		for q.state.Load()&queueUsers != 0 { // queueing
			runtime.Gosched()
		}
	}
	first := c.queues[0]
	graph, err := first.g.driver.StreamEndCapture(first.g.ctx, first.handle)
	for _, q := range c.queues {
		err = errors.Join(err, q.g.driver.StreamDestroy(q.g.ctx, q.handle))
		q.g.captures.Add(-1)
	}
	return graph, err
}

// keep notes and owns what is used in the capture.
func (c *capture) keep(f *flight, a access) {
	c.mu.Lock()
	old, known := c.uses[f]
	c.uses[f] = max(old, a)
	c.mu.Unlock()
	if !known {
		f.own()
	}
}

// owned is what was used, once the capture is over.
func (c *capture) owned() []use {
	c.mu.Lock()
	defer c.mu.Unlock()
	uses := make([]use, 0, len(c.uses))
	for f, a := range c.uses {
		uses = append(uses, use{f, a})
	}
	c.uses = nil
	return uses
}

// disown lets go of what a graph owned.
func disown(uses []use) error {
	var all []error
	for _, u := range uses {
		all = append(all, u.f.disown())
	}
	return errors.Join(all...)
}

// errAlready is the refusal of a capture in a capture.
var errAlready error = &refusal{cu.ErrorIllegalState, "it captures already"}

// errCaptured is the refusal of an event of a capture that is over.
var errCaptured error = &refusal{cu.ErrorCapturedEvent, "the event was last recorded in a capture that is over: record it again"}

// isOver says whether the capture has ended.
func (c *capture) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// captured is the capture that the event was last recorded in, nil if it was
// recorded in a stream that runs.
func (e *Event) captured() *capture { return e.standsFor().capture }

// hasRun refuses questions about an event that a capture has recorded.
func (e *Event) hasRun() error {
	switch c := e.captured(); {
	case c == nil:
		return nil
	case c.isOver():
		return errCaptured
	}
	return &refusal{cu.ErrorCapturedEvent, "the event was recorded in a capture, where nothing runs"}
}

// mayFollow refuses to wait for an event of capture c, which may be nil, where
// that would spoil captures.
func (q *queue) mayFollow(c *capture) error {
	switch {
	case c == q.c:
		return nil
	case c == nil:
		return &refusal{cu.ErrorStreamCaptureIsolation, "the stream captures, and the event was not recorded in the capture: wait for it before"}
	case c.isOver():
		return errCaptured
	case q.c != nil:
		return &refusal{cu.ErrorStreamCaptureMerge, "the stream captures, and the event was recorded in another capture"}
	}
	return nil
}
