package entry

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Parameters of nodes are memory of the program, copied as a node is made. Copies of those of
// kernels that the program asks for are pinned until the node changes.

// kernelOp launches a kernel.
type kernelOp struct {
	params  kernelNode // as the program gave it, with fn or kernel; the addresses are not kept
	fn      cu.Function
	ctx     cu.Context
	bytes   []byte
	values  []unsafe.Pointer // addresses within bytes, for the program
	pinned  runtime.Pinner
	offsets []uintptr
}

// newKernelOp reads the parameters of a kernel node. current is the current context.
func newKernelOp(d cu.Driver, current cu.Context, k *kernelNode) (*kernelOp, error) {
	op := &kernelOp{params: *k, fn: k.fn, ctx: current}
	if k.fn == 0 {
		if k.ctx != 0 {
			op.ctx = k.ctx
		}
		fn, err := find[*kernel](uint64(k.kernel))
		if err != nil {
			return nil, cu.ErrorInvalidHandle
		}
		op.fn = fn.handle
	}
	var err error
	if op.fn, err = kernelFunction(d, op.ctx, op.fn); err != nil {
		return nil, err
	}
	l, err := layoutOf(d, op.ctx, op.fn)
	if err != nil {
		return nil, err
	}
	if len(l.params) > 0 && isNull(k.params) && isNull(k.extra) {
		return nil, cu.ErrorInvalidValue
	}
	p, err := packed(d, op.ctx, op.fn, k.params, k.extra)
	if err != nil {
		return nil, err
	}
	defer p.release()
	op.bytes = slices.Clone(p.bytes)
	for _, at := range l.params {
		op.offsets = append(op.offsets, at.offset)
	}
	op.params.params, op.params.extra = nil, nil
	return op, nil
}

func (op *kernelOp) kind() cu.GraphNodeType { return cu.GraphNodeTypeKernel }
func (op *kernelOp) context() cu.Context    { return op.ctx }

func (op *kernelOp) queue(d cu.Driver, ctx cu.Context, s cu.Stream) error {
	return d.LaunchKernel(ctx, op.fn, op.params.grid, op.params.block, op.params.shared, s, op.bytes)
}

func (op *kernelOp) clone() graphOp {
	return &kernelOp{params: op.params, fn: op.fn, ctx: op.ctx, bytes: slices.Clone(op.bytes), offsets: op.offsets}
}

func (op *kernelOp) end() { op.pinned.Unpin() }

// give writes the parameters for the program, which may read the values until the node changes.
func (op *kernelOp) give(to *kernelNode) {
	*to = op.params
	to.ctx = op.ctx
	if len(op.offsets) == 0 {
		return
	}
	if op.values == nil {
		op.pinned.Pin(&op.bytes[0])
		for _, at := range op.offsets {
			op.values = append(op.values, unsafe.Pointer(&op.bytes[at]))
		}
		op.pinned.Pin(&op.values[0])
	}
	to.params = unsafe.Pointer(&op.values[0])
}

// memsetNode is CUDA_MEMSET_NODE_PARAMS.
type memsetNode struct {
	dst           cu.DevicePtr
	pitch         uintptr
	value         uint32
	elementBytes  uint32
	width, height uintptr
}

// memsetOp fills memory.
type memsetOp struct {
	params memsetNode
	ctx    cu.Context
}

func (op *memsetOp) kind() cu.GraphNodeType { return cu.GraphNodeTypeMemset }
func (op *memsetOp) context() cu.Context    { return op.ctx }
func (op *memsetOp) clone() graphOp         { return &memsetOp{op.params, op.ctx} }
func (op *memsetOp) end()                   {}

