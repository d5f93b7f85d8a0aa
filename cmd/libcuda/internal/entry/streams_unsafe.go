package entry

import "github.com/ferrygpu/ferry/cu"

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
	fn, data := uintptr(f.In[1]), uintptr(f.In[2])
	if fn == 0 {
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
	fn, data := uintptr(f.In[1]), uintptr(f.In[2])
	if fn == 0 || f.In[3] != 0 {
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
