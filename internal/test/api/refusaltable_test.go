package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// Why a refusal has no call of the driver.
const (
	noObject    = "no object"    // a nil pointer: there is no driver and no handle to call it with
	notCUDA     = "not CUDA"     // a rule of what this package adds to CUDA: names, batches, readers, pools
	goRule      = "Go rule"      // lengths and signs that C's arguments do not have
	twoDrivers  = "two drivers"  // no call takes objects of two drivers
	readOnly    = "read-only"    // writing to read-only memory ends the process or the context
	undefined   = "undefined"    // the manual calls the result undefined
	accepted    = "accepted"     // the driver does it, and the result is not what the program wants
	afterwards  = "afterwards"   // the driver takes the call, and the work fails later
	otherDevice = "other device" // only devices without some capability refuse it
	crashes     = "crashes"      // the call crashes inside a driver
)

// refusalRow is a refusal of this package: the function that has it, its text, and the call of the
// driver with the same input, or why there is none.
type refusalRow struct {
	at, text string
	none     string
	call     func(*badCalls) error
}

func (r *refusalRow) key() string { return r.at + ": " + r.text }

// refusalTable has a row for each refusal of this package. A new refusal needs one line here.
var refusalTable = []refusalRow{
	{"Batch.add", "%s: no batch given (nil)", noObject, nil},
	{"Batch.Launch", "launch in a batch: no kernel given (nil)", noObject, nil},
	{"Batch.Launch", "launch %s (%v) in a batch: a batch takes ordinary launches only: use Stream.Launch, also in a captured graph", notCUDA, nil},
	{"Batch.Record", "record in a batch: no event given (nil)", noObject, nil},
	{"Batch.WaitEvent", "wait for an event in a batch: no event given (nil)", noObject, nil},
	{"Event.beginWait", "let %v wait for %v: they must belong to one driver", twoDrivers, nil},
	{"Event.beginWait", "the event was recorded in a capture: use Stream.WaitEvent to join the capture", notCUDA, nil},
	{"allocation.errLent", "close %v: a CopyFrom, CopyTo, CopyParts or External that has not returned uses it, and frees it when it returns", notCUDA, nil},
	{"streamState.givenBack", "close %v: a call, such as an External, still uses it: destroy it when another Close returns nil", notCUDA, nil},
	{"describe", "%v is read-only", readOnly, nil},
	{"span.sub", "range [%d:%d] of no buffer (nil)", noObject, nil},
	{"span.sub", "range [%d:%d] of %v: it has elements 0 to %d", goRule, nil},
	{"allocation.wrapAt", "no address given (0)", noObject, nil},
	{"allocation.wrapAt", "the address %#x and its size are more than an address can count", goRule, nil},
	{"allocation.wrapAt", "the address %#x is no multiple of %d, the alignment of %s", goRule, nil},
	{"allocation.mayWrap", "the driver says that %#x is %s: %s", notCUDA, nil},
	{"allocation.allMapped", "the driver knows no memory at %#x, %s behind the start, that %s can use: map it (cuMemMap), give access (cuMemSetAccess), and wrap it then (%v)", notCUDA, nil},
	{"allocation.claimWrapped", "it shares bytes with %v, which needs no wrap: use its Range, or View", notCUDA, nil},
	{"mayWrapStream", "cu.StreamPerThread is another stream in each thread, and goroutines change threads: wrap a stream that the library made", notCUDA, nil},
	{"mayWrapStream", "the driver says that the stream belongs to context %#x, and the GPU has the primary context of its device, %#x", notCUDA, nil},
	{"mayWrapStream", "the stream captures: wrap it after the capture", notCUDA, nil},
	{"mayWrapEvent", "no event given (0)", noObject, nil},
	{"span.as", "view of no buffer (nil)", noObject, nil},
	{"span.as", "view %v as elements of type %s, which have no bytes", goRule, nil},
	{"span.as", "view %v as elements of type %s: its %d bytes are no multiple of %d, the bytes of an element: view a range of it", goRule, nil},
	{"span.as", "view %v as elements of type %s: it begins at %#x, which is no multiple of their alignment, %d: begin the range elsewhere", goRule, nil},
	{"viewSlice", "host access to %v: it is device memory: use Download, or Copy to host memory", notCUDA, nil},
	{"span.check", "no buffer given (nil)", noObject, nil},
	{"span.reachableFrom", "%v belongs to another driver than %s: copy it through a pageable slice", twoDrivers, nil},
	{"span.reachableFrom", "%v is page-locked for %s only, not for %s: allocate it without NotPortable", accepted, nil},
	{"copyPlan.reaches", "%v is memory of a pool that is not open to %s: use a stream of its own GPU, or call EnablePeer of %s first", "", func(c *badCalls) error {
		return c.onFar(c.copyFromFarPool)
	}},
	{"span.unmapped", "%v has no address on the device: make it with Mapped", "", func(c *badCalls) error {
		_, err := c.d.MemHostGetDevicePointer(c.ctx, pointerTo(c.memory), 0)
		return err
	}},
	{"errOverlap", "the source and the destination overlap within %v: copy through another buffer", undefined, nil},
	{"errCopiedByCPU", "without unified addressing the CPU makes a copy from host to host memory: use Copy, or copy through a Device buffer", otherDevice, nil},
	{"refusePageable", "a batch cannot keep pageable memory: use Copy or CopyAll on a Stream, or a buffer of AllocHost or Register", notCUDA, nil},
	{"copyPlan.check", "the destination, %v, has %d elements, and the source, %v, has %d: copy ranges of one length", goRule, nil},
	{"copyPlan.check", "%v is read-only", readOnly, nil},
	{"copyPlan.check", "a graph would copy from %v to %v at every launch, but cannot keep pageable memory: capture with a buffer of AllocHost or Register", accepted, nil},
	{"copyPlan.check", "on this device the CPU copies from %v to %v, which a graph cannot do: capture copies through a Device buffer", otherDevice, nil},
	{"CopyFrom", "copy from a reader: no reader given (nil)", noObject, nil},
	{"checkAlso", "%v is in Also, and is the destination: leave it out", notCUDA, nil},
	{"Staging.ringFor", "%s: no staging ring given (nil)", noObject, nil},
	{"CopyPartsTo", "%s: no writer given (nil)", noObject, nil},
	{"ReadPart.check", "no source given (nil)", noObject, nil},
	{"ReadPart.check", "the offset in the source is %d: it must be 0 or more", goRule, nil},
	{"ReadPart.check", "the offset in the source is %d: with %s the end is beyond %d, the largest offset", goRule, nil},
	{"ReadPart.check", "%v in Also has %d bytes, and the destination, %v, has %d: use ranges of one size", goRule, nil},
	{"CopyTo", "copy to a writer: no writer given (nil)", noObject, nil},
	{"checkIO", "the stream captures, and a graph cannot call readers and writers: copy through a buffer", notCUDA, nil},
	{"checkIO", "it is read-only", readOnly, nil},
	{"AllocVirtual", "allocate device memory: Max is %d, must be at least the %d elements of the buffer, or 0", goRule, nil},
	{"AllocVirtual", "allocate device memory: Max and Share are both set, and a shared buffer cannot grow: share a buffer of the largest size", notCUDA, nil},
	{"Device.Grow", "grow %v to %d elements: it is a range: grow the whole buffer", notCUDA, nil},
	{"Device.Grow", "grow %v to %d elements: it has %d: use Range", goRule, nil},
	{"Device.Grow", "grow %v to %d elements: it can have %d: allocate it with AllocVirtual and a larger Max", notCUDA, nil},
	{"errLostBirth", "it was to be allocated by a graph that there is not, or that was closed before a launch: allocate another buffer", afterwards, nil},
	{"Share", "share %v: it was imported, and the driver exports such memory no more: pass on the descriptor that Import has used", notCUDA, nil},
	{"Share", "share %v: it has no elements, and so no memory to share", notCUDA, nil},
	{"Share", "share %v: it is no whole buffer of AllocVirtual with Share", notCUDA, nil},
	{"AllocPitched", "allocate device memory: %d rows of %d elements: the numbers cannot be negative", goRule, nil},
	{"AllocPitched", "allocate device memory: %d rows of %d elements are more than an address can count", "", func(c *badCalls) error { _, _, err := c.d.MemAllocPitch(c.ctx, 1<<40, 1<<40, 4); return err }},
	{"AllocPitched", "allocate device memory: %d rows of %s are more bytes than an address can count", "", func(c *badCalls) error { _, _, err := c.d.MemAllocPitch(c.ctx, 1<<40, 1<<40, 4); return err }},
	{"AllocPitched", "the driver chose a pitch of %d bytes, which is not a multiple of the size of %s, %d bytes: use Alloc", notCUDA, nil},
	{"rowBytes", "allocate device memory: rows of %d elements of %s are more bytes than an address can count", "", func(c *badCalls) error { _, _, err := c.d.MemAllocPitch(c.ctx, ^uintptr(0)>>1, 1, 4); return err }},
	{"runAt", "%v is in page-locked memory whose buffer was lost without Close: keep the buffer and copy from it", notCUDA, nil},
	{"Event.enter", "%s: no event given (nil)", noObject, nil},
	{"Event.beginRecord", "record %v on %v: they must belong to one GPU", "", func(c *badCalls) error { return c.d.EventRecord(c.ctx, c.event(c.elsewhere(), 0), c.stream(c.ctx)) }},
	{"Event.holdBack", "let %v wait for %v: they must belong to one driver", twoDrivers, nil},
	{"Event.meaning", "the event was recorded in a capture, where nothing runs: record it in a stream that does not capture", "", func(c *badCalls) error {
		return c.capturing(func(s cu.Stream) error { return c.d.EventQuery(c.ctx, c.capturedEvent(s)) })
	}},
	{"Event.Since", "measure from %v to %v: they must belong to one GPU", "", func(c *badCalls) error { return c.elapsed(c.ctx, c.recorded(c.ctx), c.recorded(c.elsewhere())) }},
	{"Event.Since", "measure between events of %s: one was made with NoTiming", "", func(c *badCalls) error {
		return c.elapsed(c.ctx, c.recorded(c.ctx), c.event(c.ctx, cu.EventDisableTiming))
	}},
	{"Event.Since", "measure between events of %s: one was never recorded", "", func(c *badCalls) error { return c.elapsed(c.ctx, c.recorded(c.ctx), c.event(c.ctx, 0)) }},
	{"newFill", "%v is ordinary Go memory: fill it with a loop or clear", "", func(c *badCalls) error {
		return c.d.MemsetD8Async(c.ctx, deviceAddress(pointerTo(c.memory)), 1, badBytes, c.stream(c.ctx))
	}},
	{"newFill", "%v is read-only", readOnly, nil},
	{"wordOperation", "%v is ordinary Go memory: use a buffer of Alloc, AllocHost or Register", "", func(c *badCalls) error {
		return c.d.StreamWriteValue32(c.ctx, c.stream(c.ctx), deviceAddress(pointerTo(c.memory)), 1, 0)
	}},
	{"wordOperation", "%v is read-only", readOnly, nil},
	{"wordOperation", "%v has no elements, and the first one is the word", goRule, nil},
	{"span.addressFor", "%v is memory of another GPU: use a stream of that GPU, or call EnablePeer of %s first", "", func(c *badCalls) error {
		return c.onFar(func() error { return c.d.MemsetD8Async(c.ctx, c.farMem, 1, badBytes, c.stream(c.ctx)) })
	}},
	{"newFill", "the address %#x is not a multiple of %d bytes, the unit of this fill: launch a kernel, or copy", "", func(c *badCalls) error { return c.d.MemsetD32Async(c.ctx, c.mem+1, 1, 1, c.stream(c.ctx)) }},
	{"GPU.Current", "%s on %s: no function given (nil)", noObject, nil},
	{"GPU.bindThread", "the driver has no BindThread (cu.ThreadBinder): a driver around another one needs a method Unwrap", notCUDA, nil},
	{"GPU.EnablePeer", "%s of %s to %s: they were opened with different drivers: copy through a pageable slice", twoDrivers, nil},
	{"GPU.EnablePeer", "%s of %s to %s: the devices do not support it (cuDeviceCanAccessPeer is 0): copy between them", "", func(c *badCalls) error { return c.d.CtxEnablePeerAccess(c.ctx, c.other, 0) }},
	{"errNoGPU", "%s: no GPU given (nil)", noObject, nil},
	{"GPU.lacking", "%s on %s: the device cannot (%s is 0): %s", otherDevice, nil},
	{"Graph.enter", "%s: no graph given (nil)", noObject, nil},
	{"Graph.mayRunOn", "they must belong to one GPU", accepted, nil},
	{"Graph.mayRunOn", "it captures, and graphs cannot be launched in a capture: call what was captured", "", func(c *badCalls) error {
		x := c.exec()
		return c.capturing(func(s cu.Stream) error { return c.d.GraphLaunch(c.ctx, x, s) })
	}},
	{"Graph.Update", "update a graph: no graph given (nil)", noObject, nil},
	{"Graph.Update", "update %v from a capture on %v: they must belong to one GPU", "", func(c *badCalls) error { return c.updateFromOther() }},
	{"errCapturing", "a stream captures, and the wait would invalidate the capture: wait for single streams or buffers, or after the capture", "", func(c *badCalls) error {
		return c.whileCapturing(cu.StreamCaptureModeGlobal, func(cu.Stream) error { return c.d.CtxSynchronize(c.ctx) })
	}},
	{"errAlready", "it captures already", "", func(c *badCalls) error {
		return c.capturing(func(s cu.Stream) error { return c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeRelaxed) })
	}},
	{"errCaptured", "the event was recorded last in a capture that is over: record it again", "", func(c *badCalls) error {
		var e cu.Event
		check(c.t, c.capturing(func(s cu.Stream) error { e = c.capturedEvent(s); return nil }))
		return c.d.EventQuery(c.ctx, e)
	}},
	{"record", "%s on %v: no function given (nil)", noObject, nil},
	{"capture.mayJoin", "the stream captures, and the event was not recorded in the capture: wait for it before the capture", "", func(c *badCalls) error {
		e := c.recorded(c.ctx)
		return c.capturing(func(s cu.Stream) error { return c.d.StreamWaitEvent(c.ctx, s, e, 0) })
	}},
	{"capture.mayJoin", "the stream captures, and the event was recorded in another capture", "", func(c *badCalls) error {
		return c.capturing(func(one cu.Stream) error {
			return c.capturing(func(s cu.Stream) error { return c.d.StreamWaitEvent(c.ctx, s, c.capturedEvent(one), 0) })
		})
	}},
	{"refuseWhileCapturing", "it captures: what is queued runs when the graph is launched", "", func(c *badCalls) error {
		return c.capturing(func(s cu.Stream) error { return c.d.StreamSynchronize(c.ctx, s) })
	}},
	{"predictPin", "%s: it cannot be negative", goRule, nil},
	{"driverPlaces", "only the driver can make this memory, and it cannot be placed on a NUMA node: allocate without NUMANode, or without WriteCombined", notCUDA, nil},
	{"Module.errLent", "close %v: an External that has not returned uses it, and unloads it when it returns", notCUDA, nil},
	{"Module.bind", "bind kernel %q: it has %d parameters in the Go code and %d in the module%v: run ferry bind again", goRule, nil},
	{"Module.bind", "bind kernel %q: argument %d (%s) is %s, %s, in the Go code and %s in the module: run ferry bind again", goRule, nil},
	{"Kernel.lend", "no kernel given: Module.Kernel finds one", noObject, nil},
	{"Kernel.mayRunOn", "the kernel was loaded on %s: load its module on %s", "", func(c *badCalls) error {
		return c.d.LaunchKernel(c.elsewhere(), c.kernel("plain"), cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, c.stream(c.elsewhere()), nil)
	}},
	{"Kernel.checkConfig", "%v: there must be at least one block and one thread", "", func(c *badCalls) error { return c.launch(cu.Dim3{X: 1, Y: 0, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0) }},
	{"Kernel.checkConfig", "a block of %d threads: the device takes %d at most", "", func(c *badCalls) error { return c.launch(cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1024, Y: 2, Z: 1}, 0) }},
	{"Kernel.checkConfig", "%d bytes of shared memory: the number cannot be negative", goRule, nil},
	{"Kernel.checkConfig", "%d bytes of dynamic shared memory and %d static bytes: the device has %d per block", "", func(c *badCalls) error { return c.launch(cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 1<<20) }},
	{"Kernel.tooManyThreads", "a block of %d threads: this kernel takes %d at most, because of the registers it uses (%d each)", "", func(c *badCalls) error { return c.tooManyThreads() }},
	{"Kernel.tooManyThreads", "a block of %d threads: this kernel takes %d at most, because its source bounds it", "", func(c *badCalls) error {
		return c.d.LaunchKernel(c.ctx, c.kernel("bounded"), cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 65, Y: 1, Z: 1}, 0, c.stream(c.ctx), nil)
	}},
	{"checkExtent", "a %s of %d %s along %c: the device takes %d at most", "", func(c *badCalls) error {
		return c.launch(cu.Dim3{X: 1, Y: 1 << 20, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0)
	}},
	{"launch.run", "launch on %v: no kernel given (nil)", noObject, nil},
	{"Kernel.needs", "%s has no %s (%v is 0)", otherDevice, nil},
	{"Kernel.checkCluster", "clusters of %dx%dx%d blocks: X is 0", "", func(c *badCalls) error { return c.cluster(cu.Dim3{X: 0, Y: 2, Z: 1}) }},
	{"Kernel.checkCluster", "clusters of %dx%dx%d blocks do not divide a grid of %dx%dx%d: make the grid a multiple", "", func(c *badCalls) error { return c.cluster(cu.Dim3{X: 3, Y: 1, Z: 1}) }},
	{"acquireForKernel", "%v is read-only, and the kernel's pointer is not to const: use memory that may be written", readOnly, nil},
	{"acquireForKernel", "%v is memory of another GPU: call EnablePeer of %s first, or Copy", afterwards, nil},
	{"acquirePageable", "%v cannot be used by kernels (%v is 0): Register it, or Copy it to a buffer", afterwards, nil},
	{"acquirePageable", "a graph cannot keep %v: capture with a buffer of AllocHost or Register", accepted, nil},
	{"Kernel.enter", "%s: no kernel given (nil)", noObject, nil},
	{"Kernel.occupancy", "a block must have at least one thread", "", func(c *badCalls) error {
		_, err := c.d.OccupancyMaxActiveBlocksPerMultiprocessor(c.ctx, c.kernel("plain"), 0, 0, 0)
		return err
	}},
	{"Kernel.allowShared", "%d bytes of shared memory: the number cannot be negative", "", func(c *badCalls) error {
		return c.d.FuncSetAttribute(c.ctx, c.kernel("plain"), cu.FuncAttributeMaxDynamicSharedBytes, -1)
	}},
	{"Kernel.allowShared", "%d bytes of dynamic shared memory and %d static bytes: the device has %d per block", "", func(c *badCalls) error {
		return c.d.FuncSetAttribute(c.ctx, c.kernel("plain"), cu.FuncAttributeMaxDynamicSharedBytes, 1<<24)
	}},
	{"Kernel.AvailableShared", "%s %q: %d blocks of %d threads: both must be positive", "", func(c *badCalls) error {
		_, err := c.d.OccupancyAvailableDynamicSMemPerBlock(c.ctx, c.kernel("plain"), 0, 32)
		return err
	}},
	{"Kernel.SetCarveout", "%s: %d percent, want 0 to 100, or -1 for no preference", "", func(c *badCalls) error {
		return c.d.FuncSetAttribute(c.ctx, c.kernel("plain"), cu.FuncAttributePreferredSharedMemoryCarveout, 101)
	}},
	{"AllocManaged", "Attach is %#x: use cu.MemAttachGlobal or cu.MemAttachHost, and Managed.Attach for a stream", "", func(c *badCalls) error { _, err := c.d.MemAllocManaged(c.ctx, badBytes, 0); return err }},
	{"Managed.Prefetch", "the stream captures, and a graph cannot prefetch: prefetch before its launch", "", func(c *badCalls) error {
		return c.managed(func(p cu.DevicePtr) error {
			return c.capturing(func(s cu.Stream) error { return c.d.MemPrefetchAsync(c.ctx, p, badBytes, 0, s) })
		})
	}},
	{"mayAdvise", "device %d cannot follow the advice (%v is 0): leave it out", otherDevice, nil},
	{"Managed.Attach", "the stream captures, and a graph cannot attach memory: attach before", "", func(c *badCalls) error {
		return c.managed(func(p cu.DevicePtr) error {
			return c.capturing(func(s cu.Stream) error { return c.d.StreamAttachMemAsync(c.ctx, s, p, 0, cu.MemAttachSingle) })
		})
	}},
	{"Managed.Attach", "no buffer given", noObject, nil},
	{"Managed.Attach", "only the whole buffer can be attached", "", func(c *badCalls) error {
		return c.managed(func(p cu.DevicePtr) error {
			return c.d.StreamAttachMemAsync(c.ctx, c.stream(c.ctx), p, badBytes/2, cu.MemAttachSingle)
		})
	}},
	{"Managed.Attach", "flags are %#x: use cu.MemAttachGlobal, MemAttachHost or MemAttachSingle", crashes, nil},
	{"Managed.Attach", "cu.MemAttachSingle needs a stream made by NewStream", "", func(c *badCalls) error {
		return c.managed(func(p cu.DevicePtr) error { return c.d.StreamAttachMemAsync(c.ctx, 0, p, 0, cu.MemAttachSingle) })
	}},
	{"allocation.usableBy", "%v is attached to the host, and the device has no concurrent access (%v is 0): Attach it to the stream, or with cu.MemAttachGlobal", otherDevice, nil},
	{"allocation.usableBy", "%v is attached to %v, and the device has no concurrent access (%v is 0): launch on that stream, or Attach it to this one", otherDevice, nil},
	{"allocation.usablePerThread", "%v is attached to %s, the work runs in the per-thread stream, and the device has no concurrent access (%v is 0): Attach it with cu.MemAttachGlobal", otherDevice, nil},
	{"newMemPool", "make a memory pool on %s: keep %d, at most %d bytes: they cannot be negative", goRule, nil},
	{"MemPool.enter", "%s: no memory pool given (nil)", noObject, nil},
	{"MemPool.SetKeep", "%s on %s: %d bytes: it cannot be negative", goRule, nil},
	{"MemPool.Trim", "trim %v: %d bytes: it cannot be negative", goRule, nil},
	{"AllocAsync", "it captures, and the device has no memory pools: allocate before, the graph keeps the buffer", otherDevice, nil},
	{"graphBirth.usable", "it is allocated by a graph, when that is launched: launch the graph first", afterwards, nil},
	{"AllocAsync", "allocate on %v from %v: they must belong to one GPU", accepted, nil},
	{"LoadOptions.driverOptions", "%s: Optimize is %d: must be 0 to %d", accepted, nil},
	{"LoadOptions.driverOptions", "%s: MaxRegisters is %d: must be 0 or more", goRule, nil},
	{"LoadOptions.driverOptions", "%s: a log of %d bytes: must be 0 to %d", goRule, nil},
	{"LoadFile", "load %s: no GPU given (nil)", noObject, nil},
	{"Link", "%s: no inputs given", accepted, nil},
	{"Module.notFound", "there are no %s", "", func(c *badCalls) error { _, err := c.d.ModuleGetFunction(c.ctx, c.module, "nothing"); return err }},
	{"Module.notFound", "did you mean %q? there are: %s", "", func(c *badCalls) error { _, _, err := c.d.ModuleGetGlobal(c.ctx, c.module, "nothing"); return err }},
	{"Module.enter", "%s %q: no module given (nil)", noObject, nil},
	{"globalOf", "%s %q: %v is not managed: use Global", goRule, nil},
	{"globalOf", "%s %q: it has %s, which is not a multiple of the size of %s, %s each", goRule, nil},
	{"OpenDriver", "open device %d: no driver given (nil)", noObject, nil},
	{"OpenDriver", "open device %d: the driver has %d, numbered from 0", "", func(c *badCalls) error { _, err := c.d.DeviceGet(99); return err }},
	{"parseCUDA", "%s is not a device number, a UUID or a PCI address: use cuda:0, cuda:1, cuda:GPU-8932f937 or cuda:0000:1b:00.0", notCUDA, nil},
	{"Parse", "no such device: use cuda, cuda:1, soft, soft:%s, soft:FILE.json or soft:h200*2", notCUDA, nil},
	{"parseSoft", "%s is not a number of devices: use soft:h200*2", notCUDA, nil},
	{"parseSoft", "no profile after \"soft:\": use one of %s, or the path of a .json file", notCUDA, nil},
	{"GPU.LimitHost", "%s of %s to %d bytes: it cannot be negative: use 0 for no limit", goRule, nil},
	{"NewPinnedPool", "%s on %s: at most %d bytes: it cannot be negative", goRule, nil},
	{"Host.alloc", "allocate page-locked memory from %v: no buffer or no pool given (nil)", noObject, nil},
	{"Host.alloc", "allocate from %v: %v is open: close it first", notCUDA, nil},
	{"PinnedPool.check", "%s: no pool given (nil)", noObject, nil},
	{"PinnedPool.Stats", "read statistics: no pool given (nil)", noObject, nil},
	{"PinnedPool.check", "%s to %d bytes: it cannot be negative", goRule, nil},
	{"CopyRect", "copy %v to %v: they must have one shape", goRule, nil},
	{"newRect", "%s: the numbers cannot be negative", goRule, nil},
	{"newRect", "%s: rows overlap, the pitch must be at least the width", "", func(c *badCalls) error { return c.rect(64, 65, 2) }},
	{"newRect", "%s: layers overlap, the rows of a layer must be at least the height", "", func(c *badCalls) error {
		return c.d.Memcpy3D(c.ctx, &cu.Memcpy3D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: c.mem, SrcPitch: 64, SrcHeight: 2, DstMemoryType: cu.MemoryTypeHost, DstHost: c.host, DstPitch: 64, DstHeight: 3, WidthInBytes: 64, Height: 3, Depth: 2})
	}},
	{"newRect", "%s needs more elements than an address can count, %v has %d", goRule, nil},
	{"newRect", "%s: the pitch is %s", "", func(c *badCalls) error { return c.rect(1<<63, 64, 2) }},
	{"newRect", "%s needs %d elements, %v has %d", goRule, nil},
	{"copyRect", "copy: no stream given (nil)", noObject, nil},
	{"memcpyRect", "a pitch of %s is more than the device supports (%v is %d): copy row by row", "", func(c *badCalls) error { return c.rect(uintptr(c.attribute(cu.DeviceAttributeMaxPitch))+1, 64, 2) }},
	{"admit", "it shares bytes with %v%s", "", func(c *badCalls) error { return c.registeredTwice() }},
	{"admit", "it shares bytes with %v, which needs no registration: use its Range", "", func(c *badCalls) error { return c.d.MemHostRegister(c.ctx, c.host, badBytes, 0) }},
	{"registeredAddress", "other buffers registered parts of it, and on this device each part has its own address (%v is 0): close those buffers first, or register without Mapped", otherDevice, nil},
	{"Stream.begin", "%s: no stream given (nil)", noObject, nil},
	{"Stream.external", "%s on %v: no function given (nil)", noObject, nil},
	{"Use.acquire", "no buffer, kernel or graph given (nil): make a Use with Reads, Writes or Runs", noObject, nil},
	{"Use.acquire", "a graph cannot keep %v: capture with a buffer of AllocHost or Register", accepted, nil},
	{"queueWork", "%s: %v belongs to %s, and the communicator to %s", notCUDA, nil},
	{"useMemory", "%v is memory of another GPU: use memory of %s", notCUDA, nil},
	{"useMemory", "%v is pageable: copy it to memory of Alloc first", notCUDA, nil},
	{"useMemory", "%v is read-only", readOnly, nil},
	{"lendTo", "%v is read-only: Writes needs memory that may be written", readOnly, nil},
	{"Stream.HostFunc", "no function given (nil)", noObject, nil},
	{"Stream.Notify", "it captures, and a graph cannot close a channel at every launch: use HostFunc", notCUDA, nil},
	{"Stream.Submit", "submit on %v: no batch given (nil)", noObject, nil},
	{"Stream.Wait", "wait: no stream given (nil)", noObject, nil},
}

