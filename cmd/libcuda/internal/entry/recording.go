package entry

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// recording makes a graph of the driver by a capture.
type recording struct {
	d       cu.Driver
	ctx     cu.Context // where a node names none
	graph   cu.Graph
	origin  cu.Stream
	first   cu.Event // recorded where the capture begins
	streams []contextual[cu.Stream]
	events  []contextual[cu.Event]
	kernels []*builtNode                // nodes that launch kernels, in the order of the driver
	handles map[*builtNode]cu.GraphNode // of kernels, in the driver
}

// contextual is a handle with its context.
type contextual[T any] struct {
	ctx    cu.Context
	handle T
}

func (r *recording) of(op graphOp) cu.Context {
	if ctx := op.context(); ctx != 0 {
		return ctx
	}
	return r.ctx
}

// record makes the driver's graph of a built one.
func record(d cu.Driver, ctx cu.Context, g *builtGraph) (*recording, error) {
	r := &recording{d: d, ctx: ctx}
	err := r.capture(func() error {
		last, err := r.add(g, []cu.Event{r.first})
		for _, e := range last {
			err = errors.Join(err, r.wait(r.ctx, r.origin, e))
		}
		return err
	})
	if err == nil {
		err = r.name()
	}
	if err != nil {
		return nil, errors.Join(err, r.destroy())
	}
	return r, nil
}

// capture runs do while the first stream captures.
func (r *recording) capture(do func() error) (err error) {
	defer func() { err = errors.Join(err, r.release()) }()
	if r.origin, err = r.stream(r.ctx); err != nil {
		return err
	}
	if err := r.d.StreamBeginCapture(r.ctx, r.origin, cu.StreamCaptureModeRelaxed); err != nil {
		return err
	}
	if r.first, err = r.mark(r.ctx, r.origin); err == nil {
		err = do()
	}
	graph, failed := r.d.StreamEndCapture(r.ctx, r.origin)
	r.graph = graph
	if err != nil {
		return err // what the capture says follows from it
	}
	return failed
}

// add records the nodes of g after events, and returns events of its nodes, or the same if it has none.
func (r *recording) add(g *builtGraph, after []cu.Event) ([]cu.Event, error) {
	order, err := g.sorted()
	if err != nil {
		return nil, err
	}
	last := map[*builtNode][]cu.Event{}
	var ends []cu.Event
	for _, n := range order {
		from := after
		if len(n.deps) > 0 {
			from = nil
		}
		for _, dep := range n.deps {
			from = append(from, last[dep]...)
		}
		if last[n], err = r.addNode(n, from); err != nil {
			return nil, err
		}
		ends = append(ends, last[n]...)
	}
	if len(order) == 0 {
		return after, nil
	}
	return ends, nil
}

// addNode records a node after events, in a stream of its own.
func (r *recording) addNode(n *builtNode, after []cu.Event) ([]cu.Event, error) {
	if child, ok := n.op.(*childOp); ok {
		return r.add(child.graph, after)
	}
	ctx := r.of(n.op)
	s, err := r.stream(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range after {
		if err := r.wait(ctx, s, e); err != nil {
			return nil, err
		}
	}
	if n.op.kind() != cu.GraphNodeTypeEmpty {
		if err := n.op.queue(r.d, ctx, s); err != nil {
			return nil, err
		}
		if n.op.kind() == cu.GraphNodeTypeKernel {
			r.kernels = append(r.kernels, n)
		}
	}
	e, err := r.mark(ctx, s)
	return []cu.Event{e}, err
}

func (r *recording) wait(ctx cu.Context, s cu.Stream, e cu.Event) error {
	return r.d.StreamWaitEvent(ctx, s, e, 0)
}

func (r *recording) stream(ctx cu.Context) (cu.Stream, error) {
	s, err := r.d.StreamCreate(ctx, cu.StreamNonBlocking)
	if err == nil {
		r.streams = append(r.streams, contextual[cu.Stream]{ctx, s})
	}
	return s, err
}

// mark records an event.
func (r *recording) mark(ctx cu.Context, s cu.Stream) (cu.Event, error) {
	e, err := r.d.EventCreate(ctx, cu.EventDisableTiming)
	if err != nil {
		return 0, err
	}
	r.events = append(r.events, contextual[cu.Event]{ctx, e})
	return e, r.d.EventRecord(ctx, e, s)
}

// name finds the handles that the driver has given to the nodes of kernels. The driver can have more
// nodes of other kinds: a fill of a rectangle is one for each row.
func (r *recording) name() error {
	list, err := r.d.GraphGetNodes(r.graph)
	if err != nil {
		return err
	}
	r.handles = map[*builtNode]cu.GraphNode{}
	for _, h := range list {
		kind, err := r.d.GraphNodeGetType(h)
		if err != nil {
			return err
		}
		if n := len(r.handles); kind == cu.GraphNodeTypeKernel && n < len(r.kernels) {
			r.handles[r.kernels[n]] = h
		}
	}
	return nil
}

// release destroys the streams and events of the capture.
func (r *recording) release() (err error) {
	for _, s := range r.streams {
		err = errors.Join(err, r.d.StreamDestroy(s.ctx, s.handle))
	}
	for _, e := range r.events {
		err = errors.Join(err, r.d.EventDestroy(e.ctx, e.handle))
	}
	r.streams, r.events = nil, nil
	return err
}

// destroy destroys the graph.
func (r *recording) destroy() error {
	if r.graph == 0 {
		return nil
	}
	graph := r.graph
	r.graph = 0
	return r.d.GraphDestroy(graph)
}
