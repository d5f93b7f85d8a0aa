package trace

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
)

// owns notes that the call has allocated or page-locked a range of memory.
func (c *call) owns(base, bytes uint64, kind string) {
	c.touches(base, 0)
	c.bytes, c.kind = bytes, kind
	c.d.memory.add(base, bytes, kind)
	if c.d.soft == nil && (kind == pageLocked || kind == registered) {
		c.node = nodeAt(base)
	}
}

// frees notes that the call frees the memory that begins at base.
func (c *call) frees(base uint64) {
	c.touches(base, 0)
	c.d.memory.remove(base)
}

func (c *call) afterMemAlloc(ctx cu.Context, bytes uintptr, dptr cu.DevicePtr) {
	c.owns(uint64(dptr), uint64(bytes), device)
}

func (c *call) afterMemAllocPitch(ctx cu.Context, width, height uintptr, elementSize uint32, dptr cu.DevicePtr, pitch uintptr) {
	c.owns(uint64(dptr), uint64(pitch*height), device)
}

func (c *call) afterMemFree(ctx cu.Context, dptr cu.DevicePtr) { c.frees(uint64(dptr)) }

func (c *call) afterMemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags, p cu.HostPtr) {
	c.owns(addressOf(p), uint64(bytes), pageLocked)
}

// afterPointerGetAttributes learns of memory that another library made, which a program asks about
// before it wraps it, and of memory that was freed unseen.
func (c *call) afterPointerGetAttributes(ctx cu.Context, ptr cu.DevicePtr, about cu.PointerAttributes) {
	x := &c.d.memory
	known := x.kind(uint64(ptr), "") != ""
	switch {
	case about.MemoryType == 0 && known:
		x.forget(uint64(ptr))
	case about.MemoryType == 0 || known:
	case about.IsManaged:
		x.add(uint64(about.RangeStart), uint64(about.RangeSize), managed)
	case about.MemoryType == cu.MemoryTypeHost:
		x.add(uint64(about.RangeStart), uint64(about.RangeSize), pageLocked)
	default:
		x.add(uint64(about.RangeStart), uint64(about.RangeSize), device)
	}
}

func (c *call) beforeMemFreeHost(ctx cu.Context, p cu.HostPtr) { c.frees(addressOf(p)) }

func (c *call) afterMemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) {
	kind := registered
	if callsite.ByPin() {
		kind = pageLocked
	}
	c.owns(addressOf(p), uint64(bytes), kind)
}

func (c *call) afterMemHostUnregister(ctx cu.Context, p cu.HostPtr) { c.frees(addressOf(p)) }

func (c *call) afterMemAllocManaged(ctx cu.Context, bytes uintptr, flags cu.MemAttachFlags, dptr cu.DevicePtr) {
	c.owns(uint64(dptr), uint64(bytes), managed)
}

func (c *call) afterMemAllocAsync(ctx cu.Context, bytes uintptr, stream cu.Stream, dptr cu.DevicePtr) {
	c.owns(uint64(dptr), uint64(bytes), device)
}

func (c *call) afterMemAllocFromPoolAsync(ctx cu.Context, bytes uintptr, pool cu.MemPool, stream cu.Stream, dptr cu.DevicePtr) {
	c.owns(uint64(dptr), uint64(bytes), device)
}

func (c *call) afterMemFreeAsync(ctx cu.Context, dptr cu.DevicePtr, stream cu.Stream) {
	c.frees(uint64(dptr))
}

func (c *call) afterModuleGetGlobal(ctx cu.Context, module cu.Module, name string, dptr cu.DevicePtr, bytes uintptr) {
	c.owns(uint64(dptr), uint64(bytes), device)
}

func (c *call) afterModuleGetFunction(ctx cu.Context, module cu.Module, name string, f cu.Function) {
	c.d.names.addKernel(f, name)
}

func (c *call) afterStreamCreate(ctx cu.Context, flags cu.StreamFlags, stream cu.Stream) {
	c.d.names.addStream(stream)
	c.stream = stream
}

func (c *call) afterStreamCreateWithPriority(ctx cu.Context, flags cu.StreamFlags, priority int32, stream cu.Stream) {
	c.d.names.addStream(stream)
	c.stream = stream
}

func (c *call) afterDeviceGetName(dev cu.Device, name string) {
	c.d.nameDevice(dev, name)
}

func (c *call) afterDevicePrimaryCtxRetain(dev cu.Device, ctx cu.Context) {
	c.d.retain(ctx, dev, false)
}

func (c *call) beforeDevicePrimaryCtxRelease(dev cu.Device) { c.d.release(c.d.primary(dev)) }

func (c *call) beforeDevicePrimaryCtxReset(dev cu.Device) { c.d.drop(c.d.primary(dev)) }

func (c *call) afterCtxCreate(flags cu.CtxFlags, dev cu.Device, ctx cu.Context) {
	c.d.retain(ctx, dev, true)
}

func (c *call) beforeCtxDestroy(ctx cu.Context) { c.d.drop(ctx) }

// After the following calls some operations are known to be done, so their times can be read.

func (c *call) afterCtxSynchronize(ctx cu.Context)                      { c.settle() }
func (c *call) afterStreamSynchronize(ctx cu.Context, stream cu.Stream) { c.settle() }
func (c *call) afterStreamQuery(ctx cu.Context, stream cu.Stream)       { c.settle() }
func (c *call) afterEventSynchronize(ctx cu.Context, event cu.Event)    { c.settle() }
func (c *call) afterEventQuery(ctx cu.Context, event cu.Event)          { c.settle() }

// settle reads the times of the operations of the context that are done.
func (c *call) settle() {
	if c.d.timer != nil {
		c.d.timer.settle(c.d.timer.clock(c.ctx))
	}
}

func (c *call) beforeStreamBeginCapture(ctx cu.Context, stream cu.Stream, mode cu.StreamCaptureMode) {
	if c.d.timer != nil {
		c.d.timer.captures.begin(stream)
	}
}

func (c *call) doneStreamBeginCapture(ctx cu.Context, stream cu.Stream, mode cu.StreamCaptureMode, err error) {
	if c.d.timer != nil && err != nil {
		c.d.timer.captures.end(stream)
	}
}

func (c *call) doneStreamEndCapture(ctx cu.Context, stream cu.Stream, graph cu.Graph, err error) {
	if c.d.timer != nil {
		c.d.timer.captures.end(stream)
	}
}

func (c *call) afterStreamDestroy(ctx cu.Context, stream cu.Stream) {
	if c.d.timer != nil {
		c.d.timer.captures.end(stream)
		c.d.timer.unknown(ctx, stream)
	}
}

func (c *call) afterStreamWaitEvent(ctx cu.Context, stream cu.Stream, event cu.Event, flags cu.EventWaitFlags) {
	if c.d.timer != nil {
		c.d.timer.waited(ctx, stream, event)
	}
}

func (c *call) afterEventRecord(ctx cu.Context, event cu.Event, stream cu.Stream) {
	if c.d.timer != nil {
		c.d.timer.recorded(ctx, event, stream)
	}
}

func (c *call) afterEventRecordWithFlags(ctx cu.Context, event cu.Event, stream cu.Stream, flags cu.EventRecordFlags) {
	c.afterEventRecord(ctx, event, stream)
}

func (c *call) afterEventDestroy(ctx cu.Context, event cu.Event) {
	if c.d.timer != nil {
		c.d.timer.forgets(ctx, event)
	}
}
