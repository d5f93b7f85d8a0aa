package entry

import (
	"errors"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// builtGraph is a CUgraph that the program builds node by node. A cu.Driver makes graphs by captures
// alone. So a built graph is recorded where it is instantiated: each node in a stream of its own,
// which waits for events of the nodes that it depends on.
type builtGraph struct {
	handle uint64
	nodes  []*builtNode // in the order of their making
	child  bool         // it is the graph of a node, which owns it
}

// builtNode is a CUgraphNode of such a graph.
type builtNode struct {
	handle  uint64
	graph   *builtGraph
	op      graphOp
	deps    []*builtNode
	cloneOf uint64 // the handle of the node that it was copied from; no handle is used twice
}

// graphOp is what a node does.
type graphOp interface {
	kind() cu.GraphNodeType
	// context is that of the node; 0 is the current one.
	context() cu.Context
	// queue queues the operation on a stream that captures.
	queue(d cu.Driver, ctx cu.Context, s cu.Stream) error
	// clone returns a copy that shares nothing that can change.
	clone() graphOp
	// end frees what the program got of the operation.
	end()
}

// building guards all built graphs. The manual leaves it to the program to keep threads off a graph.
var building sync.Mutex

// execs has, for executable graphs, the captures that they were made from.
var execs = map[cu.GraphExec]*builtExec{} // guarded by building

type builtExec struct {
	recorded *recording
	kinds    []cu.GraphNodeType // of the built graph, in the order of its nodes
}

func newBuiltGraph() *builtGraph {
	g := new(builtGraph)
	g.handle = ownHandle(g)
	return g
}

// builtGraphOf returns a built graph, or false for a handle of the driver.
func builtGraphOf(handle uint64) (*builtGraph, bool, error) {
	if handle != 0 && handle < firstOwn {
		return nil, false, nil
	}
	g, err := find[*builtGraph](handle)
	if err != nil {
		return nil, true, cu.ErrorInvalidValue
	}
	return g, true, nil
}

// mustBuild returns a built graph. Graphs from captures cannot grow.
func mustBuild(handle uint64) (*builtGraph, error) {
	g, built, err := builtGraphOf(handle)
	if err == nil && !built {
		return nil, cu.ErrorNotSupported
	}
	return g, err
}

func nodeOf(handle uint64) (*builtNode, error) {
	if handle != 0 && handle < firstOwn {
		return nil, cu.ErrorNotSupported // a node of a captured graph
	}
	n, err := find[*builtNode](handle)
	if err != nil {
		return nil, cu.ErrorInvalidValue
	}
	return n, nil
}

// nodesOf returns the nodes of a list, which must be different ones of g.
func (g *builtGraph) nodesOf(handles []uint64) ([]*builtNode, error) {
	var list []*builtNode
	for _, h := range handles {
		n, err := nodeOf(h)
		if err != nil {
			return nil, err
		}
		if n.graph != g || slices.Contains(list, n) {
			return nil, cu.ErrorInvalidValue
		}
		list = append(list, n)
	}
	return list, nil
}

func (g *builtGraph) add(op graphOp, deps []*builtNode) *builtNode {
	n := &builtNode{graph: g, op: op, deps: deps}
	n.handle = ownHandle(n)
	g.nodes = append(g.nodes, n)
	return n
}

// destroy makes the handles of a node and its edges invalid.
func (n *builtNode) destroy() {
	own.byHandle.Delete(n.handle)
	n.op.end()
	n.graph.nodes = slices.DeleteFunc(n.graph.nodes, func(x *builtNode) bool { return x == n })
	for _, x := range n.graph.nodes {
		x.deps = slices.DeleteFunc(x.deps, func(y *builtNode) bool { return y == n })
	}
}

func (g *builtGraph) destroy() {
	own.byHandle.Delete(g.handle)
	for _, n := range g.nodes {
		own.byHandle.Delete(n.handle)
		n.op.end()
	}
	g.nodes = nil
}

// clone copies a graph and its nodes.
func (g *builtGraph) clone() *builtGraph {
	c, twin := newBuiltGraph(), map[*builtNode]*builtNode{}
	for _, n := range g.nodes {
		twin[n] = c.add(n.op.clone(), nil)
		twin[n].cloneOf = n.handle
	}
	for _, n := range g.nodes {
		for _, dep := range n.deps {
			twin[n].deps = append(twin[n].deps, twin[dep])
		}
	}
	return c
}

// edge is a dependency: to follows from.
type edge struct{ from, to *builtNode }

// edges returns the edges in the order of the nodes that they begin at.
func (g *builtGraph) edges() (list []edge) {
	for _, from := range g.nodes {
		for _, to := range g.nodes {
			if slices.Contains(to.deps, from) {
				list = append(list, edge{from, to})
			}
		}
	}
	return list
}

// sorted returns the nodes in an order in which each follows its dependencies. A cycle has none.
func (g *builtGraph) sorted() ([]*builtNode, error) {
	var list []*builtNode
	done := map[*builtNode]bool{}
	for len(list) < len(g.nodes) {
		before := len(list)
		for _, n := range g.nodes {
			if !done[n] && !slices.ContainsFunc(n.deps, func(dep *builtNode) bool { return !done[dep] }) {
				done[n] = true
				list = append(list, n)
			}
		}
		if len(list) == before {
			return nil, cu.ErrorInvalidValue
		}
	}
	return list, nil
}

func (g *builtGraph) kinds() (list []cu.GraphNodeType) {
	for _, n := range g.nodes {
		list = append(list, n.op.kind())
	}
	return list
}

// try checks an operation by a capture of it alone.
func try(d cu.Driver, ctx cu.Context, op graphOp) error {
	if own := op.context(); own != 0 {
		ctx = own // its stream takes no work of another context
	}
	r := &recording{d: d, ctx: ctx}
	err := r.capture(func() error { return op.queue(d, r.of(op), r.origin) })
	return errors.Join(err, r.destroy())
}
