package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// graph is recorded work. Nodes stand in an order in which each follows only
// earlier ones.
type graph struct {
	ctx    *contextState
	handle cu.Graph
	nodes  []*node
	owned  []*region // allocated by nodes of the graph
	users  int       // the handle and executable graphs
}

// node is one piece of it.
type node struct {
	handle cu.GraphNode
	graph  *graph
	index  int
	work   *work
	deps   []*node
}

// graphExec is a graph made ready to run.
type graphExec struct {
	ctx   *contextState
	graph *graph // that it was made from, which may be gone for the caller
	works []*work
	last  *op // the end of the last launch: launches follow each other
}

func (d *Driver) newGraph(c *contextState) *graph { return &graph{ctx: c, users: 1} }

func (g *graph) add(w *work, deps []*node) *node {
	n := &node{graph: g, index: len(g.nodes), work: w, deps: slices.Clone(deps)}
	g.nodes = append(g.nodes, n)
	return n
}

// leave drops a user; the last one frees what the graph allocated.
func (g *graph) leave() {
	g.users--
	if g.users > 0 {
		return
	}
	for _, r := range g.owned {
		if !g.ctx.dead {
			r.free()
		}
	}
	for _, n := range g.nodes {
		if n.work.child != nil {
			n.work.child.leave()
		}
	}
}

// GraphDestroy gives a graph up.
func (d *Driver) GraphDestroy(h cu.Graph) error {
	const what = "destroy a graph"
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	g, err := lookup[*graph](d, uintptr(h), what, "graph")
	if err != nil {
		return err
	}
	delete(d.handles, uintptr(h))
	for _, n := range g.nodes {
		delete(d.handles, uintptr(n.handle))
	}
	g.leave()
	return nil
}

// GraphInstantiate makes a graph executable.
func (d *Driver) GraphInstantiate(h cu.Context, gh cu.Graph, flags uint64) (cu.GraphExec, error) {
	const what = "instantiate a graph"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if flags != 0 {
		return 0, refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0", flags)
	}
	g, err := lookup[*graph](d, uintptr(gh), what, "graph")
	if err != nil {
		return 0, err
	}
	if g.ctx.dead {
		return 0, refuse(cu.ErrorContextIsDestroyed, what, "the context it was captured in")
	}
	_ = c
	g.users++
	x := &graphExec{ctx: g.ctx, graph: g}
	for _, n := range g.nodes {
		x.works = append(x.works, n.work)
	}
	return cu.GraphExec(d.newHandle(x)), nil
}

// GraphExecDestroy gives an executable graph up; a running launch goes on.
func (d *Driver) GraphExecDestroy(h cu.GraphExec) error {
	const what = "destroy an executable graph"
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	x, err := lookup[*graphExec](d, uintptr(h), what, "executable graph")
	if err != nil {
		return err
	}
	delete(d.handles, uintptr(h))
	x.graph.leave()
	return nil
}

