package cu

// Driver is the CUDA driver API. The embedded interfaces group its functions as
// the manual does; a wrapper implements the whole.
//
// A call that a device or a library cannot do returns an error that wraps
// [ErrorNotSupported] or [ErrorInvalidValue] as CUDA does, and a
// [*NotSupportedError] where a library lacks the function itself.
//
// Every method is safe for concurrent use. Errors wrap one [Result]; success is
// nil. "Stream-ordered" below means: the call queues work on the stream and may
// return before the work is done; memory handed over must stay valid, and
// unchanged where it is read, until the stream has passed that work.
//
// Each method of the interfaces has one line that describes its C function. The
// calls of package libcuda are generated from these lines:
//
//	//cu:call EXPORT VERSION (ARGUMENTS) [context=HANDLE]
//	//cu:hand EXPORT VERSION [context=HANDLE]
//
// EXPORT is the name under which the library exports the form used: cuMemAlloc_v2
// is the second form of cuMemAlloc. VERSION is the CUDA version that introduced
// the form; 12040 is CUDA 12.4. ARGUMENTS are in the order of C, with results
// starred. HANDLE is the stream or event whose context the operation uses,
// whichever context is current. cu:hand marks methods written by hand.
//
// "//cu:also EXPORT VERSION" in the comment of an interface names a function that
// libcuda needs besides. The comment of internal/gen has the details.
type Driver interface {
	Devices
	Contexts
	Memory
	ManagedMemory
	MemPools
	Copies
	Streams
	Events
	Modules
	Graphs
	Batches
}

// Devices covers initialisation, the driver's version and what a device is.
// These calls need no context.
type Devices interface {
	// Init starts the driver; flags must be 0. It is idempotent.
	//cu:hand cuInit 2000
	Init(flags uint32) error
	// DriverGetVersion is the newest CUDA version the driver knows: 13000 is 13.0.
	//cu:call cuDriverGetVersion 2020 (*version)
	DriverGetVersion() (version int32, err error)
	// DeviceGetCount is the number of devices; 0 with no error is possible.
	//cu:call cuDeviceGetCount 2000 (*count)
	DeviceGetCount() (count int32, err error)
	// DeviceGet is the device of an ordinal from 0.
	//cu:call cuDeviceGet 2000 (*device, ordinal)
	DeviceGet(ordinal int32) (device Device, err error)
	// DeviceGetName is the device's product name.
	//cu:hand cuDeviceGetName 2000
	DeviceGetName(dev Device) (name string, err error)
	// DeviceGetPCIBusId is the device's place as "domain:bus:device.function".
	//cu:hand cuDeviceGetPCIBusId 4010
	DeviceGetPCIBusId(dev Device) (id string, err error)
	// DeviceGetUuid is the 16 bytes that identify the device. A device in MIG mode has
	// those of its MIG compute instance.
	//cu:call cuDeviceGetUuid_v2 11040 (*uuid, dev)
	DeviceGetUuid(dev Device) (uuid [16]byte, err error)
	// DeviceTotalMem is the memory of the device in bytes.
	//cu:call cuDeviceTotalMem_v2 3020 (*bytes, dev)
	DeviceTotalMem(dev Device) (bytes uintptr, err error)
	// DeviceGetAttribute is one number about the device.
	//cu:call cuDeviceGetAttribute 2000 (*value, attrib, dev)
	DeviceGetAttribute(attrib DeviceAttribute, dev Device) (value int32, err error)
	// DeviceCanAccessPeer is 1 when contexts on dev can be given access to memory on peerDev.
	//cu:call cuDeviceCanAccessPeer 4000 (*can, dev, peerDev)
	DeviceCanAccessPeer(dev, peerDev Device) (can int32, err error)
}

