package fault

import (
	"errors"
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

// The hooks after... note what a call has created, and those before... what it frees. Further down
// they note what it allocates.

func (c *call) afterDevicePrimaryCtxRetain(dev cu.Device, ctx cu.Context) {
	c.d.context(primary, uint64(dev), ctx)
	c.creates(primary, uint64(dev), func() error { return c.d.inner.DevicePrimaryCtxRelease(dev) })
}

func (c *call) beforeDevicePrimaryCtxRelease(dev cu.Device) { c.frees(primary, uint64(dev)) }

func (c *call) afterMemAlloc(ctx cu.Context, bytes uintptr, p cu.DevicePtr) {
	c.creates(deviceMemory, uint64(p), func() error { return c.d.inner.MemFree(ctx, p) })
}

func (c *call) afterMemAllocPitch(ctx cu.Context, width, height uintptr, elementSize uint32, p cu.DevicePtr, pitch uintptr) {
	c.afterMemAlloc(ctx, 0, p)
}

func (c *call) afterMemAllocManaged(ctx cu.Context, bytes uintptr, flags cu.MemAttachFlags, p cu.DevicePtr) {
	c.afterMemAlloc(ctx, bytes, p)
}

func (c *call) afterMemAllocAsync(ctx cu.Context, bytes uintptr, s cu.Stream, p cu.DevicePtr) {
	c.creates(deviceMemory, uint64(p), func() error { return c.d.inner.MemFreeAsync(ctx, p, s) })
}

func (c *call) afterMemAllocFromPoolAsync(ctx cu.Context, bytes uintptr, from cu.MemPool, s cu.Stream, p cu.DevicePtr) {
	c.afterMemAllocAsync(ctx, bytes, s, p)
}

func (c *call) beforeMemFree(ctx cu.Context, p cu.DevicePtr) { c.freesMemory(deviceMemory, ctx, p) }

func (c *call) beforeMemFreeAsync(ctx cu.Context, p cu.DevicePtr, s cu.Stream) {
	c.frees(deviceMemory, uint64(p))
}

// freesMemory notes that a call frees or unregisters memory. The driver does not know its address
// after that.
func (c *call) freesMemory(kind string, ctx cu.Context, p cu.DevicePtr) {
	c.freesAlthough(kind, uint64(p), func() bool {
		known, err := c.d.inner.PointerGetAttributes(ctx, p)
		return err == nil && known.MemoryType == 0
	})
}

func (c *call) afterMemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags, p cu.HostPtr) {
	c.creates(hostMemory, addressOf(p), func() error { return c.d.inner.MemFreeHost(ctx, p) })
}

func (c *call) beforeMemFreeHost(ctx cu.Context, p cu.HostPtr) {
	c.freesMemory(hostMemory, ctx, cu.DevicePtr(addressOf(p)))
}

func (c *call) afterMemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) {
	c.creates(registration, addressOf(p), func() error { return c.d.inner.MemHostUnregister(ctx, p) })
}

func (c *call) beforeMemHostUnregister(ctx cu.Context, p cu.HostPtr) {
	c.freesMemory(registration, ctx, cu.DevicePtr(addressOf(p)))
}

func (c *call) afterMemPoolCreate(props *cu.MemPoolProps, p cu.MemPool) {
	c.creates(pool, uint64(p), func() error { return c.d.inner.MemPoolDestroy(p) })
}

func (c *call) beforeMemPoolDestroy(p cu.MemPool) { c.frees(pool, uint64(p)) }

func (c *call) afterStreamCreate(ctx cu.Context, flags cu.StreamFlags, s cu.Stream) {
	c.creates(stream, uint64(s), func() error { return c.d.inner.StreamDestroy(ctx, s) })
}

func (c *call) afterStreamCreateWithPriority(ctx cu.Context, flags cu.StreamFlags, priority int32, s cu.Stream) {
	c.afterStreamCreate(ctx, flags, s)
}

func (c *call) beforeStreamDestroy(ctx cu.Context, s cu.Stream) { c.frees(stream, uint64(s)) }

func (c *call) afterEventCreate(ctx cu.Context, flags cu.EventFlags, e cu.Event) {
	c.creates(event, uint64(e), func() error { return c.d.inner.EventDestroy(ctx, e) })
}

func (c *call) beforeEventDestroy(ctx cu.Context, e cu.Event) { c.frees(event, uint64(e)) }

func (c *call) afterModuleLoadData(ctx cu.Context, image []byte, m cu.Module) {
	c.creates(module, uint64(m), func() error { return c.d.inner.ModuleUnload(ctx, m) })
}

func (c *call) afterModuleLoadDataEx(ctx cu.Context, image []byte, options *cu.JITOptions, m cu.Module, log string) {
	c.afterModuleLoadData(ctx, image, m)
}

func (c *call) beforeModuleUnload(ctx cu.Context, m cu.Module) { c.frees(module, uint64(m)) }

func (c *call) afterLinkCreate(ctx cu.Context, options *cu.JITOptions, l cu.LinkState) {
	c.creates(linkState, uint64(l), func() error { return c.d.inner.LinkDestroy(ctx, l) })
}

