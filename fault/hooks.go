package fault

import (
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// The kinds of what calls create.
const (
	deviceMemory = "device memory"
	hostMemory   = "page-locked memory"
	registration = "registration"
	pool         = "memory pool"
	stream       = "stream"
	event        = "event"
	module       = "module"
	linkState    = "link"
	capture      = "capture"
	graph        = "graph"
	executable   = "executable graph"
	context      = "context"
	primary      = "primary context"
)

// The functions creates... return what a call has created: its kind, its handle or address,
// and a function that frees it. The functions frees... return what a call frees.

func (d *Driver) createsDevicePrimaryCtxRetain(dev cu.Device, ctx cu.Context) (string, uint64, func() error) {
	d.context(primary, uint64(dev), ctx)
	return primary, uint64(dev), func() error { return d.inner.DevicePrimaryCtxRelease(dev) }
}

func (d *Driver) freesDevicePrimaryCtxRelease(dev cu.Device) (string, uint64) {
	return primary, uint64(dev)
}

func (d *Driver) createsMemAlloc(ctx cu.Context, bytes uintptr, p cu.DevicePtr) (string, uint64, func() error) {
	return deviceMemory, uint64(p), func() error { return d.inner.MemFree(ctx, p) }
}

func (d *Driver) createsMemAllocPitch(ctx cu.Context, width, height uintptr, elementSize uint32, p cu.DevicePtr, pitch uintptr) (string, uint64, func() error) {
	return d.createsMemAlloc(ctx, 0, p)
}

func (d *Driver) createsMemAllocManaged(ctx cu.Context, bytes uintptr, flags cu.MemAttachFlags, p cu.DevicePtr) (string, uint64, func() error) {
	return d.createsMemAlloc(ctx, bytes, p)
}

func (d *Driver) createsMemAllocAsync(ctx cu.Context, bytes uintptr, s cu.Stream, p cu.DevicePtr) (string, uint64, func() error) {
	return deviceMemory, uint64(p), func() error { return d.inner.MemFreeAsync(ctx, p, s) }
}

func (d *Driver) createsMemAllocFromPoolAsync(ctx cu.Context, bytes uintptr, from cu.MemPool, s cu.Stream, p cu.DevicePtr) (string, uint64, func() error) {
	return d.createsMemAllocAsync(ctx, bytes, s, p)
}

func (d *Driver) freesMemFree(ctx cu.Context, p cu.DevicePtr) (string, uint64) {
	return deviceMemory, uint64(p)
}

func (d *Driver) freesMemFreeAsync(ctx cu.Context, p cu.DevicePtr, s cu.Stream) (string, uint64) {
	return deviceMemory, uint64(p)
}

func (d *Driver) createsMemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags, p cu.HostPtr) (string, uint64, func() error) {
	return hostMemory, addressOf(p), func() error { return d.inner.MemFreeHost(ctx, p) }
}

func (d *Driver) freesMemFreeHost(ctx cu.Context, p cu.HostPtr) (string, uint64) {
	return hostMemory, addressOf(p)
}

func (d *Driver) createsMemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) (string, uint64, func() error) {
	return registration, addressOf(p), func() error { return d.inner.MemHostUnregister(ctx, p) }
}

func (d *Driver) freesMemHostUnregister(ctx cu.Context, p cu.HostPtr) (string, uint64) {
	return registration, addressOf(p)
}

func (d *Driver) createsMemPoolCreate(props *cu.MemPoolProps, p cu.MemPool) (string, uint64, func() error) {
	return pool, uint64(p), func() error { return d.inner.MemPoolDestroy(p) }
}

func (d *Driver) freesMemPoolDestroy(p cu.MemPool) (string, uint64) { return pool, uint64(p) }

func (d *Driver) createsStreamCreate(ctx cu.Context, flags cu.StreamFlags, s cu.Stream) (string, uint64, func() error) {
	return stream, uint64(s), func() error { return d.inner.StreamDestroy(ctx, s) }
}

func (d *Driver) createsStreamCreateWithPriority(ctx cu.Context, flags cu.StreamFlags, priority int32, s cu.Stream) (string, uint64, func() error) {
	return d.createsStreamCreate(ctx, flags, s)
}

func (d *Driver) freesStreamDestroy(ctx cu.Context, s cu.Stream) (string, uint64) {
	return stream, uint64(s)
}

func (d *Driver) createsEventCreate(ctx cu.Context, flags cu.EventFlags, e cu.Event) (string, uint64, func() error) {
	return event, uint64(e), func() error { return d.inner.EventDestroy(ctx, e) }
}

func (d *Driver) freesEventDestroy(ctx cu.Context, e cu.Event) (string, uint64) {
	return event, uint64(e)
}

func (d *Driver) createsModuleLoadData(ctx cu.Context, image []byte, m cu.Module) (string, uint64, func() error) {
	return module, uint64(m), func() error { return d.inner.ModuleUnload(ctx, m) }
}

