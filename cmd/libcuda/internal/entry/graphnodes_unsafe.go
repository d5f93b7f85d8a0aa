package entry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Parameters of nodes are copies on the stack of the stub, or memory of the program that gets them.

// kernelNode is CUDA_KERNEL_NODE_PARAMS_v2. The first form ends before kernel.
type kernelNode struct {
	fn          cu.Function
	grid, block cu.Dim3
	shared      uint32
	params      unsafe.Pointer
	extra       unsafe.Pointer
	kernel      cu.Function
	ctx         cu.Context
}

const kernelNodeBytes = unsafe.Offsetof(kernelNode{}.kernel) // of the first form

// kernelNodeOf reads an argument of either form.
func (f *Frame) kernelNodeOf(i int, second bool) *kernelNode {
	k := (*kernelNode)(f.pointer(i))
	makeLegal(&k.params)
	makeLegal(&k.extra)
	if second {
		return k
	}
	k = new(kernelNode)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(k)), kernelNodeBytes), unsafe.Slice((*byte)(f.pointer(i)), kernelNodeBytes))
	return k
}

// addNode makes a node. The graph and the dependencies are the first three arguments.
func addNode(d cu.Driver, f *Frame, make func() (graphOp, error)) error {
	building.Lock()
	defer building.Unlock()
	g, err := mustBuild(f.In[0])
	if err != nil {
		return err
	}
	handles := list[uint64](f.pointer(1), f.In[2])
	if handles == nil && f.In[2] > 0 {
		return cu.ErrorInvalidValue
	}
	deps, err := g.nodesOf(handles)
	if err != nil {
		return err
	}
	op, err := make()
	if err != nil {
		return err
	}
	if err := f.check(d, op); err != nil {
		if e, ok := op.(*eventOp); !ok || !e.inAnother(f, d) {
			return err
		}
	}
	f.Out[0] = g.add(op, deps).handle
	return nil
}

// inAnother looks for the context of an event that is not of the current one, and reports whether there is one.
func (op *eventOp) inAnother(f *Frame, d cu.Driver) (found bool) {
	contexts.Range(func(ctx, _ any) bool {
		op.ctx = ctx.(cu.Context)
		found = f.check(d, op) == nil
		return !found
	})
	return found
}

// check checks what an operation does by a capture, where there is anything to check.
func (f *Frame) check(d cu.Driver, op graphOp) error {
	switch op.kind() {
	case cu.GraphNodeTypeEmpty, cu.GraphNodeTypeGraph:
		return nil
	}
	return try(d, cu.Context(f.Ctx), op)
}

func addKernel(d cu.Driver, f *Frame, second bool) error {
	return addNode(d, f, func() (graphOp, error) {
		return newKernelOp(d, cu.Context(f.Ctx), f.kernelNodeOf(3, second))
	})
}

//c:call cuGraphAddKernelNode (*ptr node, ptr graph, ptr deps, size count, [56] params)
func graphAddKernelNode(d cu.Driver, f *Frame) error { return addKernel(d, f, false) }

//c:call cuGraphAddKernelNode_v2 (*ptr node, ptr graph, ptr deps, size count, [72] params)
func graphAddKernelNode2(d cu.Driver, f *Frame) error { return addKernel(d, f, true) }

//c:call cuGraphAddMemsetNode (*ptr node, ptr graph, ptr deps, size count, [40] params, ptr ctx)
func graphAddMemsetNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) {
		return &memsetOp{*(*memsetNode)(f.pointer(3)), f.of(4)}, nil
	})
}

//c:call cuGraphAddMemcpyNode (*ptr node, ptr graph, ptr deps, size count, [200] params, ptr ctx)
func graphAddMemcpyNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) {
		return &memcpyOp{*f.box(3), f.of(4)}, nil
	})
}

//c:call cuGraphAddHostNode (*ptr node, ptr graph, ptr deps, size count, [16] params)
func graphAddHostNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) { return &hostOp{*(*hostNode)(f.pointer(3))}, nil })
}

//c:call cuGraphAddEmptyNode (*ptr node, ptr graph, ptr deps, size count)
func graphAddEmptyNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) { return new(emptyOp), nil })
}