func (c *call) beforeLinkDestroy(ctx cu.Context, l cu.LinkState) { c.frees(linkState, uint64(l)) }

func (c *call) afterStreamBeginCapture(ctx cu.Context, s cu.Stream, mode cu.StreamCaptureMode) {
	c.creates(capture, uint64(s), func() error {
		g, err := c.d.inner.StreamEndCapture(ctx, s)
		if err == nil {
			err = c.d.inner.GraphDestroy(g)
		}
		return err
	})
}

// The end of a capture that is invalid, or that streams have left unjoined, is an error, but no
// stream captures after it.
func (c *call) beforeStreamEndCapture(ctx cu.Context, s cu.Stream) {
	c.freesAlthough(capture, uint64(s), func() bool {
		status, err := c.d.inner.StreamIsCapturing(ctx, s)
		return err == nil && status == cu.StreamCaptureStatusNone
	})
}

func (c *call) afterStreamEndCapture(ctx cu.Context, s cu.Stream, g cu.Graph) {
	c.creates(graph, uint64(g), func() error { return c.d.inner.GraphDestroy(g) })
}

func (c *call) beforeGraphDestroy(g cu.Graph) { c.frees(graph, uint64(g)) }

func (c *call) afterGraphInstantiate(ctx cu.Context, g cu.Graph, flags uint64, x cu.GraphExec) {
	c.creates(executable, uint64(x), func() error { return c.d.inner.GraphExecDestroy(x) })
}

func (c *call) beforeGraphExecDestroy(x cu.GraphExec) { c.frees(executable, uint64(x)) }

func (c *call) afterCtxCreate(flags cu.CtxFlags, dev cu.Device, ctx cu.Context) {
	c.d.context(context, uint64(ctx), ctx)
	c.creates(context, uint64(ctx), func() error { return c.d.inner.CtxDestroy(ctx) })
}

// cuCtxDestroy returns the panics of host functions that no call has returned before.
func (c *call) beforeCtxDestroy(ctx cu.Context) {
	c.freesAlthough(context, uint64(ctx), func() bool {
		_, err := c.d.inner.CtxGetDevice(ctx)
		return errors.Is(err, cu.ErrorInvalidContext) || errors.Is(err, cu.ErrorContextIsDestroyed)
	})
}

// The hooks that follow note how many bytes a call allocates.

func (c *call) beforeMemAlloc(ctx cu.Context, bytes uintptr) { c.takes(uint64(bytes)) }

func (c *call) beforeMemAllocPitch(ctx cu.Context, width, height uintptr, elementSize uint32) {
	c.takes(uint64(width) * uint64(height))
}

func (c *call) beforeMemAllocManaged(ctx cu.Context, bytes uintptr, flags cu.MemAttachFlags) {
	c.takes(uint64(bytes))
}

func (c *call) beforeMemAllocAsync(ctx cu.Context, bytes uintptr, s cu.Stream) {
	c.takes(uint64(bytes))
}

func (c *call) beforeMemAllocFromPoolAsync(ctx cu.Context, bytes uintptr, from cu.MemPool, s cu.Stream) {
	c.takes(uint64(bytes))
}

func (c *call) beforeMemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags) {
	c.takes(uint64(bytes))
}

// LaunchHostFunc makes cuLaunchHostFunc, which can fail, or be told to run fn late or never; see
// [cu.Streams].
func (d *Driver) LaunchHostFunc(ctx cu.Context, stream cu.Stream, fn func()) (err error) {
	c := d.begin(hostFunc, ctx)
	c.make(func() { err = d.inner.LaunchHostFunc(ctx, stream, c.hostFunc(fn)) })
	return c.end(err)
}

// hostFunc returns the host function that the wrapped driver gets.
func (c *call) hostFunc(fn func()) func() {
	d := c.d
	switch c.out.callback {
	case Never:
		return func() { <-d.release; fn() }
	case LateCallback:
		return func() { time.Sleep(d.o.Delay); fn() }
	}
	return fn
}

// The hooks that follow let a copy to pageable memory return a fault that no call has reported yet,
// because such a copy waits.

func (c *call) beforeMemcpyAsync(ctx cu.Context, dst, src cu.DevicePtr, bytes uintptr, s cu.Stream) {
	c.copiesTo(dst, s)
}

func (c *call) beforeMemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, bytes uintptr, s cu.Stream) {
	c.copiesTo(cu.DevicePtr(addressOf(dst)), s)
}

func (c *call) beforeMemcpy2DAsync(ctx cu.Context, p *cu.Memcpy2D, s cu.Stream) {
	if p != nil {
		c.copiesTo(destination(p.DstMemoryType, p.DstHost, p.DstDevice), s)
	}
}

func (c *call) beforeMemcpy3DAsync(ctx cu.Context, p *cu.Memcpy3D, s cu.Stream) {
	if p != nil {
		c.copiesTo(destination(p.DstMemoryType, p.DstHost, p.DstDevice), s)
	}
}

// destination returns the address of a copy's destination.
func destination(kind cu.MemoryType, host cu.HostPtr, dev cu.DevicePtr) cu.DevicePtr {
	if kind == cu.MemoryTypeHost {
		return cu.DevicePtr(addressOf(host))
	}
	return dev
}
