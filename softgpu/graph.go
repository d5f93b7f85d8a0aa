package softgpu

import (
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// graph is recorded work. Its nodes are in an order in which each node follows
// only earlier ones.
type graph struct {
	ctx    *contextState
	handle cu.Graph
	nodes  []*node
	owned  []*region // allocated by nodes of the graph
	frees  []*region // freed by nodes of the graph
	refs   int       // the handle and the executable graphs
	execs  int       // executable graphs
	last   *op       // end of the last launch
}

// node is one operation of a graph.
type node struct {
	handle cu.GraphNode
	graph  *graph
	index  int
	work   *work
	deps   []*node
}

// graphExec is an executable graph.
type graphExec struct {
	ctx   *contextState
	graph *graph // it was made from this graph, whose handle may be destroyed
	works []*work
	last  *op // end of the last launch, which the next launch follows

	autoFree bool // a launch first frees what the last one allocated
}

func (d *Driver) newGraph(c *contextState) *graph { return &graph{ctx: c, refs: 1} }

func (g *graph) add(w *work, deps []*node) *node {
	n := &node{graph: g, index: len(g.nodes), work: w, deps: slices.Clone(deps)}
	g.nodes = append(g.nodes, n)
	return n
}

// release drops a reference. The last one frees the memory that the graph
// allocated.
func (g *graph) release() {
	g.refs--
	if g.refs > 0 {
		return
	}
	g.dropMemory()
}

// GraphDestroy destroys a graph. Executable graphs made from it stay valid.
func (d *Driver) GraphDestroy(h cu.Graph) error {
	const what = "destroy a graph"
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	g, err := lookupGraph[*graph](d, uintptr(h), what, "graph")
	if err != nil {
		return err
	}
	delete(d.handles, uintptr(h))
	for _, n := range g.nodes {
		delete(d.handles, uintptr(n.handle))
	}
	g.release()
	return nil
}

// GraphInstantiate makes a graph executable.
func (d *Driver) GraphInstantiate(h cu.Context, gh cu.Graph, flags uint64) (cu.GraphExec, error) {
	if err := d.since("cuGraphInstantiateWithFlags", 11040); err != nil {
		return 0, err
	}
	const what = "instantiate a graph"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if flags&^cu.GraphInstantiateAutoFreeOnLaunch != 0 {
		return 0, refuse(cu.ErrorInvalidValue, what, "flags are %#x, must be 0 or GraphInstantiateAutoFreeOnLaunch (%#x)", flags, cu.GraphInstantiateAutoFreeOnLaunch)
	}
	g, err := lookupGraph[*graph](d, uintptr(gh), what, "graph")
	if err != nil {
		return 0, err
	}
	if g.ctx.dead {
		return 0, refuse(cu.ErrorContextIsDestroyed, what, "the context of its capture was destroyed")
	}
	_ = c
	if err := g.mayInstantiate(what); err != nil {
		return 0, err
	}
	g.refs++
	g.execs++
	x := &graphExec{ctx: g.ctx, graph: g, autoFree: flags&cu.GraphInstantiateAutoFreeOnLaunch != 0}
	for _, n := range g.nodes {
		x.works = append(x.works, n.work)
	}
	return cu.GraphExec(d.newHandle(x)), nil
}

// GraphExecDestroy destroys an executable graph. A running launch goes on.
func (d *Driver) GraphExecDestroy(h cu.GraphExec) error {
	const what = "destroy an executable graph"
	if err := d.begin(what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	x, err := lookupGraph[*graphExec](d, uintptr(h), what, "executable graph")
	if err != nil {
		return err
	}
	delete(d.handles, uintptr(h))
	x.graph.execs--
	x.graph.release()
	return nil
}

// GraphGetNodes returns all nodes of a graph.
func (d *Driver) GraphGetNodes(h cu.Graph) ([]cu.GraphNode, error) {
	const what = "list the nodes of a graph"
	if err := d.begin(what); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	g, err := lookupGraph[*graph](d, uintptr(h), what, "graph")
	if err != nil {
		return nil, err
	}
	out := make([]cu.GraphNode, 0, len(g.nodes))
	for _, n := range g.nodes {
		out = append(out, n.handle)
	}
	return out, nil
}

// GraphNodeGetType returns the type of a node.
func (d *Driver) GraphNodeGetType(h cu.GraphNode) (cu.GraphNodeType, error) {
	const what = "read the type of a node"
	if err := d.begin(what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	n, err := lookupGraph[*node](d, uintptr(h), what, "graph node")
	if err != nil {
		return 0, err
	}
	return n.work.kind, nil
}

// GraphExecUpdate gives an executable graph the parameters of a graph with the
// same nodes and dependencies.
func (d *Driver) GraphExecUpdate(h cu.Context, gx cu.GraphExec, gh cu.Graph) error {
	if err := d.since("cuGraphExecUpdate", 12000); err != nil {
		return err
	}
	const what = "update an executable graph"
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	x, err := lookupGraph[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	g, err := lookupGraph[*graph](d, uintptr(gh), what, "graph")
	if err != nil {
		return err
	}
	if x.graph.ctx != g.ctx {
		return refuse(cu.ErrorGraphExecUpdateFailure, what, "the new graph was made in another context")
	}
	if err := x.graph.sameShape(g, what); err != nil {
		return err
	}
	x.works = g.works()
	return nil
}

// sameShape fails if g and other differ in more than parameters.
func (g *graph) sameShape(other *graph, what string) error {
	if len(g.nodes) != len(other.nodes) {
		return refuse(cu.ErrorGraphExecUpdateFailure, what, "it has %d nodes, the new graph has %d", len(g.nodes), len(other.nodes))
	}
	if g.hasMemory() || other.hasMemory() {
		return refuse(cu.ErrorGraphExecUpdateFailure, what, "graphs that allocate or free memory cannot be updated")
	}
	for i, n := range g.nodes {
		m := other.nodes[i]
		if n.work.kind != m.work.kind {
			return refuse(cu.ErrorGraphExecUpdateFailure, what, "node %d has type %d, was %d", i, m.work.kind, n.work.kind)
		}
		same := slices.EqualFunc(n.deps, m.deps, func(a, b *node) bool { return a.index == b.index })
		if !same {
			return refuse(cu.ErrorGraphExecUpdateFailure, what, "node %d has other dependencies", i)
		}
		if l := n.work.launch; l != nil && l.fn.mod.ctx != m.work.launch.fn.mod.ctx {
			return refuse(cu.ErrorGraphExecUpdateFailure, what, "the kernel of node %d belongs to another context", i)
		}
	}
	return nil
}

// GraphExecKernelNodeSetParams changes one kernel of an executable graph.
func (d *Driver) GraphExecKernelNodeSetParams(h cu.Context, gx cu.GraphExec, gn cu.GraphNode, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, params []byte) error {
	if err := d.since("cuGraphExecKernelNodeSetParams", 12000); err != nil {
		return err
	}
	const what = "set the parameters of a kernel node"
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	x, err := lookupGraph[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	n, err := lookupGraph[*node](d, uintptr(gn), what, "graph node")
	if err != nil {
		return err
	}
	fn, err := lookup[*function](d, uintptr(f), what, "function")
	switch {
	case err != nil:
		return err
	case n.graph != x.graph:
		return refuse(cu.ErrorInvalidValue, what, "the node belongs to another graph")
	case n.work.launch == nil:
		return refuse(cu.ErrorInvalidValue, what, "the node is not a kernel node")
	case fn.mod.ctx != x.ctx:
		return refuse(cu.ErrorInvalidValue, what, "the function belongs to another context")
	}
	w, err := fn.work(grid, block, sharedMemBytes, params)
	if err != nil {
		return err
	}
	before := x.works[n.index].launch // its attributes stay
	if before.cooperative {
		if err := w.launch.cooperate(); err != nil {
			return err
		}
	}
	if before.cluster.Count() > 0 {
		if err := w.launch.setCluster(before.cluster, what); err != nil {
			return err
		}
	}
	w.site = x.works[n.index].site
	x.works[n.index] = w
	return nil
}

// GraphLaunch launches an executable graph in stream order. It cannot be
// captured.
func (d *Driver) GraphLaunch(h cu.Context, gx cu.GraphExec, stream cu.Stream) error {
	const what = "launch a graph"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(orElse(d.prof.Calls.GraphLaunch, d.prof.Calls.Launch))
	x, err := lookupGraph[*graphExec](d, uintptr(gx), what, "executable graph")
	if err != nil {
		return err
	}
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if x.ctx.dead {
		return refuse(cu.ErrorContextIsDestroyed, what, "the context of its capture was destroyed")
	}
	if err := s.mustNotCapture(what); err != nil {
		return err
	}
	freed, err := x.hold(s, what)
	if err != nil {
		return err
	}
	first := d.submit(s.ctx, s, &work{what: what}, append(append(s.before(), x.last), freed...))
	s.last = d.join(s, x.graph.submit(d, x.works, first), first)
	x.last, x.graph.last = s.last, s.last
	return nil
}

// join queues a mark that follows all of ends, or first if there are none.
func (d *Driver) join(s *streamState, ends []*op, first *op) *op {
	if len(ends) == 0 {
		ends = []*op{first}
	}
	return d.submit(s.ctx, s, &work{what: "end of a graph"}, ends)
}

// submit queues the nodes of g after first, and returns the ops that no other
// node follows.
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
	e := w.event
	switch {
	case e == nil:
		return d.submit(g.ctx, nil, w, deps)
	case w.kind != cu.GraphNodeTypeWaitEvent:
		return g.submitRecord(d, w, deps)
	}
	if n, foreign := e.foreign(); foreign {
		return d.submit(g.ctx, nil, e.file.work(n, w.what), deps)
	}
	return d.submit(g.ctx, nil, w, append(deps, e.recorded))
}

// submitRecord queues a node that records an event.
func (g *graph) submitRecord(d *Driver, w *work, deps []*op) *op {
	e := w.event
	n, done := e.file.record()
	if done != nil {
		counted := *w
		counted.done, w = done, &counted
	}
	o := d.submit(g.ctx, nil, w, deps)
	e.recorded, e.recordedAs, e.capture, e.captureDeps = o, n, nil, nil
	return o
}

func (g *graph) works() []*work {
	var all []*work
	for _, n := range g.nodes {
		all = append(all, n.work)
	}
	return all
}
