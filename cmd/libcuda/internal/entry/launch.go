package entry

import "github.com/ferrygpu/ferry/cu"

func dim(words []uint64) cu.Dim3 {
	return cu.Dim3{X: uint32(words[0]), Y: uint32(words[1]), Z: uint32(words[2])}
}

//c:call cuLaunchKernel (ptr fn, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, stream stream, ptr params, ptr extra)
func launchKernel(d cu.Driver, f *Frame) error {
	ctx := f.contextOf(d, f.In[8])
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[0]))
	if err != nil {
		return err
	}
	p, err := packed(d, ctx, fn, f.pointer(9), f.pointer(10))
	if err != nil {
		return err
	}
	defer p.release()
	return d.LaunchKernel(ctx, fn, dim(f.In[1:]), dim(f.In[4:]), uint32(f.In[7]), cu.Stream(f.In[8]), p.bytes)
}

// launchConfig is CUlaunchConfig: a copy on the stack of the stub. Its attributes are memory of the
// program, which the driver copies before the call returns.
type launchConfig struct {
	grid, block cu.Dim3
	shared      uint32
	stream      cu.Stream
	attrs       uint64 // an address
	count       uint32
}

// launchEx makes the launch of both forms of cuLaunchKernelEx.
func launchEx(d cu.Driver, f *Frame, thread bool) error {
	c := (*launchConfig)(f.pointer(0))
	stream := c.stream
	if stream == 0 && thread {
		stream = cu.StreamPerThread
	}
	ctx := f.contextOf(d, uint64(stream))
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[1]))
	if err != nil {
		return err
	}
	p, err := packed(d, ctx, fn, f.pointer(2), f.pointer(3))
	if err != nil {
		return err
	}
	defer p.release()
	return d.LaunchKernelEx(ctx, &cu.LaunchConfig{
		Grid: c.grid, Block: c.block, SharedMemBytes: c.shared, Stream: stream,
		Attrs: list[cu.LaunchAttribute](pointerAt(&c.attrs), uint64(c.count)),
	}, fn, p.bytes)
}

//c:call cuLaunchKernelEx ([56] config, ptr fn, ptr params, ptr extra)
func launchKernelEx(d cu.Driver, f *Frame) error { return launchEx(d, f, false) }

//c:call cuLaunchKernelEx_ptsz ([56] config, ptr fn, ptr params, ptr extra)
func launchKernelExThread(d cu.Driver, f *Frame) error { return launchEx(d, f, true) }

//c:call cuLaunchCooperativeKernel (ptr fn, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, stream stream, ptr params)
func launchCooperative(d cu.Driver, f *Frame) error {
	ctx := f.contextOf(d, f.In[8])
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[0]))
	if err != nil {
		return err
	}
	p, err := packed(d, ctx, fn, f.pointer(9), nil)
	if err != nil {
		return err
	}
	defer p.release()
	return d.LaunchKernelEx(ctx, &cu.LaunchConfig{
		Grid: dim(f.In[1:]), Block: dim(f.In[4:]), SharedMemBytes: uint32(f.In[7]), Stream: cu.Stream(f.In[8]),
		Attrs: []cu.LaunchAttribute{cu.CooperativeLaunch()},
	}, fn, p.bytes)
}