// Contexts covers primary and created contexts. A call on a destroyed or zero
// context is CUDA_ERROR_INVALID_CONTEXT.
//
//cu:also cuCtxSetCurrent 4000
//cu:also cuCtxPopCurrent_v2 4000
type Contexts interface {
	// DevicePrimaryCtxRetain takes a reference to the device's primary context,
	// making it when there is none.
	//cu:call cuDevicePrimaryCtxRetain 7000 (*ctx, dev)
	DevicePrimaryCtxRetain(dev Device) (ctx Context, err error)
	// DevicePrimaryCtxRelease drops a reference; the last one destroys the context
	// and frees all that was made in it.
	//cu:call cuDevicePrimaryCtxRelease_v2 11000 (dev)
	DevicePrimaryCtxRelease(dev Device) error
	// DevicePrimaryCtxSetFlags sets the flags of the primary context, active or not.
	//cu:call cuDevicePrimaryCtxSetFlags_v2 11000 (dev, flags)
	DevicePrimaryCtxSetFlags(dev Device, flags CtxFlags) error
	// DevicePrimaryCtxGetState reads the flags and whether the context is active (1).
	//cu:call cuDevicePrimaryCtxGetState 7000 (dev, *flags, *active)
	DevicePrimaryCtxGetState(dev Device) (flags CtxFlags, active int32, err error)
	// DevicePrimaryCtxReset destroys the primary context whoever holds it. It is
	// the way out of a sticky error.
	//cu:call cuDevicePrimaryCtxReset_v2 11000 (dev)
	DevicePrimaryCtxReset(dev Device) error
	// CtxCreate makes a context. Unlike the C function it leaves the calling
	// thread's current context as it was.
	//cu:hand cuCtxCreate_v2 3020
	CtxCreate(flags CtxFlags, dev Device) (ctx Context, err error)
	// CtxDestroy destroys a created context and frees all that was made in it.
	//cu:hand cuCtxDestroy_v2 4000
	CtxDestroy(ctx Context) error
	// CtxSynchronize waits until all work of the context is done.
	//cu:hand cuCtxSynchronize 2000
	CtxSynchronize(ctx Context) error
	// CtxGetFlags reads the flags of the context.
	//cu:call cuCtxGetFlags 7000 (*flags)
	CtxGetFlags(ctx Context) (flags CtxFlags, err error)
	// CtxGetDevice is the device of the context.
	//cu:call cuCtxGetDevice 2000 (*dev)
	CtxGetDevice(ctx Context) (dev Device, err error)
	// CtxGetStreamPriorityRange is the priorities that streams can have: lower
	// numbers run first. Both are 0 where the device has no priorities.
	//cu:call cuCtxGetStreamPriorityRange 5050 (*least, *greatest)
	CtxGetStreamPriorityRange(ctx Context) (least, greatest int32, err error)
	// CtxGetLimit reads a limit.
	//cu:call cuCtxGetLimit 3010 (*value, limit)
	CtxGetLimit(ctx Context, limit Limit) (value uintptr, err error)
	// CtxSetLimit asks for a limit; the driver may round it.
	//cu:call cuCtxSetLimit 3010 (limit, value)
	CtxSetLimit(ctx Context, limit Limit, value uintptr) error
	// CtxEnablePeerAccess lets ctx use memory of peer; flags must be 0.
	//cu:call cuCtxEnablePeerAccess 4000 (peer, flags)
	CtxEnablePeerAccess(ctx, peer Context, flags uint32) error
	// CtxDisablePeerAccess takes that back.
	//cu:call cuCtxDisablePeerAccess 4000 (peer)
	CtxDisablePeerAccess(ctx, peer Context) error
}

