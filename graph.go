package ferry

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Graph is captured work, which can be launched any number of times. [Stream.Capture]
// makes it. It owns the buffers and modules that the work uses: a program may close them
// before the graph, and the last graph that owns them frees them. It is safe for
// concurrent use.
type Graph struct {
	g        *GPU
	name     string // as the last launch in error messages of streams: "one of graph 3"
	exec     cu.GraphExec
	lifetime inflight.Lifetime
	leak     runtime.Cleanup

	// execLock has capacity 1. It is full while a goroutine calls the driver about exec,
	// because executable graphs are not safe for concurrent use. Host functions do not
	// wait for it.
	execLock chan struct{}
	uses     []inflight.GraphUse // guarded by execLock
	born     []*graphBirth       // of the buffers that the graph allocates
}

// newGraph captures what f queues and makes an executable graph of it.
func newGraph(s *Stream, f func(*Stream) error) (*Graph, error) {
	graph, uses, born, err := record(s, f)
	if err != nil {
		return nil, err
	}
	g := s.state.g
	x, err := instantiate(g, graph, flagsOf(born))
	failed := g.driver.GraphDestroy(graph)
	if err = refusal.Join(err, failed); err != nil {
		err = fmt.Errorf("make a graph of what was captured on %v: %w", s, err)
		lose(born)
		if x == nil {
			return nil, refusal.Join(err, inflight.DisownAll(uses))
		}
		x.uses = uses
		return nil, refusal.Join(err, x.dispose())
	}
	x.uses, x.born = uses, born
	for _, b := range born {
		b.graph.Store(x)
	}
	x.leak = leak.Watch(x, x.String)
	return x, nil
}

// instantiate makes an executable graph.
func instantiate(g *GPU, graph cu.Graph, flags uint64) (*Graph, error) {
	if err := g.enter("make a graph"); err != nil {
		return nil, err
	}
	exec, err := g.driver.GraphInstantiate(g.ctx, graph, flags)
	if err != nil {
		g.leave()
		return nil, err
	}
	return &Graph{g: g, name: fmt.Sprintf("one of graph %d", g.graphCount.Add(1)), exec: exec, execLock: make(chan struct{}, 1)}, nil
}

// String returns a description of the graph: "graph 3 on cuda:0".
func (x *Graph) String() string {
	if x == nil || x.g == nil {
		return "no graph"
	}
	return x.name[len("one of "):] + " on " + x.g.label
}

// GPU returns the GPU of the graph.
func (x *Graph) GPU() *GPU {
	if x == nil {
		return nil
	}
	return x.g
}

// Handle returns the driver's handle of the executable graph (a CUgraphExec), for another
// library. Executable graphs are not safe for concurrent use, so no call of Ferry about this graph
// may run beside one of the other library. A launch by the handle makes nothing in flight: launch
// in [Stream.External], with [Runs]. After Close the handle is dead: see [Stream.Handle].
func (x *Graph) Handle() cu.GraphExec {
	if x == nil {
		return 0
	}
	return x.exec
}

// enter begins a call about the executable graph, after other such calls have ended. It
// fails when the graph is nil or closed. leave ends the call.
func (x *Graph) enter(what string) error {
	if x == nil || x.g == nil {
		return refusal.Invalid("%s: no graph given (nil)", what)
	}
	if !x.lifetime.Enter() {
		return fmt.Errorf("%s: %v: %w", what, x, ErrClosed)
	}
	select {
	case x.execLock <- struct{}{}:
		return nil
	default:
	}
	if err := x.g.mayWait(); err != nil {
		x.left()
		return fmt.Errorf("%s: %w", what, err)
	}
	x.execLock <- struct{}{}
	return nil
}

func (x *Graph) leave() {
	<-x.execLock
	x.left()
}

// left disposes of a closed graph after its last use.
func (x *Graph) left() {
	if x.lifetime.Leave() {
		_ = closing.AfterHostFunction(x.dispose)
	}
}

// Launch runs the graph in the order of the stream, and returns when it is queued
// (cuGraphLaunch). Until it is done, all captured buffers are in flight on the stream,
// with the accesses that were captured. Launches of one graph run one after the other.
// The stream must belong to the GPU of the capture. In a capture the error wraps
// cu.ErrorStreamCaptureUnsupported, as on hardware: make the captured calls there
// instead. Launch allocates nothing.
func (x *Graph) Launch(s *Stream) error {
	const what = "launch a graph"
	if err := x.enter(what); err != nil {
		return err
	}
	defer x.leave() // after l.done: a closed graph gives up its memory here, which is then in flight
	l, st, err := s.beginLaunch(what)
	if err != nil {
		return err
	}
	defer l.done()
	if err := x.launch(&l.op, st); err != nil {
		return fmt.Errorf("launch %v on %v: %w", x, st, err)
	}
	return nil
}

