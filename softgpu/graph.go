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
}

// GraphDestroy gives a graph up.
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
	g, err := lookupGraph[*graph](d, uintptr(gh), what, "graph")
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
	x, err := lookupGraph[*graphExec](d, uintptr(h), what, "executable graph")
	if err != nil {
		return err
	}
	delete(d.handles, uintptr(h))
	x.graph.leave()
	return nil
}

// GraphGetNodes is all nodes of a graph.
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

// GraphNodeGetType is the kind of a node.
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

// GraphExecUpdate gives exec the parameters of a graph of the same shape.
func (d *Driver) GraphExecUpdate(h cu.Context, gx cu.GraphExec, gh cu.Graph) error {
	const what = "update an executable graph"
	if _, err := d.enter(h, what); err != nil {
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