//c:call cuGraphAddEventRecordNode (*ptr node, ptr graph, ptr deps, size count, ptr event)
func graphAddEventRecordNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) { return &eventOp{cu.Event(f.In[3]), false, cu.Context(f.Ctx)}, nil })
}

//c:call cuGraphAddEventWaitNode (*ptr node, ptr graph, ptr deps, size count, ptr event)
func graphAddEventWaitNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) { return &eventOp{cu.Event(f.In[3]), true, cu.Context(f.Ctx)}, nil })
}

//c:call cuGraphAddChildGraphNode (*ptr node, ptr graph, ptr deps, size count, ptr child)
func graphAddChildGraphNode(d cu.Driver, f *Frame) error {
	return addNode(d, f, func() (graphOp, error) {
		child, err := mustBuild(f.In[3])
		if err != nil {
			return nil, err
		}
		return newChildOp(child), nil
	})
}

//c:call cuGraphDestroyNode (ptr node)
func graphDestroyNode(_ cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	n, err := nodeOf(f.In[0])
	if err == nil {
		n.destroy()
	}
	return err
}

//c:call cuGraphNodeGetType (ptr node, *u32 kind)
func graphNodeGetType(d cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	n, err := nodeOf(f.In[0])
	switch {
	case err == cu.ErrorNotSupported: // a node of the driver's
		kind, err := d.GraphNodeGetType(cu.GraphNode(f.In[0]))
		f.Out[0] = uint64(kind)
		return err
	case err != nil:
		return err
	}
	f.Out[0] = uint64(n.op.kind())
	return nil
}

// opOf returns the operation of a node, which must be one of type T.
func opOf[T graphOp](handle uint64) (*builtNode, T, error) {
	n, err := nodeOf(handle)
	var op T
	if err != nil {
		return nil, op, err
	}
	op, ok := n.op.(T)
	if !ok {
		return nil, op, cu.ErrorInvalidValue
	}
	return n, op, nil
}

// getParams gives the program the parameters of a node with an operation of type T.
func getParams[T graphOp](f *Frame, give func(op T, to unsafe.Pointer)) error {
	building.Lock()
	defer building.Unlock()
	_, op, err := opOf[T](f.In[0])
	if err == nil && isNull(f.pointer(1)) {
		err = cu.ErrorInvalidValue
	}
	if err == nil {
		give(op, f.pointer(1))
	}
	return err
}

// setParams gives such a node another operation.
func setParams[T graphOp](d cu.Driver, f *Frame, make func(old T) (graphOp, error)) error {
	building.Lock()
	defer building.Unlock()
	n, old, err := opOf[T](f.In[0])
	if err != nil {
		return err
	}
	op, err := make(old)
	if err != nil {
		return err
	}
	if err := f.check(d, op); err != nil {
		return err
	}
	old.end()
	n.op = op
	return nil
}

//c:call cuGraphKernelNodeGetParams (ptr node, ptr params)
func graphKernelNodeGetParams(_ cu.Driver, f *Frame) error {
	return getParams(f, func(op *kernelOp, to unsafe.Pointer) {
		k := new(kernelNode)
		if op.give(k); k.fn == 0 {
			k.fn = op.fn // this form has no field for a kernel of a library
		}
		copy(unsafe.Slice((*byte)(to), kernelNodeBytes), unsafe.Slice((*byte)(unsafe.Pointer(k)), kernelNodeBytes))
	})
}

// giveBytes copies a struct to memory of C as bytes: a store of pointers reads what was there before,
// and Go takes it for pointers.
func giveBytes[T any](to unsafe.Pointer, v *T) {
	n := unsafe.Sizeof(*v)
	copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(unsafe.Pointer(v)), n))
}

//c:call cuGraphKernelNodeGetParams_v2 (ptr node, ptr params)
func graphKernelNodeGetParams2(_ cu.Driver, f *Frame) error {
	return getParams(f, func(op *kernelOp, to unsafe.Pointer) {
		k := new(kernelNode)
		op.give(k)
		giveBytes(to, k)
	})
}