// GraphLaunch runs an executable graph at this point of the stream. In a stream
// that captures it becomes a child graph.
func (d *Driver) GraphLaunch(h cu.Context, gx cu.GraphExec, stream cu.Stream) error {
	const what = "launch a graph"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Calls.Launch.Value
	x, err := lookup[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	switch {
	case x.ctx.dead:
		return refuse(cu.ErrorContextIsDestroyed, what, "the context it was captured in")
	case s.capture != nil:
		return s.record(&work{kind: cu.GraphNodeTypeGraph, what: what, child: x.snapshot()}, what)
	}
	if err := s.mayRun(what); err != nil {
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
	switch {
	case w.child != nil:
		first := d.submit(g.ctx, nil, &work{what: "begin of a child graph"}, deps)
		ends := w.child.submit(d, w.child.works(), first)
		return d.submit(g.ctx, nil, &work{what: "end of a child graph"}, append(ends, first))
	case w.event != nil && w.kind == cu.GraphNodeTypeWaitEvent:
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

// snapshot is a graph with the works that x has now.
func (x *graphExec) snapshot() *graph {
	g := &graph{ctx: x.ctx, users: 1}
	for i, n := range x.graph.nodes {
		var deps []*node
		for _, dep := range n.deps {
			deps = append(deps, g.nodes[dep.index])
		}
		g.add(x.works[i], deps)
	}
	return g
}

// GraphGetNodes is all nodes of a graph.
func (d *Driver) GraphGetNodes(h cu.Graph) ([]cu.GraphNode, error) {
	const what = "list the nodes of a graph"
	if err := d.begin(what); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	g, err := lookup[*graph](d, uintptr(h), what, "graph")
	if err != nil {
		return nil, err
	}
	out := make([]cu.GraphNode, 0, len(g.nodes))
	for _, n := range g.nodes {
		out = append(out, n.handle)
	}
	return out, nil
}

// GraphNodeGetType is the kind of a node.
func (d *Driver) GraphNodeGetType(h cu.GraphNode) (cu.GraphNodeType, error) {
	const what = "read the type of a node"
	if err := d.begin(what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	n, err := lookup[*node](d, uintptr(h), what, "graph node")
	if err != nil {
		return 0, err
	}
	return n.work.kind, nil
}

// GraphExecUpdate gives exec the parameters of a graph of the same shape.
func (d *Driver) GraphExecUpdate(h cu.Context, gx cu.GraphExec, gh cu.Graph) error {
	const what = "update an executable graph"
	if _, err := d.enter(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	x, err := lookup[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	g, err := lookup[*graph](d, uintptr(gh), what, "graph")
	if err != nil {
		return err
	}
	if err := x.graph.sameShape(g, what); err != nil {
		return err
	}
	x.works = g.works()
	return nil
}

// sameShape says where g and other differ in more than parameters.
func (g *graph) sameShape(other *graph, what string) error {
	if len(g.nodes) != len(other.nodes) {
		return refuse(cu.ErrorGraphExecUpdateFailure, what, "it has %d nodes, the new graph %d", len(g.nodes), len(other.nodes))
	}
	if len(g.owned) > 0 || len(other.owned) > 0 {
		return refuse(cu.ErrorGraphExecUpdateFailure, what, "graphs that allocate memory cannot be updated")
	}
	for i, n := range g.nodes {
		m := other.nodes[i]
		if n.work.kind != m.work.kind {
			return refuse(cu.ErrorGraphExecUpdateFailure, what, "node %d is of another type: %d, was %d", i, m.work.kind, n.work.kind)
		}
		same := slices.EqualFunc(n.deps, m.deps, func(a, b *node) bool { return a.index == b.index })
		if !same {
			return refuse(cu.ErrorGraphExecUpdateFailure, what, "node %d follows other nodes than before", i)
		}
		if l := n.work.launch; l != nil && l.fn.mod.ctx != m.work.launch.fn.mod.ctx {
			return refuse(cu.ErrorGraphExecUpdateFailure, what, "the kernel of node %d is of another context", i)
		}
		if n.work.child != nil {
			if err := n.work.child.sameShape(m.work.child, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// GraphExecKernelNodeSetParams changes one kernel of exec.
func (d *Driver) GraphExecKernelNodeSetParams(h cu.Context, gx cu.GraphExec, gn cu.GraphNode, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, params []byte) error {
	const what = "set the parameters of a kernel node"
	if _, err := d.enter(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	x, err := lookup[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	n, err := lookup[*node](d, uintptr(gn), what, "graph node")
	if err != nil {
		return err
	}
	fn, err := lookup[*function](d, uintptr(f), what, "function")
	switch {
	case err != nil:
		return err
	case n.graph != x.graph:
		return refuse(cu.ErrorInvalidValue, what, "the node is not of the graph that this was made from")
	case n.work.launch == nil:
		return refuse(cu.ErrorInvalidValue, what, "the node is no kernel")
	case fn.mod.ctx != x.ctx:
		return refuse(cu.ErrorInvalidValue, what, "the function belongs to another context")
	}
	w, err := fn.work(grid, block, sharedMemBytes, params)
	if err != nil {
		return err
	}
	x.works[n.index] = w
	return nil
}
