package ferry

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
)

// Graph is work that was captured once and is launched as one, any number of
// times. It owns the buffers and modules that the work uses: they may be closed
// before, and go away with the last graph that has them. It is safe for
// concurrent use.
type Graph struct {
	g      *GPU
	number int64
	exec   cu.GraphExec
	life   lifetime
	leak   runtime.Cleanup
	mark   *Kernel // for error messages of streams

	// turn is of room 1, full while a call about exec is in the driver, whose
	// executable graphs are not safe for concurrent use. Who waits for it is not
	// in a host function.
	turn chan struct{}
	uses []use // behind turn
}

// Capture records what f queues on the stream, instead of running it, and makes
// it a graph (cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate):
// [Copy], [Fill], [Stream.Launch] and [Stream.HostFunc]. f's stream is s. Other streams take part from where they wait for an event that
// was recorded in the capture; before its end, s must wait for an event recorded
// on each of them. Host functions are called on every launch and kept for good.
//
// What is captured is not in flight, for it has not run. While a stream captures
// it cannot be waited for, nor can the whole GPU (the error is
// cu.ErrorStreamCaptureUnsupported); Slice and Close of a buffer wait for what was
// queued before. What cannot be captured is refused and spoils nothing: plain
// slices, which a graph cannot keep, prefetching, allocation, graphs. What other
// goroutines queue on s meanwhile is captured, too.
//
// The capture ends with f, also if that panics, and its error is Capture's. A
// graph always uses the memory that was captured: to change that, see
// [Graph.Update].
func (s *Stream) Capture(f func(s *Stream) error) (*Graph, error) {
	graph, uses, err := s.record("capture", f)
	if err != nil {
		return nil, err
	}
	g := s.q.g
	x, err := newGraph(g, graph)
	err = errors.Join(err, g.driver.GraphDestroy(graph))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a graph of what was captured on %v: %w", s, err), disown(uses))
	}
	x.uses = uses
	x.leak = watchLeak(x, x.String)
	return x, nil
}

// newGraph makes a graph executable.
func newGraph(g *GPU, graph cu.Graph) (*Graph, error) {
	if err := g.enter("make a graph"); err != nil {
		return nil, err
	}
	exec, err := g.driver.GraphInstantiate(g.ctx, graph, 0)
	if err != nil {
		g.leave()
		return nil, err
	}
	x := &Graph{g: g, number: g.graphs.Add(1), exec: exec, turn: make(chan struct{}, 1)}
	x.mark = &Kernel{name: fmt.Sprintf("one of graph %d", x.number)}
	return x, nil
}

// String names the graph and its GPU.
func (x *Graph) String() string {
	if x == nil {
		return "no graph"
	}
	return fmt.Sprintf("graph %d on %s", x.number, x.g.label)
}

// take begins a call about the executable graph; give ends it.
func (x *Graph) take(what string) error {
	if x == nil {
		return refuse("%s: no graph given (nil)", what)
	}
	if !x.life.enter() {
		return fmt.Errorf("%s: %v: %w", what, x, ErrClosed)
	}
	select {
	case x.turn <- struct{}{}:
		return nil
	default:
	}
	if _, err := x.g.driver.DriverGetVersion(); inCallback(err) {
		x.leave()
		return fmt.Errorf("%s: %w", what, err)
	}
	x.turn <- struct{}{}
	return nil
}

func (x *Graph) give() {
	<-x.turn
	x.leave()
}

func (x *Graph) leave() {
	if x.life.leave() {
		_ = x.g.soon(x.dispose)
	}
}

// Launch runs the graph in the order of the stream and returns when it is queued
// (cuGraphLaunch). All buffers that were captured are in flight on this stream
// until it is done, read and written as they were captured. Launches of one graph
// follow each other. The stream must be of the GPU of the capture. In a capture
// Launch is refused, as by hardware: call there what was captured.
//
// Launch allocates nothing.
func (x *Graph) Launch(s *Stream) error {
	q, err := s.enter("launch a graph")
	if err != nil {
		return err
	}
	if err := x.take("launch a graph"); err != nil {
		q.leave()
		return err
	}
	f := frames.Get().(*frame)
	err = x.launch(f, q)
	f.release(q.finish(err == nil))
	f.done()
	x.give()
	if err != nil {
		return fmt.Errorf("launch %v on %v: %w", x, q, err)
	}
	return nil
}

// launch is Launch with a frame for what it holds.
func (x *Graph) launch(f *frame, q *queue) error {
	if !sameDriver(x.g.driver, q.g.driver) || x.g.ctx != q.g.ctx {
		return refuse("they must be of one GPU")
	}
	if q.c != nil {
		return &refusal{cu.ErrorStreamCaptureUnsupported, "it captures, and graphs cannot be launched in a capture: call what was captured"}
	}
	for _, u := range x.uses {
		f.held = append(f.held, held{u.f, u.f.beginOwned(q, u.a), u.a, 0})
		if err := u.f.ordered(q); err != nil {
			return err
		}
	}
	if err := q.g.driver.GraphLaunch(q.g.ctx, x.exec, q.handle); err != nil {
		return err
	}
	q.last.Store(x.mark)
	return nil
}

// Update captures anew, as [Stream.Capture] does, and gives the graph the new
// work's parameters: other arguments, shapes, buffers, values, host functions
// (cuGraphExecUpdate). It costs less than a new graph. The kinds of operations and
// their order must be as before, or the error wraps
// cu.ErrorGraphExecUpdateFailure and the graph stays as it was. Launches that are
// queued already run as they were.
func (x *Graph) Update(s *Stream, f func(s *Stream) error) error {
	if x == nil {
		return refuse("update a graph: no graph given (nil)")
	}
	graph, uses, err := s.record("capture", f)
	if err != nil {
		return fmt.Errorf("update %v: %w", x, err)
	}
	if err = x.take("update"); err == nil {
		if err = x.g.driver.GraphExecUpdate(x.g.ctx, x.exec, graph); err == nil {
			x.uses, uses = uses, x.uses
		}
		x.give()
	}
	if errors.Is(err, cu.ErrorGraphExecUpdateFailure) {
		err = fmt.Errorf("%w: the new work has another shape: Capture makes a new graph", err)
	}
	if err = errors.Join(err, s.q.g.driver.GraphDestroy(graph), disown(uses)); err != nil {
		return fmt.Errorf("update %v: %w", x, err)
	}
	return nil
}

// Close gives the graph up (cuGraphExecDestroy); launches that are queued go on to
// their end. Buffers and modules that were closed before and that no other graph
// has are waited for and freed. Close of a closed or nil graph is nil.
func (x *Graph) Close() error {
	if x == nil {
		return nil
	}
	x.leak.Stop()
	if _, last := x.life.close(); last {
		return x.g.soon(x.dispose)
	}
	return nil
}

// dispose is what is left of Close when nobody uses the graph.
func (x *Graph) dispose() error {
	err := x.g.driver.GraphExecDestroy(x.exec)
	if inCallback(err) {
		return err
	}
	if err != nil {
		err = fmt.Errorf("close %v: %w", x, err)
	}
	err = errors.Join(err, disown(x.uses))
	x.g.leave()
	return err
}
