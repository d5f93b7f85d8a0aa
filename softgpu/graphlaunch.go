package softgpu

import "github.com/ferrygpu/ferry/cu"

// GraphLaunch runs an executable graph at this point of the stream. It
// cannot be captured.
func (d *Driver) GraphLaunch(h cu.Context, gx cu.GraphExec, stream cu.Stream) error {
	const what = "launch a graph"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host += orElse(d.prof.Calls.GraphLaunch, d.prof.Calls.Launch)
	x, err := lookupGraph[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if x.ctx.dead {
		return refuse(cu.ErrorContextIsDestroyed, what, "the context it was captured in")
	}
	if err := s.mustNotCapture(what); err != nil {
		return err
	}
	first := d.submit(s.ctx, s, &work{what: what}, append(s.before(), x.last))
	s.tail = d.join(s, x.graph.submit(d, x.works, first), first)
	x.last = s.tail
	return nil
}

// join is a mark that follows all of ends, or first if there are none.
func (d *Driver) join(s *streamState, ends []*op, first *op) *op {
	if len(ends) == 0 {
		ends = []*op{first}
	}
	return d.submit(s.ctx, s, &work{what: "end of a graph"}, ends)
}

// submit queues the nodes of g after first and is the ops that none follows.
func (g *graph) submit(d *Driver, works []*work, first *op) []*op {
	ops := make([]*op, len(g.nodes))
	followed := make([]bool, len(g.nodes))
	for i, n := range g.nodes {
		deps := []*op{first}
		if len(n.deps) > 0 {
			deps = nil
		}
		for _, dep := range n.deps {
			deps = append(deps, ops[dep.index])
			followed[dep.index] = true
		}
		ops[i] = g.submitNode(d, works[i], deps)
	}
	var ends []*op
	for i, o := range ops {
		if !followed[i] {
			ends = append(ends, o)
		}
	}
	return ends
}

// submitNode queues one node.
func (g *graph) submitNode(d *Driver, w *work, deps []*op) *op {
	if w.event != nil && w.kind == cu.GraphNodeTypeWaitEvent {
		return d.submit(g.ctx, nil, w, append(deps, w.event.rec))
	}
	o := d.submit(g.ctx, nil, w, deps)
	if w.event != nil {
		w.event.rec, w.event.capture, w.event.front = o, nil, nil
	}
	return o
}

func (g *graph) works() []*work {
	var all []*work
	for _, n := range g.nodes {
		all = append(all, n.work)
	}
	return all
}
