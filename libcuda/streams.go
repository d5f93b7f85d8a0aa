package libcuda

import "github.com/ferrygpu/ferry/cu"

// StreamDestroy calls cuStreamDestroy; see [cu.Streams].
func (d *Driver) StreamDestroy(ctx cu.Context, stream cu.Stream) error {
	d.panics.forget(ctx, stream)
	return d.bound1(procStreamDestroy, ctx, uintptr(stream))
}

// StreamQuery calls cuStreamQuery; see [cu.Streams]. It reports panics of the stream's
// host functions: see [cu.HostPanic].
func (d *Driver) StreamQuery(ctx cu.Context, stream cu.Stream) error {
	return d.panics.report(d.bound1(procStreamQuery, ctx, uintptr(stream)), ctx, stream)
}

// StreamSynchronize calls cuStreamSynchronize; see [cu.Streams]. It reports panics of
// the stream's host functions: see [cu.HostPanic].
func (d *Driver) StreamSynchronize(ctx cu.Context, stream cu.Stream) error {
	return d.panics.report(d.bound1(procStreamSynchronize, ctx, uintptr(stream)), ctx, stream)
}

// StreamAttachMemAsync calls cuStreamAttachMemAsync; see [cu.ManagedMemory]. It refuses
// flags other than the three, because driver 580 ends the process with a segmentation
// fault when they are 0.
func (d *Driver) StreamAttachMemAsync(ctx cu.Context, stream cu.Stream, dptr cu.DevicePtr, bytes uintptr, flags cu.MemAttachFlags) error {
	switch flags {
	case cu.MemAttachGlobal, cu.MemAttachHost, cu.MemAttachSingle:
		return d.bound6(procStreamAttachMemAsync, ctx, uintptr(stream), uintptr(dptr), bytes, uintptr(flags), 0, 0)
	}
	return cu.ErrorInvalidValue
}

// LaunchHostFunc calls cuLaunchHostFunc; see [cu.Streams].
//
// A panic in fn is recovered and reported by a later call: see [cu.HostPanic]. The
// function must not end its goroutine (runtime.Goexit, t.FailNow): that ends the
// program. It must not call the driver: such a call is CUDA_ERROR_NOT_PERMITTED. A call
// by a goroutine that fn starts and waits for is not noticed and can hang.
//
// While the stream captures, fn becomes part of a graph, which can run it many times.
// It is then kept until the process ends.
func (d *Driver) LaunchHostFunc(ctx cu.Context, stream cu.Stream, fn func()) error {
	if fn == nil {
		return cu.ErrorInvalidValue
	}
	if err := refuseInHostFunc(procLaunchHostFunc); err != nil {
		return err
	}
	status, err := d.StreamIsCapturing(ctx, stream)
	if err != nil {
		return err
	}
	call := &hostCall{fn: fn, panics: &d.panics, keep: status == cu.StreamCaptureStatusActive}
	if call.keep {
		call.from = d.panics.list(ctx, graphStreams)
	} else {
		call.from = d.panics.list(ctx, stream)
	}
	id := addHostCall(call)
	err = d.bound3(procLaunchHostFunc, ctx, uintptr(stream), hostTrampoline(), id)
	if err != nil {
		removeHostCall(id)
	}
	return err
}
