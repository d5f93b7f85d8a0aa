package entry

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Lists of nodes and reasons of failures are memory of the program, used during the call alone.

//c:call cuGraphCreate (*ptr graph, u32 flags)
func graphCreate(_ cu.Driver, f *Frame) error {
	if f.In[0] != 0 {
		return cu.ErrorInvalidValue
	}
	f.Out[0] = newBuiltGraph().handle
	return nil
}

//c:call cuGraphDestroy (ptr graph)
func graphDestroy(d cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	g, built, err := builtGraphOf(f.In[0])
	switch {
	case err != nil:
		return err
	case !built:
		return d.GraphDestroy(cu.Graph(f.In[0]))
	case g.child:
		return cu.ErrorInvalidValue // its node destroys it
	}
	g.destroy()
	return nil
}

//c:call cuGraphClone (*ptr clone, ptr graph)
func graphClone(_ cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	g, err := mustBuild(f.In[0])
	if err != nil {
		return err
	}
	f.Out[0] = g.clone().handle
	return nil
}

//c:call cuGraphNodeFindInClone (*ptr node, ptr original, ptr clone)
func graphNodeFindInClone(_ cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	n, err := nodeOf(f.In[0])
	if err != nil {
		return err
	}
	g, err := mustBuild(f.In[1])
	if err != nil {
		return err
	}
	for _, x := range g.nodes {
		if x.cloneOf == n.handle {
			f.Out[0] = x.handle
			return nil
		}
	}
	return cu.ErrorInvalidValue
}

// giveHandles writes handles to the program: as many as count says that there is room for, then zeros.
// Without a list it gives their number.
func giveHandles(lists []unsafe.Pointer, count *uint64, handles ...[]uint64) error {
	total := uint64(len(handles[0]))
	if count == nil {
		return cu.ErrorInvalidValue
	}
	if lists[0] == nil && !slices.ContainsFunc(lists, func(p unsafe.Pointer) bool { return p != nil }) {
		*count = total
		return nil
	}
	for i, p := range lists {
		to := list[uint64](p, *count)
		if len(to) == 0 {
			return cu.ErrorInvalidValue
		}
		clear(to[copy(to, handles[i]):])
	}
	*count = min(*count, total)
	return nil
}

func handlesOf(nodes []*builtNode) (list []uint64) {
	for _, n := range nodes {
		list = append(list, n.handle)
	}
	return list
}

//c:call cuGraphGetNodes (ptr graph, ptr nodes, ptr count)
func graphGetNodes(d cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	g, built, err := builtGraphOf(f.In[0])
	if err != nil {
		return err
	}
	var handles []uint64
	if built {
		handles = handlesOf(g.nodes)
	} else {
		nodes, err := d.GraphGetNodes(cu.Graph(f.In[0]))
		if err != nil {
			return err
		}
		for _, n := range nodes {
			handles = append(handles, uint64(n))
		}
	}
	return giveHandles([]unsafe.Pointer{f.pointer(1)}, (*uint64)(f.pointer(2)), handles)
}

//c:call cuGraphGetRootNodes (ptr graph, ptr nodes, ptr count)
func graphGetRootNodes(_ cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	g, err := mustBuild(f.In[0])
	if err != nil {
		return err
	}
	var roots []*builtNode
	for _, n := range g.nodes {
		if len(n.deps) == 0 {
			roots = append(roots, n)
		}
	}
	return giveHandles([]unsafe.Pointer{f.pointer(1)}, (*uint64)(f.pointer(2)), handlesOf(roots))
}

// graphEdges gives the edges of a graph. Their data, for which there is room at data, is zero.
func graphEdges(f *Frame, data unsafe.Pointer, count int) error {
	building.Lock()
	defer building.Unlock()
	g, err := mustBuild(f.In[0])
	if err != nil {
		return err
	}
	var from, to []uint64
	for _, e := range g.edges() {
		from, to = append(from, e.from.handle), append(to, e.to.handle)
	}
	n := (*uint64)(f.pointer(count))
	if err := giveHandles([]unsafe.Pointer{f.pointer(1), f.pointer(2)}, n, from, to); err != nil {
		return err
	}
	clear(list[uint64](data, *n)) // CUgraphEdgeData has 8 bytes
	return nil
}