func setKernelNode(d cu.Driver, f *Frame, second bool) error {
	return setParams(d, f, func(*kernelOp) (graphOp, error) {
		return newKernelOp(d, cu.Context(f.Ctx), f.kernelNodeOf(1, second))
	})
}

//c:call cuGraphKernelNodeSetParams (ptr node, [56] params)
func graphKernelNodeSetParams(d cu.Driver, f *Frame) error { return setKernelNode(d, f, false) }

//c:call cuGraphKernelNodeSetParams_v2 (ptr node, [72] params)
func graphKernelNodeSetParams2(d cu.Driver, f *Frame) error { return setKernelNode(d, f, true) }

//c:call cuGraphMemsetNodeGetParams (ptr node, ptr params)
func graphMemsetNodeGetParams(_ cu.Driver, f *Frame) error {
	return getParams(f, func(op *memsetOp, to unsafe.Pointer) { *(*memsetNode)(to) = op.params })
}

//c:call cuGraphMemsetNodeSetParams (ptr node, [40] params)
func graphMemsetNodeSetParams(d cu.Driver, f *Frame) error {
	return setParams(d, f, func(old *memsetOp) (graphOp, error) {
		return &memsetOp{*(*memsetNode)(f.pointer(1)), old.ctx}, nil
	})
}

//c:call cuGraphMemcpyNodeGetParams (ptr node, ptr params)
func graphMemcpyNodeGetParams(_ cu.Driver, f *Frame) error {
	return getParams(f, func(op *memcpyOp, to unsafe.Pointer) { giveBytes(to, &op.params) })
}

//c:call cuGraphMemcpyNodeSetParams (ptr node, [200] params)
func graphMemcpyNodeSetParams(d cu.Driver, f *Frame) error {
	return setParams(d, f, func(old *memcpyOp) (graphOp, error) {
		return &memcpyOp{*f.box(1), old.ctx}, nil
	})
}

//c:call cuGraphHostNodeGetParams (ptr node, ptr params)
func graphHostNodeGetParams(_ cu.Driver, f *Frame) error {
	return getParams(f, func(op *hostOp, to unsafe.Pointer) { *(*hostNode)(to) = op.params })
}

//c:call cuGraphHostNodeSetParams (ptr node, [16] params)
func graphHostNodeSetParams(d cu.Driver, f *Frame) error {
	return setParams(d, f, func(*hostOp) (graphOp, error) { return &hostOp{*(*hostNode)(f.pointer(1))}, nil })
}

//c:call cuGraphChildGraphNodeGetGraph (ptr node, *ptr graph)
func graphChildGraphNodeGetGraph(_ cu.Driver, f *Frame) error {
	building.Lock()
	defer building.Unlock()
	_, op, err := opOf[*childOp](f.In[0])
	if err == nil {
		f.Out[0] = op.graph.handle
	}
	return err
}

// execKernel changes a kernel of an executable graph. The node is one of the graph that it was made
// from.
func execKernel(d cu.Driver, f *Frame, second bool) error {
	building.Lock()
	defer building.Unlock()
	op, err := newKernelOp(d, cu.Context(f.Ctx), f.kernelNodeOf(2, second))
	if err != nil {
		return err
	}
	node := cu.GraphNode(f.In[1])
	if x := execs[cu.GraphExec(f.In[0])]; x != nil {
		n, _, err := opOf[*kernelOp](f.In[1])
		if err != nil {
			return err
		}
		if node = x.recorded.handles[n]; node == 0 {
			return cu.ErrorInvalidValue
		}
	}
	return d.GraphExecKernelNodeSetParams(cu.Context(f.Ctx), cu.GraphExec(f.In[0]), node, op.fn, op.params.grid, op.params.block, op.params.shared, op.bytes)
}

//c:call cuGraphExecKernelNodeSetParams (ptr exec, ptr node, [56] params)
func graphExecKernelNodeSetParams(d cu.Driver, f *Frame) error { return execKernel(d, f, false) }

//c:call cuGraphExecKernelNodeSetParams_v2 (ptr exec, ptr node, [72] params)
func graphExecKernelNodeSetParams2(d cu.Driver, f *Frame) error { return execKernel(d, f, true) }