// Memory covers device memory, page-locked memory and what an address is.
type Memory interface {
	// MemAlloc takes bytes of device memory, aligned to 256. Zero bytes are
	// CUDA_ERROR_INVALID_VALUE.
	//cu:call cuMemAlloc_v2 3020 (*dptr, bytes)
	MemAlloc(ctx Context, bytes uintptr) (dptr DevicePtr, err error)
	// MemAllocPitch takes height rows of width bytes, each starting at a multiple
	// of the pitch it returns. elementSize is 4, 8 or 16.
	//cu:call cuMemAllocPitch_v2 3020 (*dptr, *pitch, width, height, elementSize)
	MemAllocPitch(ctx Context, width, height uintptr, elementSize uint32) (dptr DevicePtr, pitch uintptr, err error)
	// MemFree frees device or managed memory; it waits for work that may use it.
	//cu:call cuMemFree_v2 3020 (dptr)
	MemFree(ctx Context, dptr DevicePtr) error
	// MemGetInfo is the device's free and total memory in bytes.
	//cu:call cuMemGetInfo_v2 3020 (*free, *total)
	MemGetInfo(ctx Context) (free, total uintptr, err error)
	// MemGetAddressRange is the allocation that holds an address.
	//cu:call cuMemGetAddressRange_v2 3020 (*base, *size, dptr)
	MemGetAddressRange(ctx Context, dptr DevicePtr) (base DevicePtr, size uintptr, err error)
	// MemHostAlloc takes bytes of page-locked memory.
	//cu:call cuMemHostAlloc 2020 (*p, bytes, flags)
	MemHostAlloc(ctx Context, bytes uintptr, flags MemHostAllocFlags) (p HostPtr, err error)
	// MemFreeHost frees what MemHostAlloc gave.
	//cu:call cuMemFreeHost 2000 (p)
	MemFreeHost(ctx Context, p HostPtr) error
	// MemHostGetDevicePointer is the device address of mapped page-locked memory; flags must be 0.
	//cu:call cuMemHostGetDevicePointer_v2 3020 (*dptr, p, flags)
	MemHostGetDevicePointer(ctx Context, p HostPtr, flags uint32) (dptr DevicePtr, err error)
	// MemHostGetFlags reads the flags that MemHostAlloc was given.
	//cu:call cuMemHostGetFlags 2030 (*flags, p)
	MemHostGetFlags(ctx Context, p HostPtr) (flags MemHostAllocFlags, err error)
	// MemHostRegister page-locks bytes that exist already.
	//cu:call cuMemHostRegister_v2 6050 (p, bytes, flags)
	MemHostRegister(ctx Context, p HostPtr, bytes uintptr, flags MemHostRegisterFlags) error
	// MemHostUnregister undoes MemHostRegister; p is the address given there.
	//cu:call cuMemHostUnregister 4000 (p)
	MemHostUnregister(ctx Context, p HostPtr) error
	// PointerGetAttributes says what the driver knows of an address. An address it
	// does not know gives zero attributes, with InvalidDevice, and no error.
	//cu:hand cuPointerGetAttributes 7000
	PointerGetAttributes(ctx Context, ptr DevicePtr) (PointerAttributes, error)
}

// PointerAttributes is what a driver knows of an address (CU_POINTER_ATTRIBUTE_*).
type PointerAttributes struct {
	Context       Context    // that allocated or registered it; 0 for none or several
	MemoryType    MemoryType // host or device; 0 for memory the driver does not know
	DevicePointer DevicePtr  // the address in a kernel; 0 if it has none
	HostPointer   HostPtr    // the address in Go; nil if it has none
	Device        Device     // ordinal; CPUDevice or InvalidDevice where there is none
	IsManaged     bool
	RangeStart    DevicePtr // of the allocation or registration
	RangeSize     uintptr   // bytes
	Mapped        bool      // has a device address
	BufferID      uint64    // unique to the allocation in this process
}

// ManagedMemory covers memory with one address on host and device.
type ManagedMemory interface {
	// MemAllocManaged takes bytes of managed memory, host and device at one address.
	//cu:call cuMemAllocManaged 6000 (*dptr, bytes, flags)
	MemAllocManaged(ctx Context, bytes uintptr, flags MemAttachFlags) (dptr DevicePtr, err error)
	// MemPrefetchAsync moves pages to a device, or to the host with CPUDevice. Stream-ordered.
	//cu:call cuMemPrefetchAsync 8000 (dptr, bytes, dst, stream)
	MemPrefetchAsync(ctx Context, dptr DevicePtr, bytes uintptr, dst Device, stream Stream) error
	// MemAdvise gives advice on pages.
	//cu:call cuMemAdvise 8000 (dptr, bytes, advice, dev)
	MemAdvise(ctx Context, dptr DevicePtr, bytes uintptr, advice MemAdvice, dev Device) error
	// MemRangeGetAttribute reads advice back. Read-mostly is one number, a location
	// one device; accessed-by fills data with devices and InvalidDevice after them.
	//cu:hand cuMemRangeGetAttribute 8000
	MemRangeGetAttribute(ctx Context, data []int32, attribute MemRangeAttribute, dptr DevicePtr, bytes uintptr) error
	// StreamAttachMemAsync changes who may touch managed memory; bytes is 0 or the
	// whole allocation. Stream-ordered.
	//cu:hand cuStreamAttachMemAsync 6000
	StreamAttachMemAsync(ctx Context, stream Stream, dptr DevicePtr, bytes uintptr, flags MemAttachFlags) error
}