func (d *Driver) createsModuleLoadDataEx(ctx cu.Context, image []byte, options *cu.JITOptions, m cu.Module, log string) (string, uint64, func() error) {
	return d.createsModuleLoadData(ctx, image, m)
}

func (d *Driver) freesModuleUnload(ctx cu.Context, m cu.Module) (string, uint64) {
	return module, uint64(m)
}

func (d *Driver) createsLinkCreate(ctx cu.Context, options *cu.JITOptions, l cu.LinkState) (string, uint64, func() error) {
	return linkState, uint64(l), func() error { return d.inner.LinkDestroy(ctx, l) }
}

func (d *Driver) freesLinkDestroy(ctx cu.Context, l cu.LinkState) (string, uint64) {
	return linkState, uint64(l)
}

func (d *Driver) createsStreamBeginCapture(ctx cu.Context, s cu.Stream, mode cu.StreamCaptureMode) (string, uint64, func() error) {
	return capture, uint64(s), func() error {
		g, err := d.inner.StreamEndCapture(ctx, s)
		if err == nil {
			err = d.inner.GraphDestroy(g)
		}
		return err
	}
}

func (d *Driver) freesStreamEndCapture(ctx cu.Context, s cu.Stream) (string, uint64) {
	return capture, uint64(s)
}

func (d *Driver) createsStreamEndCapture(ctx cu.Context, s cu.Stream, g cu.Graph) (string, uint64, func() error) {
	return graph, uint64(g), func() error { return d.inner.GraphDestroy(g) }
}

func (d *Driver) freesGraphDestroy(g cu.Graph) (string, uint64) { return graph, uint64(g) }

func (d *Driver) createsGraphInstantiate(ctx cu.Context, g cu.Graph, flags uint64, x cu.GraphExec) (string, uint64, func() error) {
	return executable, uint64(x), func() error { return d.inner.GraphExecDestroy(x) }
}

func (d *Driver) freesGraphExecDestroy(x cu.GraphExec) (string, uint64) {
	return executable, uint64(x)
}

func (d *Driver) createsCtxCreate(flags cu.CtxFlags, dev cu.Device, ctx cu.Context) (string, uint64, func() error) {
	d.context(context, uint64(ctx), ctx)
	return context, uint64(ctx), func() error { return d.inner.CtxDestroy(ctx) }
}

func (d *Driver) freesCtxDestroy(ctx cu.Context) (string, uint64) { return context, uint64(ctx) }

// The functions takes... return how many bytes a call allocates.

func (d *Driver) takesMemAlloc(ctx cu.Context, bytes uintptr) uint64 { return uint64(bytes) }

func (d *Driver) takesMemAllocPitch(ctx cu.Context, width, height uintptr, elementSize uint32) uint64 {
	return uint64(width) * uint64(height)
}

func (d *Driver) takesMemAllocManaged(ctx cu.Context, bytes uintptr, flags cu.MemAttachFlags) uint64 {
	return uint64(bytes)
}

func (d *Driver) takesMemAllocAsync(ctx cu.Context, bytes uintptr, s cu.Stream) uint64 {
	return uint64(bytes)
}

func (d *Driver) takesMemAllocFromPoolAsync(ctx cu.Context, bytes uintptr, from cu.MemPool, s cu.Stream) uint64 {
	return uint64(bytes)
}

func (d *Driver) takesMemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags) uint64 {
	return uint64(bytes)
}

// passesLaunchHostFunc returns the host function that the wrapped driver gets.
func (d *Driver) passesLaunchHostFunc(out outcome, fn func()) func() {
	switch out.callback {
	case Never:
		return func() { <-d.release; fn() }
	case LateCallback:
		return func() { time.Sleep(d.o.Delay); fn() }
	}
	return fn
}

// The functions waits... let a copy to pageable memory return a fault that no call has reported
// yet, because such a copy waits.

func (d *Driver) waitsMemcpyAsync(out outcome, ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, s cu.Stream) outcome {
	return d.copiesTo(out, ctx, dst, s)
}

func (d *Driver) waitsMemcpyDtoHAsync(out outcome, ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, s cu.Stream) outcome {
	return d.copiesTo(out, ctx, cu.DevicePtr(addressOf(dst)), s)
}

func (d *Driver) waitsMemcpy2DAsync(out outcome, ctx cu.Context, c *cu.Memcpy2D, s cu.Stream) outcome {
	if c == nil {
		return out
	}
	return d.copiesTo(out, ctx, destination(c.DstMemoryType, c.DstHost, c.DstDevice), s)
}

func (d *Driver) waitsMemcpy3DAsync(out outcome, ctx cu.Context, c *cu.Memcpy3D, s cu.Stream) outcome {
	if c == nil {
		return out
	}
	return d.copiesTo(out, ctx, destination(c.DstMemoryType, c.DstHost, c.DstDevice), s)
}

// destination returns the address of a copy's destination.
func destination(kind cu.MemoryType, host cu.HostPtr, dev cu.DevicePtr) cu.DevicePtr {
	if kind == cu.MemoryTypeHost {
		return cu.DevicePtr(addressOf(host))
	}
	return dev
}