// launch acquires what the graph uses, and queues the graph.
func (x *Graph) launch(op *inflight.Op, st *streamState) error {
	if err := x.mayRunOn(st); err != nil {
		return err
	}
	for _, u := range x.uses {
		op.AcquireOwned(u.Tracker, u.Access)
		if x.allocates(u.Tracker) {
			continue
		}
		if err := waitForAllocation(u.Tracker, st); err != nil {
			return err
		}
	}
	op.Queued() // also if the call fails: it can have queued the graph
	x.launches()
	if err := st.g.driver.GraphLaunch(st.g.ctx, x.exec, st.handle); err != nil {
		return err
	}
	x.hasLaunched()
	st.launched(&x.name)
	return nil
}

// mayRunOn returns an error for a stream on which the graph cannot be launched.
func (x *Graph) mayRunOn(st *streamState) error {
	if !x.g.sameContext(st.g) {
		return refusal.Invalid("they must belong to one GPU")
	}
	if st.capture != nil {
		return refusal.New(cu.ErrorStreamCaptureUnsupported, "it captures, and graphs cannot be launched in a capture: call what was captured")
	}
	return nil
}

// lend acquires what the graph uses, for a launch by another library, and lends it: see
// Use.acquire.
func (x *Graph) lend(op *inflight.Op, st *streamState) (lent []*inflight.Tracker, err error) {
	if err := x.enter("launch a graph"); err != nil {
		return nil, err
	}
	defer x.leave()
	if err := x.mayRunOn(st); err != nil {
		return nil, fmt.Errorf("launch %v: %w", x, err)
	}
	for _, u := range x.uses {
		op.AcquireOwned(u.Tracker, u.Access)
		lent = append(lent, op.Lend())
		if x.allocates(u.Tracker) {
			continue
		}
		if err := waitForAllocation(u.Tracker, st); err != nil {
			return lent, err
		}
	}
	x.launches()
	x.hasLaunched() // by the function that is called next
	return lent, nil
}

// Update captures what f queues, as [Stream.Capture] does, and gives the parameters of
// the new work to the graph (cuGraphExecUpdate): arguments, launch configurations,
// buffers, values and host functions. It costs less than a new graph. The kinds of
// operations and their order must be the same as before. Otherwise the error wraps
// cu.ErrorGraphExecUpdateFailure, and the graph does not change. Graphs that allocate memory
// ([AllocAsync]) cannot be updated. The stream must belong to
// the GPU of the graph. Launches that are already queued run with the old parameters.
func (x *Graph) Update(s *Stream, f func(s *Stream) error) error {
	if x == nil || x.g == nil {
		return refusal.Invalid("update a graph: no graph given (nil)")
	}
	if s != nil && s.state != nil && !x.g.sameContext(s.state.g) {
		return refusal.New(cu.ErrorGraphExecUpdateFailure, "update %v from a capture on %v: they must belong to one GPU", x, s)
	}
	graph, uses, born, err := record(s, f)
	if err != nil {
		return fmt.Errorf("update %v: %w", x, err)
	}
	lose(born)
	if err = cu.ErrorGraphExecUpdateFailure; len(born)+len(x.born) == 0 { // some drivers would update such a graph
		uses, err = x.exchange(graph, uses)
	}
	if errors.Is(err, cu.ErrorGraphExecUpdateFailure) {
		err = fmt.Errorf("%w: the operations or their order differ, or the graph allocates memory: Capture makes a new graph", err)
	}
	if err = refusal.Join(err, s.state.g.driver.GraphDestroy(graph), inflight.DisownAll(uses)); err != nil {
		return fmt.Errorf("update %v: %w", x, err)
	}
	return nil
}

// exchange gives new parameters and what they use to the graph. It returns what is not used
// any more: uses itself after an error.
func (x *Graph) exchange(graph cu.Graph, uses []inflight.GraphUse) (unused []inflight.GraphUse, err error) {
	if err := x.enter("update"); err != nil {
		return uses, err
	}
	defer x.leave()
	if err := x.g.driver.GraphExecUpdate(x.g.ctx, x.exec, graph); err != nil {
		return uses, err
	}
	unused, x.uses = x.uses, uses
	return unused, nil
}

// Close closes the graph (cuGraphExecDestroy). Launches that are queued still run. Close
// waits for the closed buffers and modules that no other graph owns, and frees them.
// Close of a closed or nil graph does nothing and returns nil.
func (x *Graph) Close() error {
	if x == nil || x.g == nil {
		return nil
	}
	x.leak.Stop()
	if _, unused := x.lifetime.Close(); unused {
		return closing.AfterHostFunction(x.dispose)
	}
	return nil
}