// MemPools covers stream-ordered allocation.
type MemPools interface {
	// MemAllocAsync takes device memory from the device's current pool, valid from
	// this point of the stream on.
	//cu:call cuMemAllocAsync 11020 (*dptr, bytes, stream)
	MemAllocAsync(ctx Context, bytes uintptr, stream Stream) (dptr DevicePtr, err error)
	// MemAllocFromPoolAsync does so from a given pool.
	//cu:call cuMemAllocFromPoolAsync 11020 (*dptr, bytes, pool, stream)
	MemAllocFromPoolAsync(ctx Context, bytes uintptr, pool MemPool, stream Stream) (dptr DevicePtr, err error)
	// MemFreeAsync frees at this point of the stream.
	//cu:call cuMemFreeAsync 11020 (dptr, stream)
	MemFreeAsync(ctx Context, dptr DevicePtr, stream Stream) error
	// DeviceGetDefaultMemPool is the pool that a device starts with.
	//cu:call cuDeviceGetDefaultMemPool 11020 (*pool, dev)
	DeviceGetDefaultMemPool(dev Device) (pool MemPool, err error)
	// DeviceGetMemPool is the device's current pool.
	//cu:call cuDeviceGetMemPool 11020 (*pool, dev)
	DeviceGetMemPool(dev Device) (pool MemPool, err error)
	// DeviceSetMemPool makes a pool the current one.
	//cu:call cuDeviceSetMemPool 11020 (dev, pool)
	DeviceSetMemPool(dev Device, pool MemPool) error
	// MemPoolCreate makes a pool of device memory.
	//cu:call cuMemPoolCreate 11020 (*pool, props)
	MemPoolCreate(props *MemPoolProps) (pool MemPool, err error)
	// MemPoolDestroy frees a pool once its last allocation is freed.
	//cu:call cuMemPoolDestroy 11020 (pool)
	MemPoolDestroy(pool MemPool) error
	// MemPoolTrimTo gives unused memory back down to keep bytes.
	//cu:call cuMemPoolTrimTo 11020 (pool, keep)
	MemPoolTrimTo(pool MemPool, keep uintptr) error
	// MemPoolGetAttribute reads a setting or counter.
	//cu:hand cuMemPoolGetAttribute 11020
	MemPoolGetAttribute(pool MemPool, attr MemPoolAttribute) (value uint64, err error)
	// MemPoolSetAttribute writes a setting, or resets a high-water mark with 0.
	//cu:hand cuMemPoolSetAttribute 11020
	MemPoolSetAttribute(pool MemPool, attr MemPoolAttribute, value uint64) error
}