//c:call cuGraphGetEdges (ptr graph, ptr from, ptr to, ptr count)
func graphGetEdges(_ cu.Driver, f *Frame) error { return graphEdges(f, nil, 3) }

//c:call cuGraphGetEdges_v2 (ptr graph, ptr from, ptr to, ptr data, ptr count)
func graphGetEdgesData(_ cu.Driver, f *Frame) error { return graphEdges(f, f.pointer(3), 4) }

// neighbours gives the nodes before or behind a node.
func neighbours(f *Frame, data unsafe.Pointer, count int, behind bool) error {
	building.Lock()
	defer building.Unlock()
	n, err := nodeOf(f.In[0])
	if err != nil {
		return err
	}
	nodes := n.deps
	if behind {
		nodes = nil
		for _, x := range n.graph.nodes {
			if slices.Contains(x.deps, n) {
				nodes = append(nodes, x)
			}
		}
	}
	room := (*uint64)(f.pointer(count))
	if err := giveHandles([]unsafe.Pointer{f.pointer(1)}, room, handlesOf(nodes)); err != nil {
		return err
	}
	clear(list[uint64](data, *room))
	return nil
}

//c:call cuGraphNodeGetDependencies (ptr node, ptr nodes, ptr count)
func graphDependencies(_ cu.Driver, f *Frame) error { return neighbours(f, nil, 2, false) }

//c:call cuGraphNodeGetDependencies_v2 (ptr node, ptr nodes, ptr data, ptr count)
func graphDependenciesData(_ cu.Driver, f *Frame) error { return neighbours(f, f.pointer(2), 3, false) }

//c:call cuGraphNodeGetDependentNodes (ptr node, ptr nodes, ptr count)
func graphDependents(_ cu.Driver, f *Frame) error { return neighbours(f, nil, 2, true) }

//c:call cuGraphNodeGetDependentNodes_v2 (ptr node, ptr nodes, ptr data, ptr count)
func graphDependentsData(_ cu.Driver, f *Frame) error { return neighbours(f, f.pointer(2), 3, true) }

// changeEdges adds or removes edges. A wrong node in the list changes nothing. An edge that is there already,
// or not there, ends the change: those before it in the list are made. data is nil, or the address of their
// data, which must be zero: the software GPU has no other dependencies.
func changeEdges(f *Frame, data unsafe.Pointer, count uint64, change func(e edge) error) error {
	building.Lock()
	defer building.Unlock()
	g, err := mustBuild(f.In[0])
	if err != nil || count == 0 {
		return err
	}
	from, to := list[uint64](f.pointer(1), count), list[uint64](f.pointer(2), count)
	if from == nil || to == nil {
		return cu.ErrorInvalidValue
	}
	for _, x := range list[uint64](data, count) {
		if x != 0 {
			return cu.ErrorInvalidValue
		}
	}
	var all []edge
	for i := range from {
		nodes, err := g.nodesOf([]uint64{from[i], to[i]}) // two different ones
		if err != nil {
			return err
		}
		all = append(all, edge{nodes[0], nodes[1]})
	}
	for _, e := range all {
		if err := change(e); err != nil {
			return err
		}
	}
	return nil
}

func addEdge(e edge) error {
	if slices.Contains(e.to.deps, e.from) {
		return cu.ErrorInvalidValue
	}
	e.to.deps = append(e.to.deps, e.from)
	return nil
}

func removeEdge(e edge) error {
	i := slices.Index(e.to.deps, e.from)
	if i < 0 {
		return cu.ErrorInvalidValue
	}
	e.to.deps = slices.Delete(e.to.deps, i, i+1)
	return nil
}

//c:call cuGraphAddDependencies (ptr graph, ptr from, ptr to, size count)
func graphAddDependencies(_ cu.Driver, f *Frame) error { return changeEdges(f, nil, f.In[3], addEdge) }

//c:call cuGraphAddDependencies_v2 (ptr graph, ptr from, ptr to, ptr data, size count)
func graphAddDependenciesData(_ cu.Driver, f *Frame) error {
	return changeEdges(f, f.pointer(3), f.In[4], addEdge)
}

//c:call cuGraphRemoveDependencies (ptr graph, ptr from, ptr to, size count)
func graphRemoveDependencies(_ cu.Driver, f *Frame) error {
	return changeEdges(f, nil, f.In[3], removeEdge)
}