// dispose destroys the executable graph and releases what it owns. No call uses the graph
// any more.
func (x *Graph) dispose() error {
	lose(x.born)
	err := x.g.driver.GraphExecDestroy(x.exec)
	if closing.InHostFunction(err) {
		return err
	}
	if err != nil {
		err = fmt.Errorf("close %v: %w", x, err)
	}
	defer x.g.leave() // also if the release of a wrapped buffer panics
	return refusal.Join(err, inflight.DisownAll(x.uses))
}

// capture records a graph: what is queued on the stream where the capture began, and on
// the streams that joined it by waiting for an event recorded in it.
//
// The driver records on streams that are made for the capture, one for each Stream that
// is part of it. So no other goroutine waits for those, and the work that is in flight on
// a Stream can be waited for while it captures.
type capture struct {
	recorder inflight.Recorder // resources that the graph will use

	mu      sync.Mutex
	over    bool
	streams []*Stream      // the capture began on the first
	states  []*streamState // made for the capture, one for each of streams
	events  map[*Event]cu.Event
	born    []*graphBirth // of the buffers that the graph allocates
}

// eventFor returns the driver's event for an Event that the caller has entered: outside of
// captures, where c is nil, its own. In a capture it is one that is made for the capture,
// because a query of an event that was recorded in a capture invalidates the capture, and
// another goroutine may query the Event at any time.
func (c *capture) eventFor(e *Event) (cu.Event, error) {
	if c == nil {
		return e.handle, nil
	}
	return c.ownEventFor(e)
}

// ownEventFor is eventFor in a capture. It is apart so that eventFor is inlined: a Record
// outside of captures takes 20 ns, and a call 1.
func (c *capture) ownEventFor(e *Event) (cu.Event, error) {
	c.mu.Lock()
	handle := c.events[e]
	c.mu.Unlock()
	if handle != 0 {
		return handle, nil
	}
	handle, err := e.g.driver.EventCreate(e.g.ctx, cu.EventDisableTiming)
	if err != nil {
		return 0, err
	}
	kept, err := c.keepEvent(e, handle)
	if kept != handle {
		err = refusal.Join(err, e.g.driver.EventDestroy(e.g.ctx, handle))
	}
	return kept, err
}

// keepEvent stores the event that is made for an Event. If there is one already, it returns
// that.
func (c *capture) keepEvent(e *Event, handle cu.Event) (kept cu.Event, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kept = c.events[e]; {
	case c.over:
		return 0, errCaptured
	case kept != 0:
		return kept, nil
	case c.events == nil:
		c.events = map[*Event]cu.Event{}
	}
	c.events[e] = handle
	e.g.lifetime.AddUser() // until destroyEvents
	return handle, nil
}

// destroyEvents destroys the events that were made for the capture, which is over.
func (c *capture) destroyEvents() error {
	var all []error
	for e, handle := range c.events {
		all = append(all, e.g.driver.EventDestroy(e.g.ctx, handle))
		e.g.leave()
	}
	return refusal.Join(all...)
}

// followIn makes a stream wait for an event that was recorded in the capture or, if c is nil,
// outside of captures.
func (c *capture) followIn(st *streamState, e *Event) error {
	handle, err := c.eventFor(e)
	if err != nil {
		return err
	}
	return follow(st, handle)
}

// Errors of calls that would invalidate a capture.
var (
	errAlready  = refusal.New(cu.ErrorIllegalState, "it captures already")
	errCaptured = refusal.Invalid("the event was recorded last in a capture that is over: record it again")
)

// record captures what f queues. The caller owns the graph and the uses, and says what becomes of the
// buffers that it allocates.
func record(s *Stream, f func(*Stream) error) (graph cu.Graph, uses []inflight.GraphUse, born []*graphBirth, err error) {
	const what = "capture"
	if f == nil {
		return 0, nil, nil, refusal.Invalid("%s on %v: no function given (nil)", what, s)
	}
	var op inflight.Op
	st, err := s.begin(&op, what, true) // c.begin may wait
	if err != nil {
		return 0, nil, nil, err
	}
	defer op.End()
	if err := st.g.enter(what); err != nil { // f may close every other object of the GPU
		return 0, nil, nil, err
	}
	defer st.g.leave()
	c := new(capture)
	if err = errAlready; st.capture == nil {
		err = c.begin(s)
	}
	op.End()
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%s on %v: %w", what, st, err)
	}
	failed := errors.New("the function did not return") // stays if f panics or ends its goroutine
	defer func() {
		var endErr error
		graph, endErr = c.end()
		uses, born = c.recorder.Uses(), c.born // nothing is recorded any more
		if err = failed; err == nil {
			err = endErr
		}
		if err != nil && graph != 0 {
			err = refusal.Join(err, st.g.driver.GraphDestroy(graph))
		}
		if err != nil {
			lose(born)
			_ = inflight.DisownAll(uses) // may free a buffer closed during the capture, whose Close has returned
			err = fmt.Errorf("%s on %v: %w%s", what, st, err, captureHint(err))
		}
	}()
	failed = f(s)
	return 0, nil, nil, nil
}