// Copies covers copies and fills. Zero bytes are a success that does nothing.
// The forms without Async return when the data has moved, with the exceptions
// that the manual's "API synchronization behavior" lists; docs/SEMANTICS.md
// has what hardware does.
type Copies interface {
	// Memcpy copies between any two addresses under unified addressing.
	//cu:call cuMemcpy 4000 (dst, src, bytes)
	Memcpy(ctx Context, dst, src DevicePtr, bytes uintptr) error
	// MemcpyAsync is Memcpy, stream-ordered.
	//cu:call cuMemcpyAsync 4000 (dst, src, bytes, stream) context=stream
	MemcpyAsync(ctx Context, dst, src DevicePtr, bytes uintptr, stream Stream) error
	// MemcpyHtoD copies host to device.
	//cu:call cuMemcpyHtoD_v2 3020 (dst, src, bytes)
	MemcpyHtoD(ctx Context, dst DevicePtr, src HostPtr, bytes uintptr) error
	// MemcpyHtoDAsync is MemcpyHtoD, stream-ordered when src is page-locked. From
	// pageable memory it returns when src has been read.
	//cu:call cuMemcpyHtoDAsync_v2 3020 (dst, src, bytes, stream) context=stream
	MemcpyHtoDAsync(ctx Context, dst DevicePtr, src HostPtr, bytes uintptr, stream Stream) error
	// MemcpyDtoH copies device to host.
	//cu:call cuMemcpyDtoH_v2 3020 (dst, src, bytes)
	MemcpyDtoH(ctx Context, dst HostPtr, src DevicePtr, bytes uintptr) error
	// MemcpyDtoHAsync is MemcpyDtoH, stream-ordered when dst is page-locked. To
	// pageable memory it returns when the data has arrived.
	//cu:call cuMemcpyDtoHAsync_v2 3020 (dst, src, bytes, stream) context=stream
	MemcpyDtoHAsync(ctx Context, dst HostPtr, src DevicePtr, bytes uintptr, stream Stream) error
	// MemcpyDtoD copies within a device; it does not wait for the copy.
	//cu:call cuMemcpyDtoD_v2 3020 (dst, src, bytes)
	MemcpyDtoD(ctx Context, dst, src DevicePtr, bytes uintptr) error
	// MemcpyDtoDAsync is MemcpyDtoD on a stream.
	//cu:call cuMemcpyDtoDAsync_v2 3020 (dst, src, bytes, stream) context=stream
	MemcpyDtoDAsync(ctx Context, dst, src DevicePtr, bytes uintptr, stream Stream) error
	// MemcpyPeer copies between the devices of two contexts.
	//cu:call cuMemcpyPeer 4000 (dst, dstCtx, src, srcCtx, bytes)
	MemcpyPeer(ctx Context, dst DevicePtr, dstCtx Context, src DevicePtr, srcCtx Context, bytes uintptr) error
	// MemcpyPeerAsync is MemcpyPeer, stream-ordered.
	//cu:call cuMemcpyPeerAsync 4000 (dst, dstCtx, src, srcCtx, bytes, stream)
	MemcpyPeerAsync(ctx Context, dst DevicePtr, dstCtx Context, src DevicePtr, srcCtx Context, bytes uintptr, stream Stream) error
	// MemcpyBatchAsync makes several copies between any two addresses each, in the
	// order of the stream but in none among themselves. The lists are of one length.
	// The default stream cannot be used.
	//cu:hand cuMemcpyBatchAsync 12080
	MemcpyBatchAsync(ctx Context, dsts, srcs []DevicePtr, sizes []uintptr, stream Stream) error
	// Memcpy2D copies a rectangle.
	//cu:call cuMemcpy2D_v2 3020 (p)
	Memcpy2D(ctx Context, p *Memcpy2D) error
	// Memcpy2DAsync is Memcpy2D, stream-ordered.
	//cu:call cuMemcpy2DAsync_v2 3020 (p, stream)
	Memcpy2DAsync(ctx Context, p *Memcpy2D, stream Stream) error
	// Memcpy3D copies a box.
	//cu:call cuMemcpy3D_v2 3020 (p)
	Memcpy3D(ctx Context, p *Memcpy3D) error
	// Memcpy3DAsync is Memcpy3D, stream-ordered.
	//cu:call cuMemcpy3DAsync_v2 3020 (p, stream)
	Memcpy3DAsync(ctx Context, p *Memcpy3D, stream Stream) error
	// MemsetD8 fills n bytes.
	//cu:call cuMemsetD8_v2 3020 (dst, value, n)
	MemsetD8(ctx Context, dst DevicePtr, value uint8, n uintptr) error
	// MemsetD16 fills n 16-bit words; dst is aligned to 2.
	//cu:call cuMemsetD16_v2 3020 (dst, value, n)
	MemsetD16(ctx Context, dst DevicePtr, value uint16, n uintptr) error
	// MemsetD32 fills n 32-bit words; dst is aligned to 4.
	//cu:call cuMemsetD32_v2 3020 (dst, value, n)
	MemsetD32(ctx Context, dst DevicePtr, value uint32, n uintptr) error
	// MemsetD8Async is MemsetD8, stream-ordered.
	//cu:call cuMemsetD8Async 3020 (dst, value, n, stream) context=stream
	MemsetD8Async(ctx Context, dst DevicePtr, value uint8, n uintptr, stream Stream) error
	// MemsetD16Async is MemsetD16, stream-ordered.
	//cu:call cuMemsetD16Async 3020 (dst, value, n, stream) context=stream
	MemsetD16Async(ctx Context, dst DevicePtr, value uint16, n uintptr, stream Stream) error
	// MemsetD32Async is MemsetD32, stream-ordered.
	//cu:call cuMemsetD32Async 3020 (dst, value, n, stream) context=stream
	MemsetD32Async(ctx Context, dst DevicePtr, value uint32, n uintptr, stream Stream) error
}

