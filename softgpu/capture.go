package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// capture is a recording of work into a graph. It begins in one stream; others
// join by waiting for events recorded in it, and must be joined back.
type capture struct {
	ctx     *contextState
	origin  *streamState
	mode    cu.StreamCaptureMode
	thread  uint64 // the goroutine that began it
	graph   *graph
	streams map[*streamState]struct{}
	invalid bool
	over    bool
}

// StreamBeginCapture turns the stream into a recorder.
func (d *Driver) StreamBeginCapture(h cu.Context, stream cu.Stream, mode cu.StreamCaptureMode) error {
	const what = "begin a capture"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if mode > cu.StreamCaptureModeRelaxed {
		return refuse(cu.ErrorInvalidValue, what, "no mode %d", mode)
	}
	s, err := c.stream(stream, what)
	switch {
	case err != nil:
		return err
	case s == s.ctx.legacy:
		return refuse(cu.ErrorStreamCaptureUnsupported, what, "the legacy default stream cannot capture: use one of your own")
	case s.capture != nil:
		return refuse(cu.ErrorIllegalState, what, "the stream captures already")
	}
	p := &capture{ctx: s.ctx, origin: s, mode: mode, thread: goid(), graph: d.newGraph(s.ctx),
		streams: map[*streamState]struct{}{s: {}}}
	s.capture, s.front = p, nil
	d.captures[p] = struct{}{}
	return nil
}

// StreamEndCapture ends the capture and is the graph.
func (d *Driver) StreamEndCapture(h cu.Context, stream cu.Stream) (cu.Graph, error) {
	const what = "end a capture"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return 0, err
	}
	p := s.capture
	switch {
	case p == nil:
		return 0, refuse(cu.ErrorIllegalState, what, "the stream does not capture")
	case p.origin != s:
		p.invalidate()
		return 0, refuse(cu.ErrorStreamCaptureUnmatched, what, "it began in another stream")
	case p.mode != cu.StreamCaptureModeRelaxed && p.thread != goid():
		p.end()
		return 0, refuse(cu.ErrorStreamCaptureWrongThread, what, "another goroutine began it, not in relaxed mode; the capture is over")
	}
	joined := ancestors(s.front)
	p.end()
	if p.invalid {
		return 0, refuse(cu.ErrorStreamCaptureInvalidated, what, "an earlier call spoiled it")
	}
	for other := range p.streams {
		for _, n := range other.front {
			if !joined[n] {
				return 0, refuse(cu.ErrorStreamCaptureUnjoined, what,
					"a stream that joined it has work the first stream did not wait for: record an event there and wait for it here")
			}
		}
	}
	p.graph.handle = cu.Graph(d.newHandle(p.graph))
	for _, n := range p.graph.nodes {
		n.handle = cu.GraphNode(d.newHandle(n))
	}
	return p.graph.handle, nil
}

// StreamIsCapturing says whether the stream records.
func (d *Driver) StreamIsCapturing(h cu.Context, stream cu.Stream) (cu.StreamCaptureStatus, error) {
	const what = "ask whether a stream captures"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	switch {
	case err != nil:
		return 0, err
	case s.capture == nil:
		if s == c.legacy && c.blockingCapture() != nil {
			return 0, refuse(cu.ErrorStreamCaptureImplicit, what, "a blocking stream captures, and the legacy default stream must not be touched")
		}
		return cu.StreamCaptureStatusNone, nil
	case s.capture.invalid:
		return cu.StreamCaptureStatusInvalidated, nil
	}
	return cu.StreamCaptureStatusActive, nil
}

// end takes all streams out of p.
func (p *capture) end() {
	p.over = true
	for s := range p.streams {
		s.capture = nil
	}
	delete(p.ctx.drv.captures, p)
}

func (p *capture) invalidate() { p.invalid = true }

// endCaptures drops what c was capturing.
func (c *contextState) endCaptures() {
	for p := range c.drv.captures {
		if p.ctx == c {
			p.end()
		}
	}
}

// ancestors is the nodes and all that they follow.
func ancestors(nodes []*node) map[*node]bool {
	all := map[*node]bool{}
	todo := slices.Clone(nodes)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !all[n] {
			all[n] = true
			todo = append(todo, n.deps...)
		}
	}
	return all
}

// record makes w a node instead of running it.
func (s *streamState) record(w *work, what string) error {
	if err := s.valid(what); err != nil {
		return err
	}
	s.front = []*node{s.capture.graph.add(w, s.front)}
	return nil
}