// codesOfRefusals returns the result of each refusal in the files of this package, and of the names
// that Open takes, by the key of its row.
func codesOfRefusals(t *testing.T) map[string]cu.Result {
	t.Helper()
	names := resultNames(t)
	found := map[string]cu.Result{}
	paths := append(must(filepath.Glob("*.go"))(t), "internal/devices/name.go")
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			for at, node := range named(d) {
				ast.Inspect(node, func(n ast.Node) bool {
					if text, code := refusalIn(t, n, names); text != "" {
						key := at + ": " + text
						if before, twice := found[key]; twice && before != code {
							t.Errorf("%s: %q has two codes: give one another text", path, key)
						}
						found[key] = code
					}
					return true
				})
			}
		}
	}
	return found
}

// named returns the parts of a declaration with their names: a function or method, or variables.
func named(d ast.Decl) map[string]ast.Node {
	parts := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiverName(d.Recv.List[0].Type) + "." + name
		}
		parts[name] = d
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, is := spec.(*ast.ValueSpec); is {
				parts[v.Names[0].Name] = v
			}
		}
	}
	return parts
}

// receiverName returns the name of the type of a receiver.
func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// refusalIn returns the text and the code of a refusal, or "" for another node.
func refusalIn(t *testing.T, n ast.Node, names map[string]cu.Result) (text string, code cu.Result) {
	t.Helper()
	call, is := n.(*ast.CallExpr)
	if !is {
		return "", 0
	}
	f, is := call.Fun.(*ast.SelectorExpr)
	if !is || f.Sel.Name != "Invalid" && f.Sel.Name != "New" {
		return "", 0
	}
	if x, is := f.X.(*ast.Ident); !is || x.Name != "refusal" {
		return "", 0
	}
	format, code := call.Args[0], cu.ErrorInvalidValue
	if f.Sel.Name == "New" {
		format = call.Args[1]
		result, is := call.Args[0].(*ast.SelectorExpr)
		if is {
			code, is = names[result.Sel.Name]
		}
		if !is {
			t.Errorf("a refusal whose code is no constant of cu: %v", call.Args[0])
		}
	}
	literal, is := format.(*ast.BasicLit)
	if !is {
		t.Errorf("a refusal whose text is not a literal: %v", format)
		return "", 0
	}
	return must(strconv.Unquote(literal.Value))(t), code
}