// Streams covers queues of work and host functions in them.
type Streams interface {
	// StreamCreate makes a stream of priority 0.
	//cu:call cuStreamCreate 2000 (*stream, flags)
	StreamCreate(ctx Context, flags StreamFlags) (stream Stream, err error)
	// StreamCreateWithPriority makes a stream; a priority out of range is clamped.
	//cu:call cuStreamCreateWithPriority 5050 (*stream, flags, priority)
	StreamCreateWithPriority(ctx Context, flags StreamFlags, priority int32) (stream Stream, err error)
	// StreamDestroy gives the stream up at once; work in it goes on to its end.
	//cu:hand cuStreamDestroy_v2 4000
	StreamDestroy(ctx Context, stream Stream) error
	// StreamQuery is nil when all work is done and CUDA_ERROR_NOT_READY before.
	//cu:hand cuStreamQuery 2000
	StreamQuery(ctx Context, stream Stream) error
	// StreamSynchronize waits for all work in the stream.
	//cu:hand cuStreamSynchronize 2000
	StreamSynchronize(ctx Context, stream Stream) error
	// StreamWaitEvent holds later work of the stream back until what the event
	// recorded is done. An event never recorded holds nothing back.
	//cu:call cuStreamWaitEvent 3020 (stream, event, flags) context=stream
	StreamWaitEvent(ctx Context, stream Stream, event Event, flags EventWaitFlags) error
	// StreamGetPriority reads the priority.
	//cu:call cuStreamGetPriority 5050 (stream, *priority)
	StreamGetPriority(ctx Context, stream Stream) (priority int32, err error)
	// StreamGetFlags reads the flags.
	//cu:call cuStreamGetFlags 5050 (stream, *flags)
	StreamGetFlags(ctx Context, stream Stream) (flags StreamFlags, err error)
	// StreamGetCtx is the context of a stream.
	//cu:call cuStreamGetCtx 9020 (stream, *of)
	StreamGetCtx(ctx Context, stream Stream) (of Context, err error)
	// StreamGetId is a number that no other stream of the process has or had. The
	// default streams have one too.
	//cu:call cuStreamGetId 12000 (stream, *id)
	StreamGetId(ctx Context, stream Stream) (id uint64, err error)
	// LaunchHostFunc runs fn on a thread of the driver at this point of the stream;
	// later work of the stream waits for it. fn must not call the driver.
	//cu:hand cuLaunchHostFunc 10000
	LaunchHostFunc(ctx Context, stream Stream, fn func()) error
	// StreamBeginCapture turns the stream into a recorder of a graph.
	//cu:call cuStreamBeginCapture_v2 10010 (stream, mode)
	StreamBeginCapture(ctx Context, stream Stream, mode StreamCaptureMode) error
	// StreamEndCapture ends that and is the graph.
	//cu:call cuStreamEndCapture 10000 (stream, *graph)
	StreamEndCapture(ctx Context, stream Stream) (graph Graph, err error)
	// StreamIsCapturing says whether the stream records.
	//cu:call cuStreamIsCapturing 10000 (stream, *status)
	StreamIsCapturing(ctx Context, stream Stream) (status StreamCaptureStatus, err error)
}

// Events covers marks in streams.
type Events interface {
	// EventCreate makes an event. Until it is recorded it counts as done.
	//cu:call cuEventCreate 2000 (*event, flags)
	EventCreate(ctx Context, flags EventFlags) (event Event, err error)
	// EventRecord makes the event stand for the work now in the stream.
	//cu:call cuEventRecord 2000 (event, stream) context=stream
	EventRecord(ctx Context, event Event, stream Stream) error
	// EventRecordWithFlags is EventRecord with flags.
	//cu:call cuEventRecordWithFlags 11010 (event, stream, flags)
	EventRecordWithFlags(ctx Context, event Event, stream Stream, flags EventRecordFlags) error
	// EventQuery is nil when that work is done and CUDA_ERROR_NOT_READY before.
	//cu:call cuEventQuery 2000 (event) context=event
	EventQuery(ctx Context, event Event) error
	// EventSynchronize waits for that work.
	//cu:call cuEventSynchronize 2000 (event)
	EventSynchronize(ctx Context, event Event) error
	// EventElapsedTime is the time between two events in milliseconds, good to
	// about half a microsecond.
	//cu:call cuEventElapsedTime 2000 (*ms, start, end)
	EventElapsedTime(ctx Context, start, end Event) (ms float32, err error)
	// EventDestroy gives the event up.
	//cu:call cuEventDestroy_v2 4000 (event)
	EventDestroy(ctx Context, event Event) error
}