//c:call cuGraphRemoveDependencies_v2 (ptr graph, ptr from, ptr to, ptr data, size count)
func graphRemoveDependenciesData(_ cu.Driver, f *Frame) error {
	return changeEdges(f, f.pointer(3), f.In[4], removeEdge)
}

// instantiate makes a graph executable.
func instantiate(d cu.Driver, f *Frame, graph, flags uint64) (cu.GraphExec, error) {
	building.Lock()
	defer building.Unlock()
	g, built, err := builtGraphOf(graph)
	switch {
	case err != nil:
		return 0, err
	case !built:
		return d.GraphInstantiate(cu.Context(f.Ctx), cu.Graph(graph), flags)
	case g.child:
		return 0, cu.ErrorNotSupported
	}
	r, err := record(d, cu.Context(f.Ctx), g)
	if err != nil {
		return 0, err
	}
	exec, err := d.GraphInstantiate(cu.Context(f.Ctx), r.graph, flags)
	if err != nil {
		return 0, errors.Join(err, r.destroy())
	}
	execs[exec] = &builtExec{r, g.kinds()}
	return exec, nil
}

//c:call cuGraphInstantiateWithFlags (*ptr exec, ptr graph, u64 flags)
func graphInstantiate(d cu.Driver, f *Frame) error {
	exec, err := instantiate(d, f, f.In[0], f.In[1])
	f.Out[0] = uint64(exec)
	return err
}

//c:call cuGraphInstantiateWithParams (*ptr exec, ptr graph, ptr params)
func graphInstantiateWithParams(d cu.Driver, f *Frame) error {
	p := (*struct {
		flags  uint64
		upload cu.Stream
		node   cu.GraphNode
		result uint32
	})(f.pointer(1))
	if p == nil {
		return cu.ErrorInvalidValue
	}
	exec, err := instantiate(d, f, f.In[0], p.flags)
	f.Out[0] = uint64(exec)
	p.node, p.result = 0, 0
	if err != nil {
		p.result = updateFailed
	}
	return err
}

//c:call cuGraphExecDestroy (ptr exec)
func graphExecDestroy(d cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	exec := cu.GraphExec(f.In[0])
	err := d.GraphExecDestroy(exec)
	if x := execs[exec]; x != nil && err == nil {
		delete(execs, exec)
		err = x.recorded.destroy()
	}
	return err
}

// Reasons why an update fails (CUgraphExecUpdateResult). Of graphs that were captured the driver's
// error says the reason only as text.
const (
	updateFailed     = 1
	updateTopology   = 2
	updateOtherTypes = 3
)

// updateInfo is CUgraphExecUpdateResultInfo.
type updateInfo struct {
	result uint32
	_      uint32
	node   uint64
	from   uint64
}

//c:call cuGraphExecUpdate_v2 (ptr exec, ptr graph, ptr info)
func graphExecUpdate(d cu.Driver, f *Frame) error {
	info := (*updateInfo)(f.pointer(2))
	if info == nil {
		return cu.ErrorInvalidValue
	}
	building.Lock()
	defer building.Unlock()
	*info = updateInfo{}
	err := update(d, f, info)
	if err != nil && info.result == 0 {
		info.result = updateFailed
	}
	return err
}

// update gives an executable graph the parameters of another graph.
func update(d cu.Driver, f *Frame, info *updateInfo) error {
	ctx, exec := cu.Context(f.Ctx), cu.GraphExec(f.In[0])
	g, built, err := builtGraphOf(f.In[1])
	switch {
	case err != nil:
		return err
	case !built:
		return d.GraphExecUpdate(ctx, exec, cu.Graph(f.In[1]))
	}
	if x := execs[exec]; x != nil {
		if err := x.same(g, info); err != nil {
			return err
		}
	}
	r, err := record(d, ctx, g)
	if err != nil {
		return err
	}
	return errors.Join(d.GraphExecUpdate(ctx, exec, r.graph), r.destroy())
}

// same reports a graph with other nodes than the executable graph.
func (x *builtExec) same(g *builtGraph, info *updateInfo) error {
	if len(g.nodes) != len(x.kinds) {
		info.result = updateTopology
		return cu.ErrorGraphExecUpdateFailure
	}
	for i, n := range g.nodes {
		if n.op.kind() != x.kinds[i] {
			info.result, info.node = updateOtherTypes, n.handle
			return cu.ErrorGraphExecUpdateFailure
		}
	}
	return nil
}