// resultNames returns the results of package cu by the names of their constants.
func resultNames(t *testing.T) map[string]cu.Result {
	t.Helper()
	names := map[string]cu.Result{}
	file := must(parser.ParseFile(token.NewFileSet(), "cu/result.go", nil, parser.SkipObjectResolution))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		v, is := n.(*ast.ValueSpec)
		if is && len(v.Values) == 1 {
			if literal, is := v.Values[0].(*ast.BasicLit); is && literal.Kind == token.INT {
				names[v.Names[0].Name] = cu.Result(must(strconv.Atoi(literal.Value))(t))
			}
		}
		return true
	})
	return names
}

// TestRefusalTable: each refusal of this package has one row, and each row has a refusal. A row has
// either a call or a reason, and docs/SEMANTICS.md has the number of each.
func TestRefusalTable(t *testing.T) {
	codes := codesOfRefusals(t)
	rows, counted := map[string]bool{}, map[string]int{}
	for _, row := range refusalTable {
		key := row.key()
		if rows[key] {
			t.Errorf("two rows for %q", key)
		}
		rows[key] = true
		if _, is := codes[key]; !is {
			t.Errorf("a row without a refusal: %q", key)
		}
		if (row.none == "") == (row.call == nil) {
			t.Errorf("%q: want a call, or why there is none", key)
		}
		if row.none != "" {
			counted[row.none]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(codes)) {
		if at, text, _ := strings.Cut(key, ": "); !rows[key] {
			t.Errorf("no row: add\n{%q, %q, why, nil},\nor one with the call of the driver", at, text)
		}
	}
	sum, reasons := 0, []string{}
	for _, why := range slices.Sorted(maps.Keys(counted)) {
		sum += counted[why]
		reasons = append(reasons, fmt.Sprintf("%s %d", why, counted[why]))
	}
	want := fmt.Sprintf("%d of its %d refusals have such a call. The others: %s.", len(refusalTable)-sum, len(refusalTable), strings.Join(reasons, ", "))
	text := strings.Join(strings.Fields(string(must(os.ReadFile("docs/SEMANTICS.md"))(t))), " ")
	if !strings.Contains(text, want) {
		t.Errorf("docs/SEMANTICS.md does not say: %s", want)
	}
}
