package entry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Functions of the program and their data are handed back to C as they came.

//c:call cuStreamDestroy_v2 (ptr stream)
func streamDestroy(d cu.Driver, f *Frame) error {
	return d.StreamDestroy(cu.Context(f.Ctx), cu.Stream(f.In[0]))
}

//c:call cuStreamQuery (stream stream)
func streamQuery(d cu.Driver, f *Frame) error {
	return d.StreamQuery(cu.Context(f.Ctx), cu.Stream(f.In[0]))
}

//c:call cuStreamSynchronize (stream stream)
func streamSynchronize(d cu.Driver, f *Frame) error {
	return d.StreamSynchronize(cu.Context(f.Ctx), cu.Stream(f.In[0]))
}

//c:call cuStreamAttachMemAsync (stream stream, u64 dptr, size bytes, u32 flags)
func streamAttach(d cu.Driver, f *Frame) error {
	return d.StreamAttachMemAsync(cu.Context(f.Ctx), cu.Stream(f.In[0]), cu.DevicePtr(f.In[1]), uintptr(f.In[2]), cu.MemAttachFlags(f.In[3]))
}

//c:call cuStreamGetDevice (stream stream, *i32 dev)
func streamGetDevice(d cu.Driver, f *Frame) error {
	ctx, err := d.StreamGetCtx(cu.Context(f.Ctx), cu.Stream(f.In[0]))
	if err != nil {
		return err
	}
	dev, err := d.CtxGetDevice(ctx)
	f.Out[0] = uint64(dev)
	return err
}

//c:call cuLaunchHostFunc (stream stream, ptr fn, ptr data)
func launchHostFunc(d cu.Driver, f *Frame) error {
	fn, data := f.pointer(1), f.pointer(2)
	if fn == nil {
		return cu.ErrorInvalidValue
	}
	return d.LaunchHostFunc(f.contextOf(d, f.In[0]), cu.Stream(f.In[0]), func() { host.HostFunc(fn, data) })
}

// streamAddCallback queues a callback. It is called with CUDA_SUCCESS: after an error no later work
// of the stream runs here.
//
//c:call cuStreamAddCallback (stream stream, ptr fn, ptr data, u32 flags)
func streamAddCallback(d cu.Driver, f *Frame) error {
	ctx, stream := f.contextOf(d, f.In[0]), cu.Stream(f.In[0])
	fn, data := f.pointer(1), f.pointer(2)
	if fn == nil || f.In[3] != 0 {
		return cu.ErrorInvalidValue
	}
	status, err := d.StreamIsCapturing(ctx, stream)
	switch {
	case err != nil:
		return err
	case status != cu.StreamCaptureStatusNone:
		return cu.ErrorStreamCaptureUnsupported
	}
	return d.LaunchHostFunc(ctx, stream, func() { host.StreamCallback(fn, uintptr(stream), 0, data) })
}

//c:call cuEventRecordWithFlags (ptr event, stream stream, u32 flags)
func eventRecordWithFlags(d cu.Driver, f *Frame) error {
	return d.EventRecordWithFlags(f.contextOf(d, f.In[1]), cu.Event(f.In[0]), cu.Stream(f.In[1]), cu.EventRecordFlags(f.In[2]))
}

//c:hand exchangeCaptureMode
func exchangeCaptureMode(d cu.Driver, f *Frame) error {
	before, err := d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureMode(f.In[0]))
	f.Out[0] = uint64(before)
	return err
}

//c:call cuGraphGetNodes (ptr graph, ptr nodes, ptr count)
func graphGetNodes(d cu.Driver, f *Frame) error {
	count := (*uint64)(f.pointer(2))
	if count == nil {
		return cu.ErrorInvalidValue
	}
	nodes, err := d.GraphGetNodes(cu.Graph(f.In[0]))
	if err != nil {
		return err
	}
	if to := list[cu.GraphNode](f.pointer(1), *count); to != nil {
		n := copy(to, nodes)
		clear(to[n:])
		*count = uint64(n)
		return nil
	}
	*count = uint64(len(nodes))
	return nil
}

// updateFailed is CU_GRAPH_EXEC_UPDATE_ERROR: the driver's error says the reason only as text.
const updateFailed = 1

//c:call cuGraphExecUpdate_v2 (ptr exec, ptr graph, ptr info)
func graphExecUpdate(d cu.Driver, f *Frame) error {
	info := (*struct {
		result uint32
		_      uint32
		nodes  [2]cu.GraphNode
	})(f.pointer(2))
	if info == nil {
		return cu.ErrorInvalidValue
	}
	err := d.GraphExecUpdate(cu.Context(f.Ctx), cu.GraphExec(f.In[0]), cu.Graph(f.In[1]))
	info.result, info.nodes = 0, [2]cu.GraphNode{}
	if err != nil {
		info.result = updateFailed
	}
	return err
}

// kernelNode is CUDA_KERNEL_NODE_PARAMS_v2.
type kernelNode struct {
	fn          cu.Function
	grid, block cu.Dim3
	shared      uint32
	params      unsafe.Pointer
	extra       unsafe.Pointer
	kernel      cu.Function
	ctx         cu.Context
}

//c:call cuGraphExecKernelNodeSetParams_v2 (ptr exec, ptr node, [72] params)
func graphExecKernelNodeSetParams(d cu.Driver, f *Frame) error {
	n := (*kernelNode)(f.pointer(2))
	fn := n.fn
	if fn == 0 {
		var err error
		if fn, err = kernelFunction(d, cu.Context(f.Ctx), n.kernel); err != nil {
			return err
		}
	}
	p, err := packed(d, cu.Context(f.Ctx), fn, n.params, n.extra)
	if err != nil {
		return err
	}
	defer p.release()
	return d.GraphExecKernelNodeSetParams(cu.Context(f.Ctx), cu.GraphExec(f.In[0]), cu.GraphNode(f.In[1]), fn, n.grid, n.block, n.shared, p.bytes)
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
	exec, err := d.GraphInstantiate(cu.Context(f.Ctx), cu.Graph(f.In[0]), p.flags)
	f.Out[0] = uint64(exec)
	p.node, p.result = 0, 0
	if err != nil {
		p.result = updateFailed
	}
	return err
}