func (op *memsetOp) queue(d cu.Driver, ctx cu.Context, s cu.Stream) error {
	p := &op.params
	if p.width == 0 || p.height == 0 {
		return cu.ErrorInvalidValue
	}
	pitch := p.pitch
	if p.height == 1 {
		pitch = p.width * uintptr(p.elementBytes)
	}
	return rows(uint64(p.dst), uint64(pitch), uint64(p.width), uint64(p.height), uint64(p.elementBytes), func(dst cu.DevicePtr, n uintptr) error {
		switch p.elementBytes {
		case 1:
			return d.MemsetD8Async(ctx, dst, byte(p.value), n, s)
		case 2:
			return d.MemsetD16Async(ctx, dst, uint16(p.value), n, s)
		case 4:
			return d.MemsetD32Async(ctx, dst, p.value, n, s)
		}
		return cu.ErrorInvalidValue
	})
}

// memcpyOp copies a box.
type memcpyOp struct {
	params cu.Memcpy3D
	ctx    cu.Context
}

func (op *memcpyOp) kind() cu.GraphNodeType { return cu.GraphNodeTypeMemcpy }
func (op *memcpyOp) context() cu.Context    { return op.ctx }
func (op *memcpyOp) clone() graphOp         { return &memcpyOp{op.params, op.ctx} }
func (op *memcpyOp) end()                   {}

func (op *memcpyOp) queue(d cu.Driver, ctx cu.Context, s cu.Stream) error {
	if op.params.WidthInBytes == 0 || op.params.Height == 0 || op.params.Depth == 0 {
		return cu.ErrorInvalidValue
	}
	p := op.params
	return d.Memcpy3DAsync(ctx, &p, s)
}

// hostNode is CUDA_HOST_NODE_PARAMS.
type hostNode struct{ fn, data uintptr }

// hostOp calls a function of the program.
type hostOp struct{ params hostNode }

func (op *hostOp) kind() cu.GraphNodeType { return cu.GraphNodeTypeHost }
func (op *hostOp) context() cu.Context    { return 0 }
func (op *hostOp) clone() graphOp         { return &hostOp{op.params} }
func (op *hostOp) end()                   {}

func (op *hostOp) queue(d cu.Driver, ctx cu.Context, s cu.Stream) error {
	fn, data := op.params.fn, op.params.data
	if fn == 0 {
		return cu.ErrorInvalidValue
	}
	return d.LaunchHostFunc(ctx, s, func() { host.HostFunc(fn, data) })
}

// emptyOp does nothing: other nodes follow it.
type emptyOp struct{}

func (op *emptyOp) kind() cu.GraphNodeType                       { return cu.GraphNodeTypeEmpty }
func (op *emptyOp) context() cu.Context                          { return 0 }
func (op *emptyOp) clone() graphOp                               { return op }
func (op *emptyOp) end()                                         {}
func (op *emptyOp) queue(cu.Driver, cu.Context, cu.Stream) error { return nil }

// eventOp records an event, or waits for one.
type eventOp struct {
	event cu.Event
	waits bool
	ctx   cu.Context
}

func (op *eventOp) kind() cu.GraphNodeType {
	if op.waits {
		return cu.GraphNodeTypeWaitEvent
	}
	return cu.GraphNodeTypeEventRecord
}

func (op *eventOp) context() cu.Context { return op.ctx }
func (op *eventOp) clone() graphOp      { return &eventOp{op.event, op.waits, op.ctx} }
func (op *eventOp) end()                {}

func (op *eventOp) queue(d cu.Driver, ctx cu.Context, s cu.Stream) error {
	if op.event == 0 {
		return cu.ErrorInvalidValue
	}
	if op.waits {
		return d.StreamWaitEvent(ctx, s, op.event, cu.EventWaitExternal)
	}
	return d.EventRecordWithFlags(ctx, op.event, s, cu.EventRecordExternal)
}

// childOp is a graph within a graph: a copy of what the program named.
type childOp struct{ graph *builtGraph }

func newChildOp(g *builtGraph) *childOp {
	op := &childOp{g.clone()}
	op.graph.child = true
	return op
}

func (op *childOp) kind() cu.GraphNodeType                       { return cu.GraphNodeTypeGraph }
func (op *childOp) context() cu.Context                          { return 0 }
func (op *childOp) clone() graphOp                               { return newChildOp(op.graph) }
func (op *childOp) end()                                         { op.graph.destroy() }
func (op *childOp) queue(cu.Driver, cu.Context, cu.Stream) error { return nil }