// valid refuses a capture that an error has spoiled.
func (s *streamState) valid(what string) error {
	if s.capture != nil && s.capture.invalid {
		return refuse(cu.ErrorStreamCaptureInvalidated, what, "the stream's capture was spoiled by an earlier call: end it")
	}
	return nil
}

// captureRecord records an event in a stream that captures.
func (s *streamState) captureRecord(e *eventState, flags cu.EventRecordFlags, what string) error {
	if err := s.valid(what); err != nil {
		return err
	}
	if flags&cu.EventRecordExternal != 0 {
		return s.record(&work{kind: cu.GraphNodeTypeEventRecord, what: what, event: e}, what)
	}
	e.rec, e.capture, e.front = nil, s.capture, slices.Clone(s.front)
	return nil
}

// captureWait is StreamWaitEvent where the stream or the event captures.
func (s *streamState) captureWait(e *eventState, flags cu.EventWaitFlags, what string) error {
	if err := s.valid(what); err != nil {
		return err
	}
	from := e.capture
	switch {
	case s.capture != nil && flags&cu.EventWaitExternal != 0:
		return s.record(&work{kind: cu.GraphNodeTypeWaitEvent, what: what, event: e}, what)
	case s.capture != nil && from == nil:
		s.capture.invalidate()
		return refuse(cu.ErrorStreamCaptureIsolation, what, "the event was not recorded in this capture")
	case s.capture != nil && from != s.capture:
		s.capture.invalidate()
		if !from.over {
			from.invalidate()
			return refuse(cu.ErrorStreamCaptureMerge, what, "the event belongs to another capture")
		}
		return refuse(cu.ErrorStreamCaptureIsolation, what, "the event belongs to a capture that is over")
	case s.capture == nil && from.over:
		return refuse(cu.ErrorCapturedEvent, what, "the event was last recorded in a capture that is over: record it again")
	case s.capture == nil && s == s.ctx.legacy:
		from.invalidate()
		return refuse(cu.ErrorStreamCaptureImplicit, what, "the legacy default stream cannot join a capture")
	case s.capture == nil && from.invalid:
		return refuse(cu.ErrorStreamCaptureInvalidated, what, "the event's capture was spoiled by an earlier call")
	case s.capture == nil:
		s.capture, s.front = from, nil
		from.streams[s] = struct{}{}
	}
	for _, n := range e.front {
		if !slices.Contains(s.front, n) {
			s.front = append(s.front, n)
		}
	}
	return nil
}

// mustNotCapture refuses a wait or query of a stream that captures, and spoils
// the capture; of the legacy stream also when a stream captures that it waits for.
func (s *streamState) mustNotCapture(what string) error {
	if s.capture != nil {
		s.capture.invalidate()
		return refuse(cu.ErrorStreamCaptureUnsupported, what, "the stream captures: nothing in it runs")
	}
	return s.mayRun(what)
}

// mayRun refuses work in the legacy stream while a stream captures that would
// have to wait for it.
func (s *streamState) mayRun(what string) error {
	if s != s.ctx.legacy {
		return nil
	}
	if p := s.ctx.blockingCapture(); p != nil {
		p.invalidate()
		return refuse(cu.ErrorStreamCaptureImplicit, what, "a blocking stream captures, and would have to wait for the legacy default stream")
	}
	return nil
}

// blockingCapture is a capture of c that a blocking stream takes part in.
func (c *contextState) blockingCapture() *capture {
	for _, s := range c.streams {
		if s.capture != nil && !s.nonBlocking() {
			return s.capture
		}
	}
	return nil
}

// mustNotCapture refuses a wait for all of c while any of its streams captures.
func (c *contextState) mustNotCapture(what string) error {
	var err error
	for p := range c.drv.captures {
		if p.ctx == c {
			p.invalidate()
			err = refuse(cu.ErrorStreamCaptureUnsupported, what, "a stream of the context captures")
		}
	}
	return err
}

// unsafeInCapture refuses calls that may wait for a capture or break it, unless
// all captures that matter are relaxed.
func (c *contextState) unsafeInCapture(what string) error {
	for p := range c.drv.captures {
		if p.mode == cu.StreamCaptureModeGlobal || p.mode == cu.StreamCaptureModeThreadLocal && p.thread == goid() {
			p.invalidate()
			return refuse(cu.ErrorStreamCaptureUnsupported, what, "a stream captures, not in relaxed mode")
		}
	}
	return nil
}
