package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// capture records work into a graph. It begins in one stream. Other streams
// join it by waiting for events recorded in it, and must be joined back.
type capture struct {
	ctx     *contextState
	origin  *streamState
	mode    cu.StreamCaptureMode
	thread  uint64 // the thread that began it
	graph   *graph
	streams map[*streamState]struct{}
	invalid bool
	ended   bool
}

// StreamBeginCapture begins a capture in the stream.
func (d *Driver) StreamBeginCapture(h cu.Context, stream cu.Stream, mode cu.StreamCaptureMode) error {
	const what = "begin a capture"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if mode > cu.StreamCaptureModeRelaxed {
		return refuse(cu.ErrorInvalidValue, what, "mode %d is not known", mode)
	}
	s, err := c.stream(stream, what)
	switch {
	case err != nil:
		return err
	case s == s.ctx.legacy:
		return refuse(cu.ErrorStreamCaptureUnsupported, what, "the legacy default stream cannot capture: create a stream")
	case s.capture != nil:
		return refuse(cu.ErrorIllegalState, what, "the stream captures already")
	}
	p := &capture{ctx: s.ctx, origin: s, mode: mode, thread: threadID(), graph: d.newGraph(s.ctx),
		streams: map[*streamState]struct{}{s: {}}}
	s.capture, s.captureDeps = p, nil
	d.captures[p] = struct{}{}
	return nil
}

// StreamEndCapture ends the capture and returns the graph.
func (d *Driver) StreamEndCapture(h cu.Context, stream cu.Stream) (cu.Graph, error) {
	const what = "end a capture"
	c, err := d.beginIn(h, what)
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
	case p.mode != cu.StreamCaptureModeRelaxed && p.thread != threadID():
		p.end()
		return 0, refuse(cu.ErrorStreamCaptureWrongThread, what, "another goroutine began it, and its mode is not relaxed; the capture has ended")
	}
	waitsFor, missing := ancestors(s.captureDeps), false
	for other := range p.streams {
		missing = missing || slices.ContainsFunc(other.captureDeps, func(n *node) bool { return !waitsFor[n] })
	}
	p.end()
	if p.invalid {
		return 0, refuse(cu.ErrorStreamCaptureInvalidated, what, "an earlier call invalidated it")
	}
	if missing {
		return 0, refuse(cu.ErrorStreamCaptureUnjoined, what,
			"a stream that joined the capture has work that the first stream does not wait for: record an event in that stream and wait for it in the first one")
	}
	p.graph.handle = cu.Graph(d.newHandle(p.graph))
	for _, n := range p.graph.nodes {
		n.handle = cu.GraphNode(d.newHandle(n))
	}
	return p.graph.handle, nil
}

// StreamIsCapturing returns the status of the stream's capture.
func (d *Driver) StreamIsCapturing(h cu.Context, stream cu.Stream) (cu.StreamCaptureStatus, error) {
	const what = "ask whether a stream captures"
	c, err := d.beginIn(h, what)
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
			return 0, refuse(cu.ErrorStreamCaptureImplicit, what, "a blocking stream captures, and the legacy default stream must not be used")
		}
		return cu.StreamCaptureStatusNone, nil
	case s.capture.invalid:
		return cu.StreamCaptureStatusInvalidated, nil
	}
	return cu.StreamCaptureStatusActive, nil
}

// end ends the capture in all its streams.
func (p *capture) end() {
	p.ended = true
	for s := range p.streams {
		s.capture = nil
	}
	delete(p.ctx.drv.captures, p)
}

func (p *capture) invalidate() { p.invalid = true }

// ancestors returns the nodes and all nodes that they follow.
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

// record adds w to the graph as a node.
func (s *streamState) record(w *work, what string) error {
	if err := s.valid(what); err != nil {
		return err
	}
	s.captureDeps = []*node{s.capture.graph.add(w, s.captureDeps)}
	return nil
}

// valid fails if an error has invalidated the stream's capture.
func (s *streamState) valid(what string) error {
	if s.capture != nil && s.capture.invalid {
		return refuse(cu.ErrorStreamCaptureInvalidated, what, "an earlier call invalidated the stream's capture: end it")
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
	e.recorded, e.capture, e.captureDeps = nil, s.capture, slices.Clone(s.captureDeps)
	return nil
}

// captureWait implements StreamWaitEvent for a stream or an event that is in a
// capture.
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
		if !from.ended {
			from.invalidate()
			return refuse(cu.ErrorStreamCaptureMerge, what, "the event belongs to another capture")
		}
		return refuse(cu.ErrorStreamCaptureIsolation, what, "the event belongs to a capture that has ended")
	case s.capture == nil && from.ended:
		return refuse(cu.ErrorCapturedEvent, what, "the event was last recorded in a capture that has ended: record it again")
	case s.capture == nil && s == s.ctx.legacy:
		from.invalidate()
		return refuse(cu.ErrorStreamCaptureImplicit, what, "the legacy default stream cannot join a capture")
	case s.capture == nil && from.invalid:
		return refuse(cu.ErrorStreamCaptureInvalidated, what, "an earlier call invalidated the event's capture")
	case s.capture == nil:
		s.capture, s.captureDeps = from, nil
		from.streams[s] = struct{}{}
	}
	for _, n := range e.captureDeps {
		if !slices.Contains(s.captureDeps, n) {
			s.captureDeps = append(s.captureDeps, n)
		}
	}
	return nil
}

// mustNotCapture refuses a wait or query of a stream that captures, and
// invalidates the capture. For the legacy stream this includes captures of
// streams that it waits for.
func (s *streamState) mustNotCapture(what string) error {
	if s.capture != nil {
		s.capture.invalidate()
		return refuse(cu.ErrorStreamCaptureUnsupported, what, "the stream captures, and none of its work runs")
	}
	return s.mayRun(what)
}

// mayRun refuses work in the legacy stream while a stream captures that would
// have to wait for it. It also invalidates that capture.
func (s *streamState) mayRun(what string) error {
	if s != s.ctx.legacy {
		return nil
	}
	if p := s.ctx.blockingCapture(); p != nil {
		p.invalidate()
		return refuse(cu.ErrorStreamCaptureImplicit, what, "a blocking stream captures, and it would have to wait for the legacy default stream")
	}
	return nil
}