// captureHint says what to do about a capture that failed.
func captureHint(err error) string {
	switch {
	case errors.Is(err, cu.ErrorStreamCaptureUnjoined):
		return ": record an event on each stream that joined, and let this stream wait for it"
	case errors.Is(err, cu.ErrorStreamCaptureInvalidated):
		return ": a call during the capture, in the function or elsewhere, is not allowed in captures"
	}
	return ""
}

// begin begins the capture on a stream.
func (c *capture) begin(s *Stream) error {
	return c.add(s, func(st *streamState) error {
		return st.g.driver.StreamBeginCapture(st.g.ctx, st.handle, cu.StreamCaptureModeRelaxed)
	})
}

// join makes a stream part of the capture by waiting for an event of it.
func (c *capture) join(s *Stream, e *Event) error {
	return c.add(s, func(st *streamState) error { return c.followIn(st, e) })
}

// add redirects what is queued on s to a new stream of the driver, which call makes part of the
// capture. It first takes s for the capture, so that of several goroutines only one calls the
// driver.
func (c *capture) add(s *Stream, call func(*streamState) error) error {
	if !s.part.CompareAndSwap(nil, c) {
		return errAlready
	}
	g := s.state.g
	handle, err := createStream(g, true, s.state.priority)
	if err != nil {
		s.part.Store(nil)
		return err
	}
	g.lifetime.AddUser() // until destroy
	g.captures.Begin()
	st := newStreamState(g, handle, s.state.number, c)
	if err = call(st); err == nil && !c.redirect(s, st) {
		err = errCaptured
	}
	if err != nil {
		err = refusal.Join(err, c.destroy(s, st))
	}
	return err
}

// redirect makes operations of s go to st. It fails if the capture is over.
func (c *capture) redirect(s *Stream, st *streamState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	s.recording.Store(st)
	c.streams, c.states = append(c.streams, s), append(c.states, st)
	return true
}

// destroy destroys the driver's stream that add has made for s. Nothing uses it any more.
func (c *capture) destroy(s *Stream, st *streamState) error {
	g := st.g
	err := g.driver.StreamDestroy(g.ctx, st.handle)
	g.captures.End()
	s.part.Store(nil)
	g.leave()
	return err
}

// end ends the capture on all its streams, also after an error.
func (c *capture) end() (cu.Graph, error) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	for i, st := range c.states {
		st.Close()
		c.streams[i].recording.Store(nil)
		st.Drain()
	}
	graph, err := endCapture(c.states[0])
	for i, st := range c.states {
		err = refusal.Join(err, c.destroy(c.streams[i], st))
	}
	return graph, refusal.Join(err, c.destroyEvents())
}

// endCapture ends the capture that began on a stream. If the driver returns an error and the
// stream captures still, it tries once more: a capture that stays refuses waits for the whole
// context for ever.
func endCapture(st *streamState) (cu.Graph, error) {
	d, ctx := st.g.driver, st.g.ctx
	graph, err := d.StreamEndCapture(ctx, st.handle)
	if err == nil || refusal.Sticky(err) {
		return graph, err
	}
	if status, failed := d.StreamIsCapturing(ctx, st.handle); failed == nil && status == cu.StreamCaptureStatusNone {
		return 0, err
	}
	if graph, again := d.StreamEndCapture(ctx, st.handle); again == nil {
		return 0, refusal.Join(err, d.GraphDestroy(graph))
	}
	return 0, err
}

// isOver reports whether the capture has ended.
func (c *capture) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// mayJoin returns an error if a stream cannot wait for an event recorded in c without
// invalidating a capture. c is nil for an event that was not recorded in a capture.
func (c *capture) mayJoin(st *streamState) error {
	switch {
	case c == st.capture:
		return nil
	case c == nil:
		return refusal.New(cu.ErrorStreamCaptureIsolation, "the stream captures, and the event was not recorded in the capture: wait for it before the capture")
	case c.isOver():
		return errCaptured
	case st.capture != nil:
		return refusal.New(cu.ErrorStreamCaptureMerge, "the stream captures, and the event was recorded in another capture")
	}
	return nil
}

// refuseWhileCapturing returns the error of a wait for a stream that captures.
func refuseWhileCapturing(st *streamState, what string) error {
	return fmt.Errorf("%s %v: %w", what, st, refusal.New(cu.ErrorStreamCaptureUnsupported, "it captures: what is queued runs when the graph is launched"))
}