// Modules covers code: PTX in, kernels and variables out, and their launch.
type Modules interface {
	// ModuleLoadData compiles PTX text (or loads a cubin or fatbin) and is the
	// module. PTX that does not compile gives a [*JITError] with the compiler's log.
	//cu:hand cuModuleLoadDataEx 2010
	ModuleLoadData(ctx Context, image []byte) (module Module, err error)
	// ModuleUnload gives the module, its kernels and its variables up.
	//cu:call cuModuleUnload 2000 (module)
	ModuleUnload(ctx Context, module Module) error
	// ModuleGetFunction is a kernel by name.
	//cu:call cuModuleGetFunction 2000 (*f, module, name)
	ModuleGetFunction(ctx Context, module Module, name string) (f Function, err error)
	// ModuleGetGlobal is the address and size in bytes of a variable by name.
	//cu:call cuModuleGetGlobal_v2 3020 (*dptr, *bytes, module, name)
	ModuleGetGlobal(ctx Context, module Module, name string) (dptr DevicePtr, bytes uintptr, err error)
	// FuncGetAttribute reads a property of a kernel.
	//cu:call cuFuncGetAttribute 2020 (*value, attrib, f)
	FuncGetAttribute(ctx Context, attrib FunctionAttribute, f Function) (value int32, err error)
	// FuncSetAttribute sets one.
	//cu:call cuFuncSetAttribute 9000 (f, attrib, value)
	FuncSetAttribute(ctx Context, f Function, attrib FunctionAttribute, value int32) error
	// FuncGetParamInfo is the offset and size in bytes of parameter index from 0;
	// CUDA_ERROR_INVALID_VALUE past the last.
	//cu:call cuFuncGetParamInfo 12040 (f, index, *offset, *size)
	FuncGetParamInfo(ctx Context, f Function, index uintptr) (offset, size uintptr, err error)
	// LaunchKernel runs f. params is the packed parameter buffer, each value at its
	// offset (CU_LAUNCH_PARAM_BUFFER_POINTER); it is copied before the call
	// returns. Stream-ordered.
	//cu:hand cuLaunchKernel 4000 context=stream
	LaunchKernel(ctx Context, f Function, grid, block Dim3, sharedMemBytes uint32, stream Stream, params []byte) error
}

// Graphs covers recorded work that is launched as one.
type Graphs interface {
	// GraphDestroy gives a graph up; executable graphs made from it live on.
	//cu:call cuGraphDestroy 10000 (graph)
	GraphDestroy(graph Graph) error
	// GraphInstantiate makes a graph executable; flags 0.
	//cu:call cuGraphInstantiateWithFlags 11040 (*exec, graph, flags)
	GraphInstantiate(ctx Context, graph Graph, flags uint64) (exec GraphExec, err error)
	// GraphExecDestroy gives an executable graph up; a running launch goes on.
	//cu:call cuGraphExecDestroy 10000 (exec)
	GraphExecDestroy(exec GraphExec) error
	// GraphLaunch runs it. Stream-ordered; launches of one exec follow each other.
	//cu:call cuGraphLaunch 10000 (exec, stream) context=stream
	GraphLaunch(ctx Context, exec GraphExec, stream Stream) error
	// GraphGetNodes is all nodes of a graph.
	//cu:hand cuGraphGetNodes 10000
	GraphGetNodes(graph Graph) ([]GraphNode, error)
	// GraphNodeGetType is the kind of a node.
	//cu:call cuGraphNodeGetType 10000 (node, *kind)
	GraphNodeGetType(node GraphNode) (kind GraphNodeType, err error)
	// GraphExecUpdate gives exec the parameters of a graph of the same shape;
	// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE when the shapes differ.
	//cu:hand cuGraphExecUpdate_v2 12000
	GraphExecUpdate(ctx Context, exec GraphExec, graph Graph) error
	// GraphExecKernelNodeSetParams changes one kernel of exec; node is of the graph
	// that exec was made from.
	//cu:hand cuGraphExecKernelNodeSetParams_v2 12000
	GraphExecKernelNodeSetParams(ctx Context, exec GraphExec, node GraphNode, f Function, grid, block Dim3, sharedMemBytes uint32, params []byte) error
}
