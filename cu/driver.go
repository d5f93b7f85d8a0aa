package cu

// Driver is the CUDA driver API. The embedded interfaces group its functions as the
// manual does. A wrapper implements all of them.
//
// A call that a device or a library cannot do returns the error of CUDA, which wraps
// [ErrorNotSupported] or [ErrorInvalidValue]. If the library lacks the function, the
// error is a [*NotSupportedError].
//
// Every method is safe for concurrent use. Errors wrap one [Result]; success is nil.
// "Stream-ordered" below means that the call queues work in the stream and may return
// before the work is done. Memory that the work uses must stay valid until the stream
// has passed the work, and memory that it reads must not change.
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
	Links
	Contexts
	Memory
	ManagedMemory
	ManagedPlaces
	MemPools
	PoolPlaces
	VirtualMemory
	Sharing
	Copies
	Streams
	ValueWaits
	Events
	Modules
	Occupancy
	Linking
	Graphs
	GraphMemory
	Batches
}

// Devices covers initialization, the driver's version and the properties of devices.
// These calls need no context.
//
//cu:also cuLogsDumpToMemory 12090
type Devices interface {
	// Init starts the driver. flags must be 0. Further calls do nothing.
	//cu:hand cuInit 2000
	Init(flags uint32) error
	// DriverGetVersion returns the newest CUDA version that the driver supports: 13000
	// is 13.0.
	//cu:call cuDriverGetVersion 2020 (*version)
	DriverGetVersion() (version int32, err error)
	// DeviceGetCount returns the number of devices. It can be 0 without an error.
	//cu:call cuDeviceGetCount 2000 (*count)
	DeviceGetCount() (count int32, err error)
	// DeviceGet returns the device with an ordinal, which starts at 0.
	//cu:call cuDeviceGet 2000 (*device, ordinal)
	DeviceGet(ordinal int32) (device Device, err error)
	// DeviceGetName returns the device's product name.
	//cu:hand cuDeviceGetName 2000
	DeviceGetName(dev Device) (name string, err error)
	// DeviceGetPCIBusId returns the device's PCI address as "domain:bus:device.function".
	//cu:hand cuDeviceGetPCIBusId 4010
	DeviceGetPCIBusId(dev Device) (id string, err error)
	// DeviceGetUuid returns the 16 bytes that identify the device. For a device in MIG
	// mode they identify its MIG compute instance.
	//cu:call cuDeviceGetUuid_v2 11040 (*uuid, dev)
	DeviceGetUuid(dev Device) (uuid [16]byte, err error)
	// DeviceTotalMem returns the size of the device's memory in bytes.
	//cu:call cuDeviceTotalMem_v2 3020 (*bytes, dev)
	DeviceTotalMem(dev Device) (bytes uintptr, err error)
	// DeviceGetAttribute returns one property of the device.
	//cu:call cuDeviceGetAttribute 2000 (*value, attrib, dev)
	DeviceGetAttribute(attrib DeviceAttribute, dev Device) (value int32, err error)
	// DeviceCanAccessPeer returns 1 if contexts on dev can get access to memory of
	// peerDev.
	//cu:call cuDeviceCanAccessPeer 4000 (*can, dev, peerDev)
	DeviceCanAccessPeer(dev, peerDev Device) (can int32, err error)
}

// Links covers what the links between devices, and between a device and the host, can do. These
// calls need no context.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__PEER__ACCESS.html
type Links interface {
	// DeviceGetP2PAttribute returns a property of the link from srcDevice to dstDevice. A device
	// has no link to itself: CUDA_ERROR_INVALID_DEVICE.
	//cu:call cuDeviceGetP2PAttribute 8000 (*value, attrib, srcDevice, dstDevice)
	DeviceGetP2PAttribute(attrib P2PAttribute, srcDevice, dstDevice Device) (value int32, err error)
	// DeviceGetHostAtomicCapabilities returns, for each operation, the forms of it that the link
	// between the device and the host carries natively: without them, atomic operations of the
	// device and of the host on one word are not atomic to each other. 0 stands for none. An
	// empty list and unknown operations are CUDA_ERROR_INVALID_VALUE. Older drivers have
	// DeviceAttributeHostNativeAtomicSupported for all forms together.
	//cu:hand cuDeviceGetHostAtomicCapabilities 13000
	DeviceGetHostAtomicCapabilities(operations []AtomicOperation, dev Device) (capabilities []AtomicCapabilities, err error)
	// DeviceGetP2PAtomicCapabilities is DeviceGetHostAtomicCapabilities for the link from
	// srcDevice to dstDevice. Older drivers have P2PAttributeNativeAtomicSupported.
	//cu:hand cuDeviceGetP2PAtomicCapabilities 13000
	DeviceGetP2PAtomicCapabilities(operations []AtomicOperation, srcDevice, dstDevice Device) (capabilities []AtomicCapabilities, err error)
}

// Contexts covers primary and created contexts. A call on a destroyed or zero
// context is CUDA_ERROR_INVALID_CONTEXT.
//
//cu:also cuCtxSetCurrent 4000
//cu:also cuCtxGetCurrent 4000
//cu:also cuCtxPushCurrent_v2 4000
//cu:also cuCtxPopCurrent_v2 4000
type Contexts interface {
	// DevicePrimaryCtxRetain takes a reference to the device's primary context. It
	// creates the context if it does not exist.
	//cu:call cuDevicePrimaryCtxRetain 7000 (*ctx, dev)
	DevicePrimaryCtxRetain(dev Device) (ctx Context, err error)
	// DevicePrimaryCtxRelease drops a reference. The last release destroys the context
	// and frees everything created in it.
	//cu:call cuDevicePrimaryCtxRelease_v2 11000 (dev)
	DevicePrimaryCtxRelease(dev Device) error
	// DevicePrimaryCtxSetFlags sets the flags of the primary context, active or not.
	//cu:call cuDevicePrimaryCtxSetFlags_v2 11000 (dev, flags)
	DevicePrimaryCtxSetFlags(dev Device, flags CtxFlags) error
	// DevicePrimaryCtxGetState returns the flags, and 1 if the context is active.
	//cu:call cuDevicePrimaryCtxGetState 7000 (dev, *flags, *active)
	DevicePrimaryCtxGetState(dev Device) (flags CtxFlags, active int32, err error)
	// DevicePrimaryCtxReset destroys the primary context, whatever references it has.
	// CUDA documents it as the way out of a sticky error.
	//cu:call cuDevicePrimaryCtxReset_v2 11000 (dev)
	DevicePrimaryCtxReset(dev Device) error
	// CtxCreate creates a context. Unlike the C function it does not change the calling
	// thread's current context.
	//cu:hand cuCtxCreate_v2 3020
	CtxCreate(flags CtxFlags, dev Device) (ctx Context, err error)
	// CtxDestroy destroys a created context and frees everything created in it.
	//cu:hand cuCtxDestroy_v2 4000
	CtxDestroy(ctx Context) error
	// CtxSynchronize waits until all work of the context is done.
	//cu:hand cuCtxSynchronize 2000
	CtxSynchronize(ctx Context) error
	// CtxGetFlags returns the flags of the context.
	//cu:call cuCtxGetFlags 7000 (*flags)
	CtxGetFlags(ctx Context) (flags CtxFlags, err error)
	// CtxGetDevice returns the device of the context.
	//cu:call cuCtxGetDevice 2000 (*dev)
	CtxGetDevice(ctx Context) (dev Device, err error)
	// CtxGetStreamPriorityRange returns the range of priorities that streams can have.
	// Lower numbers run first. Both are 0 if the device has no priorities.
	//cu:call cuCtxGetStreamPriorityRange 5050 (*least, *greatest)
	CtxGetStreamPriorityRange(ctx Context) (least, greatest int32, err error)
	// CtxGetLimit returns a limit.
	//cu:call cuCtxGetLimit 3010 (*value, limit)
	CtxGetLimit(ctx Context, limit Limit) (value uintptr, err error)
	// CtxSetLimit requests a limit. The driver may round it.
	//cu:call cuCtxSetLimit 3010 (limit, value)
	CtxSetLimit(ctx Context, limit Limit, value uintptr) error
	// CtxEnablePeerAccess lets ctx access memory of peer. flags must be 0.
	//cu:call cuCtxEnablePeerAccess 4000 (peer, flags)
	CtxEnablePeerAccess(ctx, peer Context, flags uint32) error
	// CtxDisablePeerAccess ends that access.
	//cu:call cuCtxDisablePeerAccess 4000 (peer)
	CtxDisablePeerAccess(ctx, peer Context) error
}

// Memory covers device memory, page-locked memory and the attributes of addresses.
type Memory interface {
	// MemAlloc allocates bytes of device memory, aligned to 256. Zero bytes are
	// CUDA_ERROR_INVALID_VALUE.
	//cu:call cuMemAlloc_v2 3020 (*dptr, bytes)
	MemAlloc(ctx Context, bytes uintptr) (dptr DevicePtr, err error)
	// MemAllocPitch allocates height rows of width bytes. Each row starts at a multiple
	// of the pitch that it returns. elementSize is 4, 8 or 16.
	//cu:call cuMemAllocPitch_v2 3020 (*dptr, *pitch, width, height, elementSize)
	MemAllocPitch(ctx Context, width, height uintptr, elementSize uint32) (dptr DevicePtr, pitch uintptr, err error)
	// MemFree frees device or managed memory. It waits for work that may use it.
	//cu:call cuMemFree_v2 3020 (dptr)
	MemFree(ctx Context, dptr DevicePtr) error
	// MemGetInfo returns the device's free and total memory in bytes.
	//cu:call cuMemGetInfo_v2 3020 (*free, *total)
	MemGetInfo(ctx Context) (free, total uintptr, err error)
	// MemGetAddressRange returns the allocation that contains an address.
	//cu:call cuMemGetAddressRange_v2 3020 (*base, *size, dptr)
	MemGetAddressRange(ctx Context, dptr DevicePtr) (base DevicePtr, size uintptr, err error)
	// MemHostAlloc allocates bytes of page-locked memory.
	//cu:call cuMemHostAlloc 2020 (*p, bytes, flags)
	MemHostAlloc(ctx Context, bytes uintptr, flags MemHostAllocFlags) (p HostPtr, err error)
	// MemFreeHost frees memory of MemHostAlloc.
	//cu:call cuMemFreeHost 2000 (p)
	MemFreeHost(ctx Context, p HostPtr) error
	// MemHostGetDevicePointer returns the device address of mapped page-locked memory.
	// flags must be 0.
	//cu:call cuMemHostGetDevicePointer_v2 3020 (*dptr, p, flags)
	MemHostGetDevicePointer(ctx Context, p HostPtr, flags uint32) (dptr DevicePtr, err error)
	// MemHostGetFlags returns the flags that MemHostAlloc got.
	//cu:call cuMemHostGetFlags 2030 (*flags, p)
	MemHostGetFlags(ctx Context, p HostPtr) (flags MemHostAllocFlags, err error)
	// MemHostRegister page-locks existing memory.
	//cu:call cuMemHostRegister_v2 6050 (p, bytes, flags)
	MemHostRegister(ctx Context, p HostPtr, bytes uintptr, flags MemHostRegisterFlags) error
	// MemHostUnregister undoes MemHostRegister. p is the address that was registered.
	//cu:call cuMemHostUnregister 4000 (p)
	MemHostUnregister(ctx Context, p HostPtr) error
	// PointerGetAttributes returns what the driver knows about an address. For an
	// address that it does not know, the attributes are zero, with InvalidDevice, and
	// there is no error.
	//cu:hand cuPointerGetAttributes 7000
	PointerGetAttributes(ctx Context, ptr DevicePtr) (PointerAttributes, error)
}

// PointerAttributes is what a driver knows about an address (CU_POINTER_ATTRIBUTE_*).
type PointerAttributes struct {
	Context       Context    // of the allocation or registration; 0 for none or several
	MemoryType    MemoryType // host or device; 0 for memory the driver does not know
	DevicePointer DevicePtr  // the address for kernels; 0 for none
	HostPointer   HostPtr    // the address for the host; nil for none
	Device        Device     // CPUDevice or InvalidDevice if there is none
	IsManaged     bool
	RangeStart    DevicePtr // start of the allocation or registration
	RangeSize     uintptr   // its size in bytes
	Mapped        bool      // has a device address
	BufferID      uint64    // unique to the allocation in this process
}

// ManagedMemory covers memory that host and device use at one address.
type ManagedMemory interface {
	// MemAllocManaged allocates bytes of managed memory.
	//cu:call cuMemAllocManaged 6000 (*dptr, bytes, flags)
	MemAllocManaged(ctx Context, bytes uintptr, flags MemAttachFlags) (dptr DevicePtr, err error)
	// MemPrefetchAsync moves pages to a device, or to the host with CPUDevice. It is
	// stream-ordered.
	//cu:call cuMemPrefetchAsync 8000 (dptr, bytes, dst, stream)
	MemPrefetchAsync(ctx Context, dptr DevicePtr, bytes uintptr, dst Device, stream Stream) error
	// MemAdvise advises the driver about the use of pages.
	//cu:call cuMemAdvise 8000 (dptr, bytes, advice, dev)
	MemAdvise(ctx Context, dptr DevicePtr, bytes uintptr, advice MemAdvice, dev Device) error
	// MemRangeGetAttribute reads advice. Read-mostly is one number, a location is one
	// device. Accessed-by fills data with devices, followed by InvalidDevice.
	//cu:hand cuMemRangeGetAttribute 8000
	MemRangeGetAttribute(ctx Context, data []int32, attribute MemRangeAttribute, dptr DevicePtr, bytes uintptr) error
	// StreamAttachMemAsync changes which streams may access managed memory. bytes is 0
	// or the size of the allocation. It is stream-ordered.
	//cu:hand cuStreamAttachMemAsync 6000
	StreamAttachMemAsync(ctx Context, stream Stream, dptr DevicePtr, bytes uintptr, flags MemAttachFlags) error
}

// ManagedPlaces covers managed memory at places that are not only devices, and lists of ranges of
// it. A place of the host can be one of its NUMA nodes. Ranges of prefetches and advice are rounded
// to pages of the CPU. The manual does not say so of discards: discard whole pages only. The calls
// for lists need DeviceAttributeConcurrentManagedAccess of every device, and a stream that is
// not the default stream. Their flags must be 0.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__UNIFIED.html
type ManagedPlaces interface {
	// MemPrefetchAsyncV2 is MemPrefetchAsync to a place. flags must be 0. It is stream-ordered.
	//cu:hand cuMemPrefetchAsync_v2 12020
	MemPrefetchAsyncV2(ctx Context, dptr DevicePtr, bytes uintptr, location MemLocation, flags uint32, stream Stream) error
	// MemAdviseV2 is MemAdvise about a place. Accessed-by takes devices and the host, not one of
	// its NUMA nodes. Read-mostly, and what unsets a preferred location, ignore the place.
	//cu:hand cuMemAdvise_v2 12020
	MemAdviseV2(ctx Context, dptr DevicePtr, bytes uintptr, advice MemAdvice, location MemLocation) error
	// MemPrefetchBatchAsync makes several prefetches, which have no order among themselves. It is
	// stream-ordered as a whole. dptrs and sizes have one length, locations and firsts another:
	// locations[k] is for the ranges from firsts[k] on. firsts begins with 0 and ascends.
	//cu:hand cuMemPrefetchBatchAsync 13000
	MemPrefetchBatchAsync(ctx Context, dptrs []DevicePtr, sizes []uintptr, locations []MemLocation, firsts []uintptr, flags uint64, stream Stream) error
	// MemDiscardBatchAsync says that the contents of ranges are not needed any more: the driver
	// need not move them. It is stream-ordered. What is read from a range is not defined until it
	// is written. A prefetch of it ends the discard and need not bring the old contents back.
	//cu:hand cuMemDiscardBatchAsync 13000
	MemDiscardBatchAsync(ctx Context, dptrs []DevicePtr, sizes []uintptr, flags uint64, stream Stream) error
	// MemDiscardAndPrefetchBatchAsync is MemDiscardBatchAsync followed by MemPrefetchBatchAsync,
	// in one.
	//cu:hand cuMemDiscardAndPrefetchBatchAsync 13000
	MemDiscardAndPrefetchBatchAsync(ctx Context, dptrs []DevicePtr, sizes []uintptr, locations []MemLocation, firsts []uintptr, flags uint64, stream Stream) error
}

// MemPools covers stream-ordered allocation.
type MemPools interface {
	// MemAllocAsync allocates device memory from the device's current pool. The memory
	// is valid from this point of the stream on.
	//cu:call cuMemAllocAsync 11020 (*dptr, bytes, stream)
	MemAllocAsync(ctx Context, bytes uintptr, stream Stream) (dptr DevicePtr, err error)
	// MemAllocFromPoolAsync is MemAllocAsync with a given pool.
	//cu:call cuMemAllocFromPoolAsync 11020 (*dptr, bytes, pool, stream)
	MemAllocFromPoolAsync(ctx Context, bytes uintptr, pool MemPool, stream Stream) (dptr DevicePtr, err error)
	// MemFreeAsync frees memory at this point of the stream.
	//cu:call cuMemFreeAsync 11020 (dptr, stream)
	MemFreeAsync(ctx Context, dptr DevicePtr, stream Stream) error
	// DeviceGetDefaultMemPool returns the pool that a device has at the start.
	//cu:call cuDeviceGetDefaultMemPool 11020 (*pool, dev)
	DeviceGetDefaultMemPool(dev Device) (pool MemPool, err error)
	// DeviceGetMemPool returns the device's current pool.
	//cu:call cuDeviceGetMemPool 11020 (*pool, dev)
	DeviceGetMemPool(dev Device) (pool MemPool, err error)
	// DeviceSetMemPool makes a pool the device's current pool.
	//cu:call cuDeviceSetMemPool 11020 (dev, pool)
	DeviceSetMemPool(dev Device, pool MemPool) error
	// MemPoolCreate creates a pool of device memory, or, where the driver and the device can, of
	// page-locked memory of the host or of a NUMA node of it, or of managed memory.
	//cu:call cuMemPoolCreate 11020 (*pool, props)
	MemPoolCreate(props *MemPoolProps) (pool MemPool, err error)
	// MemPoolDestroy frees a pool as soon as its last allocation is freed.
	//cu:call cuMemPoolDestroy 11020 (pool)
	MemPoolDestroy(pool MemPool) error
	// MemPoolTrimTo frees unused memory of the pool, but keeps at least keep bytes.
	//cu:call cuMemPoolTrimTo 11020 (pool, keep)
	MemPoolTrimTo(pool MemPool, keep uintptr) error
	// MemPoolGetAttribute returns a setting or counter.
	//cu:hand cuMemPoolGetAttribute 11020
	MemPoolGetAttribute(pool MemPool, attr MemPoolAttribute) (value uint64, err error)
	// MemPoolSetAttribute changes a setting, or resets a high-water mark with 0.
	//cu:hand cuMemPoolSetAttribute 11020
	MemPoolSetAttribute(pool MemPool, attr MemPoolAttribute, value uint64) error
	// MemPoolSetAccess changes which devices can use the memory of a pool: what it has now
	// and what it gets later. A new pool is open to its own device alone, whose access
	// cannot be taken away. An access that the device cannot have changes nothing.
	//cu:hand cuMemPoolSetAccess 11020
	MemPoolSetAccess(pool MemPool, access []MemAccessDesc) error
	// MemPoolGetAccess returns how the device at location can use the memory of a pool.
	//cu:call cuMemPoolGetAccess 11020 (*flags, pool, location)
	MemPoolGetAccess(pool MemPool, location *MemLocation) (flags MemAccessFlags, err error)
	// MemPoolExportToShareableHandle returns a new file descriptor that stands for the pool, also
	// in another process. The caller closes it. The pool was created for this type of handle,
	// which is MemHandleTypePosixFileDescriptor: other types are CUDA_ERROR_NOT_SUPPORTED. flags
	// must be 0.
	//cu:hand cuMemPoolExportToShareableHandle 11020
	MemPoolExportToShareableHandle(pool MemPool, handleType MemAllocationHandleType, flags uint64) (fd int32, err error)
	// MemPoolImportFromShareableHandle returns the pool that a file descriptor stands for. It does
	// not close the descriptor. Nothing can be allocated from the pool: its memory is that of
	// MemPoolImportPointer. flags must be 0.
	//cu:hand cuMemPoolImportFromShareableHandle 11020
	MemPoolImportFromShareableHandle(fd int32, handleType MemAllocationHandleType, flags uint64) (pool MemPool, err error)
	// MemPoolExportPointer describes an allocation of an exported pool, for MemPoolImportPointer
	// in another process.
	//cu:call cuMemPoolExportPointer 11020 (*data, dptr)
	MemPoolExportPointer(dptr DevicePtr) (data MemPoolPtrExportData, err error)
	// MemPoolImportPointer returns the address of memory of an imported pool. MemFree or
	// MemFreeAsync ends this use of the memory, before the exporting process frees it.
	//cu:call cuMemPoolImportPointer 11020 (*dptr, pool, data)
	MemPoolImportPointer(pool MemPool, data *MemPoolPtrExportData) (dptr DevicePtr, err error)
}

// PoolPlaces covers the default and the current pool of each place and kind of memory (CUDA 13.0).
// kind is MemAllocationTypePinned or MemAllocationTypeManaged. Pinned memory is that of a device, of
// the host (whose ID is ignored) or of a NUMA node of it. Managed memory can have no preferred place
// besides: MemLocationTypeNone. A place that is nil or does not exist is CUDA_ERROR_INVALID_VALUE.
// These calls need no context.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html
type PoolPlaces interface {
	// MemGetDefaultMemPool returns the pool that a place has at the start. It cannot be destroyed.
	//cu:call cuMemGetDefaultMemPool 13000 (*pool, location, kind)
	MemGetDefaultMemPool(location *MemLocation, kind uint32) (pool MemPool, err error)
	// MemGetMemPool returns the pool that was set last, or the default pool.
	//cu:call cuMemGetMemPool 13000 (*pool, location, kind)
	MemGetMemPool(location *MemLocation, kind uint32) (pool MemPool, err error)
	// MemSetMemPool makes a pool the current one of a place. The pool must be of that place and
	// kind. For pinned memory of a device it is DeviceSetMemPool.
	//cu:call cuMemSetMemPool 13000 (location, kind, pool)
	MemSetMemPool(location *MemLocation, kind uint32, pool MemPool) error
}

// VirtualMemory covers addresses and memory apart from each other: addresses are
// reserved, memory is created, and the memory is mapped at the addresses. Created memory
// can be shared with other processes by a file descriptor.
//
// Sizes, offsets and addresses of memory are multiples of the granularity that
// MemGetAllocationGranularity returns. Mapped memory has no access until MemSetAccess gives
// it. Memory exists until every handle of it is released, in every process, and every
// mapping of it is unmapped, also if the context has ended in which it was made.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
type VirtualMemory interface {
	// MemAddressReserve reserves bytes of addresses, a multiple of the host's page. alignment
	// is a power of two, or 0. addr is a hint, or 0. flags must be 0.
	//cu:call cuMemAddressReserve 10020 (*dptr, bytes, alignment, addr, flags)
	MemAddressReserve(ctx Context, bytes, alignment uintptr, addr DevicePtr, flags uint64) (dptr DevicePtr, err error)
	// MemAddressFree frees addresses. dptr and bytes are those of the whole reservation,
	// and nothing is mapped in it.
	//cu:call cuMemAddressFree 10020 (dptr, bytes)
	MemAddressFree(ctx Context, dptr DevicePtr, bytes uintptr) error
	// MemCreate creates memory that is mapped nowhere. flags must be 0.
	//cu:call cuMemCreate 10020 (*handle, bytes, props, flags)
	MemCreate(ctx Context, bytes uintptr, props *MemAllocationProp, flags uint64) (handle MemHandle, err error)
	// MemRelease gives a handle back. The memory lives on in its mappings.
	//cu:call cuMemRelease 10020 (handle)
	MemRelease(ctx Context, handle MemHandle) error
	// MemMap maps bytes of memory at reserved addresses where nothing is mapped. offset, in
	// the memory, and flags must be 0.
	//cu:call cuMemMap 10020 (dptr, bytes, offset, handle, flags)
	MemMap(ctx Context, dptr DevicePtr, bytes, offset uintptr, handle MemHandle, flags uint64) error
	// MemUnmap ends mappings. The range consists of whole mappings. It waits for work that
	// may use the memory.
	//cu:call cuMemUnmap 10020 (dptr, bytes)
	MemUnmap(ctx Context, dptr DevicePtr, bytes uintptr) error
	// MemSetAccess says which devices can use mapped memory, and how. Devices that are not
	// in the list keep what they have.
	//cu:hand cuMemSetAccess 10020
	MemSetAccess(ctx Context, dptr DevicePtr, bytes uintptr, access []MemAccessDesc) error
	// MemGetAccess returns how the device at location can use the memory at an address.
	//cu:hand cuMemGetAccess 10020
	MemGetAccess(ctx Context, location *MemLocation, dptr DevicePtr) (flags MemAccessFlags, err error)
	// MemGetAllocationGranularity returns the unit of sizes and addresses for memory with
	// the given properties.
	//cu:call cuMemGetAllocationGranularity 10020 (*granularity, props, option)
	MemGetAllocationGranularity(ctx Context, props *MemAllocationProp, option MemAllocationGranularity) (granularity uintptr, err error)
	// MemGetAllocationPropertiesFromHandle returns the properties that the memory was created
	// with.
	//cu:hand cuMemGetAllocationPropertiesFromHandle 10020
	MemGetAllocationPropertiesFromHandle(ctx Context, handle MemHandle) (props MemAllocationProp, err error)
	// MemRetainAllocationHandle returns the handle of the memory that is mapped at an address.
	// It needs a MemRelease of its own.
	//cu:call cuMemRetainAllocationHandle 11000 (*handle, addr)
	MemRetainAllocationHandle(ctx Context, addr DevicePtr) (handle MemHandle, err error)
	// MemExportToShareableHandle returns a new file descriptor that stands for the memory,
	// also in another process. The caller closes it. With an error fd means nothing. The memory was created for this type of
	// handle, which is MemHandleTypePosixFileDescriptor: other types are
	// CUDA_ERROR_NOT_SUPPORTED. flags must be 0.
	//cu:hand cuMemExportToShareableHandle 10020
	MemExportToShareableHandle(ctx Context, handle MemHandle, handleType MemAllocationHandleType, flags uint64) (fd int32, err error)
	// MemImportFromShareableHandle returns a handle of the memory that a file descriptor
	// stands for. It does not close the descriptor, and needs it no more. handleType is
	// MemHandleTypePosixFileDescriptor: other types are CUDA_ERROR_NOT_SUPPORTED.
	//cu:hand cuMemImportFromShareableHandle 10020
	MemImportFromShareableHandle(ctx Context, fd int32, handleType MemAllocationHandleType) (handle MemHandle, err error)
}

// Sharing covers memory and events that other processes use by a handle of 64 bytes, and
// ranges of memory that other devices use by a DMA-BUF descriptor. A handle goes to the
// other process in any way, and is good there while the exporting process keeps what it
// stands for.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
type Sharing interface {
	// IpcGetEventHandle returns the handle of an event, which was made with EventInterprocess
	// and EventDisableTiming.
	//cu:call cuIpcGetEventHandle 4010 (*handle, event)
	IpcGetEventHandle(ctx Context, event Event) (handle IpcEventHandle, err error)
	// IpcOpenEventHandle returns an event that is the event of another process. Both processes
	// can record it, and wait for it. EventDestroy frees it, before the exporting process
	// destroys its own.
	//cu:hand cuIpcOpenEventHandle 4010
	IpcOpenEventHandle(ctx Context, handle IpcEventHandle) (event Event, err error)
	// IpcGetMemHandle returns the handle of memory of MemAlloc. dptr is its start.
	//cu:call cuIpcGetMemHandle 4010 (*handle, dptr)
	IpcGetMemHandle(ctx Context, dptr DevicePtr) (handle IpcMemHandle, err error)
	// IpcOpenMemHandle returns the address of memory of another process. flags must be
	// IpcMemLazyEnablePeerAccess. Opening it again in the same context returns the same
	// address, and needs one more IpcCloseMemHandle.
	//cu:hand cuIpcOpenMemHandle_v2 11000
	IpcOpenMemHandle(ctx Context, handle IpcMemHandle, flags IpcMemFlags) (dptr DevicePtr, err error)
	// IpcCloseMemHandle ends one use of memory that IpcOpenMemHandle has returned. The
	// exporting process closes its memory after all others.
	//cu:call cuIpcCloseMemHandle 4010 (dptr)
	IpcCloseMemHandle(ctx Context, dptr DevicePtr) error
	// MemGetHandleForAddressRange returns a new file descriptor of a DMA-BUF, by which other
	// devices of the machine use device memory. The caller closes it. dptr and bytes are
	// multiples of the host's page. handleType is MemRangeHandleTypeDMABufFD: other types are
	// CUDA_ERROR_NOT_SUPPORTED.
	//cu:hand cuMemGetHandleForAddressRange 11070
	MemGetHandleForAddressRange(ctx Context, dptr DevicePtr, bytes uintptr, handleType MemRangeHandleType, flags MemRangeFlags) (fd int32, err error)
}

// Copies covers copies and fills. Zero bytes succeed and do nothing. The forms
// without Async return when the data has moved, with the exceptions that the manual
// lists in "API synchronization behavior". docs/SEMANTICS.md has what hardware does.
type Copies interface {
	// Memcpy copies between any two addresses under unified addressing.
	//cu:call cuMemcpy 4000 (dst, src, bytes)
	Memcpy(ctx Context, dst, src DevicePtr, bytes uintptr) error
	// MemcpyAsync is Memcpy, stream-ordered.
	//cu:call cuMemcpyAsync 4000 (dst, src, bytes, stream) context=stream
	MemcpyAsync(ctx Context, dst, src DevicePtr, bytes uintptr, stream Stream) error
	// MemcpyHtoD copies from host to device.
	//cu:call cuMemcpyHtoD_v2 3020 (dst, src, bytes)
	MemcpyHtoD(ctx Context, dst DevicePtr, src HostPtr, bytes uintptr) error
	// MemcpyHtoDAsync is MemcpyHtoD, stream-ordered if src is page-locked. With pageable
	// memory it returns when src has been read.
	//cu:call cuMemcpyHtoDAsync_v2 3020 (dst, src, bytes, stream) context=stream
	MemcpyHtoDAsync(ctx Context, dst DevicePtr, src HostPtr, bytes uintptr, stream Stream) error
	// MemcpyDtoH copies from device to host.
	//cu:call cuMemcpyDtoH_v2 3020 (dst, src, bytes)
	MemcpyDtoH(ctx Context, dst HostPtr, src DevicePtr, bytes uintptr) error
	// MemcpyDtoHAsync is MemcpyDtoH, stream-ordered if dst is page-locked. With pageable
	// memory it returns when the data has arrived.
	//cu:call cuMemcpyDtoHAsync_v2 3020 (dst, src, bytes, stream) context=stream
	MemcpyDtoHAsync(ctx Context, dst HostPtr, src DevicePtr, bytes uintptr, stream Stream) error
	// MemcpyDtoD copies within a device. It does not wait for the copy.
	//cu:call cuMemcpyDtoD_v2 3020 (dst, src, bytes)
	MemcpyDtoD(ctx Context, dst, src DevicePtr, bytes uintptr) error
	// MemcpyDtoDAsync is MemcpyDtoD, stream-ordered.
	//cu:call cuMemcpyDtoDAsync_v2 3020 (dst, src, bytes, stream) context=stream
	MemcpyDtoDAsync(ctx Context, dst, src DevicePtr, bytes uintptr, stream Stream) error
	// MemcpyPeer copies between the devices of two contexts.
	//cu:call cuMemcpyPeer 4000 (dst, dstCtx, src, srcCtx, bytes)
	MemcpyPeer(ctx Context, dst DevicePtr, dstCtx Context, src DevicePtr, srcCtx Context, bytes uintptr) error
	// MemcpyPeerAsync is MemcpyPeer, stream-ordered. A stream that captures refuses it.
	//cu:call cuMemcpyPeerAsync 4000 (dst, dstCtx, src, srcCtx, bytes, stream)
	MemcpyPeerAsync(ctx Context, dst DevicePtr, dstCtx Context, src DevicePtr, srcCtx Context, bytes uintptr, stream Stream) error
	// MemcpyBatchAsync makes several copies, each between any two addresses. It is
	// stream-ordered, but the copies have no order among themselves. The lists have one
	// length. The default stream cannot be used. Pageable memory is in use until the copies
	// are done, also a source: unlike in the other calls, it may be read after the return.
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
	// MemsetD16 fills n 16-bit words. dst is aligned to 2.
	//cu:call cuMemsetD16_v2 3020 (dst, value, n)
	MemsetD16(ctx Context, dst DevicePtr, value uint16, n uintptr) error
	// MemsetD32 fills n 32-bit words. dst is aligned to 4.
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

// Streams covers streams, host functions and writes of values in them, and their capture
// into graphs.
type Streams interface {
	// StreamCreate creates a stream with priority 0.
	//cu:call cuStreamCreate 2000 (*stream, flags)
	StreamCreate(ctx Context, flags StreamFlags) (stream Stream, err error)
	// StreamCreateWithPriority creates a stream. A priority out of range is clamped.
	//cu:call cuStreamCreateWithPriority 5050 (*stream, flags, priority)
	StreamCreateWithPriority(ctx Context, flags StreamFlags, priority int32) (stream Stream, err error)
	// StreamDestroy destroys the stream and returns at once. Work in it goes on to its
	// end.
	//cu:hand cuStreamDestroy_v2 4000
	StreamDestroy(ctx Context, stream Stream) error
	// StreamQuery returns nil if all work is done, and CUDA_ERROR_NOT_READY before.
	//cu:hand cuStreamQuery 2000
	StreamQuery(ctx Context, stream Stream) error
	// StreamSynchronize waits for all work in the stream.
	//cu:hand cuStreamSynchronize 2000
	StreamSynchronize(ctx Context, stream Stream) error
	// StreamWaitEvent lets later work of the stream wait until the work that the event
	// recorded is done. For an event that was never recorded nothing waits.
	//cu:call cuStreamWaitEvent 3020 (stream, event, flags) context=stream
	StreamWaitEvent(ctx Context, stream Stream, event Event, flags EventWaitFlags) error
	// StreamGetPriority returns the priority.
	//cu:call cuStreamGetPriority 5050 (stream, *priority)
	StreamGetPriority(ctx Context, stream Stream) (priority int32, err error)
	// StreamGetFlags returns the flags.
	//cu:call cuStreamGetFlags 5050 (stream, *flags)
	StreamGetFlags(ctx Context, stream Stream) (flags StreamFlags, err error)
	// StreamGetCtx returns the context of the stream.
	//cu:call cuStreamGetCtx 9020 (stream, *of)
	StreamGetCtx(ctx Context, stream Stream) (of Context, err error)
	// StreamGetId returns a number that no other stream of the process has or had. The
	// default streams also have one.
	//cu:call cuStreamGetId 12000 (stream, *id)
	StreamGetId(ctx Context, stream Stream) (id uint64, err error)
	// LaunchHostFunc runs fn on a thread of the driver at this point of the stream.
	// Later work of the stream waits for it. fn must not call the driver.
	//cu:hand cuLaunchHostFunc 10000
	LaunchHostFunc(ctx Context, stream Stream, fn func()) error
	// StreamWriteValue32 writes value to 4 bytes at dst at this point of the stream. dst
	// is a device address aligned to 4, in memory of MemAlloc or in mapped page-locked
	// memory. Managed memory and memory of pools are refused. Whatever earlier work of
	// the stream wrote is visible to the device and the host before the value is. So a
	// host that polls the word with sync/atomic learns how far the stream is. To CUDA the
	// word is no synchronization: StreamQuery may return CUDA_ERROR_NOT_READY for a moment
	// after the host has seen it. Use events to order streams. flags must be
	// StreamWriteValueDefault.
	//cu:call cuStreamWriteValue32_v2 11070 (stream, dst, value, flags) context=stream
	StreamWriteValue32(ctx Context, stream Stream, dst DevicePtr, value uint32, flags StreamWriteValueFlags) error
	// StreamWriteValue64 is StreamWriteValue32 for 8 bytes, aligned to 8. It needs
	// DeviceAttributeCanUse64BitStreamMemOps.
	//cu:call cuStreamWriteValue64_v2 11070 (stream, dst, value, flags) context=stream
	StreamWriteValue64(ctx Context, stream Stream, dst DevicePtr, value uint64, flags StreamWriteValueFlags) error
	// StreamBeginCapture begins to record the work of the stream in a graph.
	//cu:call cuStreamBeginCapture_v2 10010 (stream, mode)
	StreamBeginCapture(ctx Context, stream Stream, mode StreamCaptureMode) error
	// StreamEndCapture ends the capture and returns the graph.
	//cu:call cuStreamEndCapture 10000 (stream, *graph)
	StreamEndCapture(ctx Context, stream Stream) (graph Graph, err error)
	// StreamIsCapturing returns whether the stream captures.
	//cu:call cuStreamIsCapturing 10000 (stream, *status)
	StreamIsCapturing(ctx Context, stream Stream) (status StreamCaptureStatus, err error)
	// ThreadExchangeStreamCaptureMode sets the capture mode of the calling thread and
	// returns the mode that it had. A thread starts in StreamCaptureModeGlobal. The mode
	// says which captures forbid the thread calls that CUDA calls potentially unsafe, such
	// as MemAlloc, StreamQuery and EventQuery. Such a call invalidates those captures.
	//   - Global: captures of any thread begun in global mode, and captures of its own
	//     thread that are not relaxed.
	//   - ThreadLocal: captures of its own thread that are not relaxed.
	//   - Relaxed: none. A query of the capturing stream, or CtxSynchronize, still
	//     invalidates the capture.
	//
	// The mode belongs to the thread of the operating system, and goroutines change
	// threads. So the caller must call runtime.LockOSThread before the exchange, and must
	// restore the mode before runtime.UnlockOSThread. The call needs no context and
	// allocates no memory. An unknown mode is CUDA_ERROR_INVALID_VALUE and changes nothing.
	//cu:hand cuThreadExchangeStreamCaptureMode 10010
	ThreadExchangeStreamCaptureMode(mode StreamCaptureMode) (previous StreamCaptureMode, err error)
}

// ValueWaits covers waits of streams for values in memory. CUDA sees no order in them: it may
// run work that has to fulfil a wait behind the work that waits. So work that depends on other
// work by a value should depend on it by an event, too, where both are in streams. A wait that
// nothing fulfils never ends.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEMOP.html
type ValueWaits interface {
	// StreamWaitValue32 lets later work of the stream wait until the 4 bytes at addr fulfil the
	// condition of flags with value. addr is a device address aligned to 4, in memory of
	// MemAlloc or in mapped page-locked memory. Managed memory is refused. The host, a kernel,
	// or another stream by StreamWriteValue32 can write the word. Without a condition in flags
	// it is StreamWaitValueGEQ. A device without StreamWaitValueNOR or StreamWaitValueFlush
	// refuses it with CUDA_ERROR_NOT_SUPPORTED: see DeviceAttributeCanUseStreamWaitValueNOR and
	// DeviceAttributeCanFlushRemoteWrites.
	//cu:call cuStreamWaitValue32_v2 11070 (stream, addr, value, flags) context=stream
	StreamWaitValue32(ctx Context, stream Stream, addr DevicePtr, value uint32, flags StreamWaitValueFlags) error
	// StreamWaitValue64 is StreamWaitValue32 for 8 bytes, aligned to 8. It needs
	// DeviceAttributeCanUse64BitStreamMemOps.
	//cu:call cuStreamWaitValue64_v2 11070 (stream, addr, value, flags) context=stream
	StreamWaitValue64(ctx Context, stream Stream, addr DevicePtr, value uint64, flags StreamWaitValueFlags) error
}

// Events covers events, which mark points of streams.
type Events interface {
	// EventCreate creates an event. It counts as done until it is recorded.
	//cu:call cuEventCreate 2000 (*event, flags)
	EventCreate(ctx Context, flags EventFlags) (event Event, err error)
	// EventRecord records in the event the work that is in the stream now.
	//cu:call cuEventRecord 2000 (event, stream) context=stream
	EventRecord(ctx Context, event Event, stream Stream) error
	// EventRecordWithFlags is EventRecord with flags.
	//cu:call cuEventRecordWithFlags 11010 (event, stream, flags)
	EventRecordWithFlags(ctx Context, event Event, stream Stream, flags EventRecordFlags) error
	// EventQuery returns nil if that work is done, and CUDA_ERROR_NOT_READY before.
	//cu:call cuEventQuery 2000 (event) context=event
	EventQuery(ctx Context, event Event) error
	// EventSynchronize waits for that work.
	//cu:call cuEventSynchronize 2000 (event)
	EventSynchronize(ctx Context, event Event) error
	// EventElapsedTime returns the time between two events in milliseconds, with a
	// resolution of about half a microsecond.
	//cu:call cuEventElapsedTime 2000 (*ms, start, end)
	EventElapsedTime(ctx Context, start, end Event) (ms float32, err error)
	// EventDestroy destroys the event.
	//cu:call cuEventDestroy_v2 4000 (event)
	EventDestroy(ctx Context, event Event) error
}

// Modules covers code: the loading of PTX, its kernels and variables, and launches.
type Modules interface {
	// ModuleLoadData compiles PTX text, or loads a cubin or fatbin, and returns the
	// module. For PTX that does not compile the error is a [*JITError] with the
	// compiler's log. It is ModuleLoadDataEx with the default options.
	//cu:hand cuModuleLoadDataEx 2010
	ModuleLoadData(ctx Context, image []byte) (module Module, err error)
	// ModuleLoadDataEx is ModuleLoadData with options, which may be nil. log has the
	// information and warnings of the compiler, "" if there are none.
	//cu:hand cuModuleLoadDataEx 2010
	ModuleLoadDataEx(ctx Context, image []byte, options *JITOptions) (module Module, log string, err error)
	// ModuleUnload unloads the module with its kernels and variables.
	//cu:call cuModuleUnload 2000 (module)
	ModuleUnload(ctx Context, module Module) error
	// ModuleGetFunction returns a kernel by name.
	//cu:call cuModuleGetFunction 2000 (*f, module, name)
	ModuleGetFunction(ctx Context, module Module, name string) (f Function, err error)
	// ModuleGetGlobal returns the address of a variable by name, and its size in bytes.
	//cu:call cuModuleGetGlobal_v2 3020 (*dptr, *bytes, module, name)
	ModuleGetGlobal(ctx Context, module Module, name string) (dptr DevicePtr, bytes uintptr, err error)
	// FuncGetAttribute returns a property of a kernel.
	//cu:call cuFuncGetAttribute 2020 (*value, attrib, f)
	FuncGetAttribute(ctx Context, attrib FunctionAttribute, f Function) (value int32, err error)
	// FuncSetAttribute changes a property of a kernel.
	//cu:call cuFuncSetAttribute 9000 (f, attrib, value)
	FuncSetAttribute(ctx Context, f Function, attrib FunctionAttribute, value int32) error
	// FuncGetParamInfo returns the offset and size in bytes of a parameter. index starts
	// at 0; past the last parameter the error is CUDA_ERROR_INVALID_VALUE.
	//cu:call cuFuncGetParamInfo 12040 (f, index, *offset, *size)
	FuncGetParamInfo(ctx Context, f Function, index uintptr) (offset, size uintptr, err error)
	// LaunchKernel runs f. It is stream-ordered. params is the packed parameter buffer,
	// with each value at its offset (CU_LAUNCH_PARAM_BUFFER_POINTER). It is copied
	// before the call returns.
	//cu:hand cuLaunchKernel 4000 context=stream
	LaunchKernel(ctx Context, f Function, grid, block Dim3, sharedMemBytes uint32, stream Stream, params []byte) error
	// LaunchKernelEx is LaunchKernel with attributes of the launch, such as cooperation
	// of all blocks. config and params are copied before the call returns.
	//cu:hand cuLaunchKernelEx 11060
	LaunchKernelEx(ctx Context, config *LaunchConfig, f Function, params []byte) error
	// FuncSetCacheConfig sets how a kernel prefers to divide on-chip memory between the
	// L1 cache and shared memory. The driver may choose otherwise.
	//cu:call cuFuncSetCacheConfig 3000 (f, config)
	FuncSetCacheConfig(ctx Context, f Function, config FuncCache) error
}

// Occupancy covers how many blocks of a kernel a multiprocessor runs at once.
type Occupancy interface {
	// OccupancyMaxActiveBlocksPerMultiprocessor returns how many blocks of blockSize
	// threads and dynamicSharedBytes of dynamic shared memory one multiprocessor runs at
	// once. It is 0 if not even one block fits.
	//cu:call cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000 (*blocks, f, blockSize, dynamicSharedBytes, flags)
	OccupancyMaxActiveBlocksPerMultiprocessor(ctx Context, f Function, blockSize int32, dynamicSharedBytes uintptr, flags OccupancyFlags) (blocks int32, err error)
	// OccupancyMaxPotentialBlockSize returns the block size with which the most threads
	// run at once, and how many such blocks fill the device. Every block has
	// dynamicSharedBytes of dynamic shared memory. blockSizeLimit bounds the block size;
	// 0 stands for no bound. The C function also takes a callback, which is NULL here.
	//cu:hand cuOccupancyMaxPotentialBlockSizeWithFlags 7000
	OccupancyMaxPotentialBlockSize(ctx Context, f Function, dynamicSharedBytes uintptr, blockSizeLimit int32, flags OccupancyFlags) (minGridSize, blockSize int32, err error)
	// OccupancyAvailableDynamicSMemPerBlock returns how many bytes of dynamic shared
	// memory each block can have if numBlocks blocks of blockSize threads are to run on
	// one multiprocessor at once.
	//cu:call cuOccupancyAvailableDynamicSMemPerBlock 10020 (*bytes, f, numBlocks, blockSize)
	OccupancyAvailableDynamicSMemPerBlock(ctx Context, f Function, numBlocks, blockSize int32) (bytes uintptr, err error)
}

// Linking covers the linker, which makes one image of several. A link is not safe for
// concurrent use by several calls. LinkComplete must run on the thread of the system that ran
// LinkCreate: hold it by runtime.LockOSThread. On another thread NVIDIA's driver 580 damages the
// memory of the process, and later calls crash. The software GPU refuses the call where another
// goroutine, or another thread of a C program, makes it.
type Linking interface {
	// LinkCreate begins a link for the device of the context. options apply to all its
	// inputs and may be nil. LinkDestroy ends the link.
	//cu:hand cuLinkCreate_v2 6050
	LinkCreate(ctx Context, options *JITOptions) (link LinkState, err error)
	// LinkAddData adds an input to the link, and compiles it if it is PTX. The linker
	// keeps no reference to data. name is for messages. For an input that does not
	// compile the error is a [*JITError] with the log.
	//cu:hand cuLinkAddData_v2 6050
	LinkAddData(ctx Context, link LinkState, kind JITInputType, data []byte, name string) error
	// LinkComplete links the inputs. It returns a copy of the image for
	// ModuleLoadData, and the information and warnings of the compiler and linker. If
	// names are missing or defined twice, the error is a [*JITError] with the log.
	//cu:hand cuLinkComplete 5050
	LinkComplete(ctx Context, link LinkState) (image []byte, log string, err error)
	// LinkDestroy ends the link and frees what belongs to it.
	//cu:hand cuLinkDestroy 5050
	LinkDestroy(ctx Context, link LinkState) error
}

// Graphs covers graphs: recorded work that is launched as a whole.
type Graphs interface {
	// GraphDestroy destroys a graph. Executable graphs made from it stay valid.
	//cu:call cuGraphDestroy 10000 (graph)
	GraphDestroy(graph Graph) error
	// GraphInstantiate makes an executable graph. flags is 0 or
	// GraphInstantiateAutoFreeOnLaunch. A graph that allocates or frees memory can have one
	// executable graph at a time.
	//cu:call cuGraphInstantiateWithFlags 11040 (*exec, graph, flags)
	GraphInstantiate(ctx Context, graph Graph, flags uint64) (exec GraphExec, err error)
	// GraphExecDestroy destroys an executable graph. A running launch goes on.
	//cu:call cuGraphExecDestroy 10000 (exec)
	GraphExecDestroy(exec GraphExec) error
	// GraphLaunch runs an executable graph. It is stream-ordered. Launches of one exec
	// run one after the other.
	//cu:call cuGraphLaunch 10000 (exec, stream) context=stream
	GraphLaunch(ctx Context, exec GraphExec, stream Stream) error
	// GraphGetNodes returns all nodes of a graph.
	//cu:hand cuGraphGetNodes 10000
	GraphGetNodes(graph Graph) ([]GraphNode, error)
	// GraphNodeGetType returns the type of a node.
	//cu:call cuGraphNodeGetType 10000 (node, *kind)
	GraphNodeGetType(node GraphNode) (kind GraphNodeType, err error)
	// GraphExecUpdate gives exec the parameters of a graph with the same topology. If
	// the topologies differ the error is CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE.
	//cu:hand cuGraphExecUpdate_v2 12000
	GraphExecUpdate(ctx Context, exec GraphExec, graph Graph) error
	// GraphExecKernelNodeSetParams changes one kernel node of exec. node belongs to the
	// graph that exec was made from.
	//cu:hand cuGraphExecKernelNodeSetParams_v2 12000
	GraphExecKernelNodeSetParams(ctx Context, exec GraphExec, node GraphNode, f Function, grid, block Dim3, sharedMemBytes uint32, params []byte) error
}

// GraphMemory covers the memory that graphs of a device allocate. A stream that captures makes a
// node of an allocation in stream order, and of a free of such memory. The address is fixed, and
// each launch allocates the memory anew. Memory that the graph does not free is freed by
// MemFreeAsync, MemFree or another graph; until then the graph cannot be launched again, unless it
// was instantiated with GraphInstantiateAutoFreeOnLaunch. These calls need no context.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__GRAPH.html
type GraphMemory interface {
	// DeviceGraphMemTrim gives memory back that no graph uses, and that the driver keeps for
	// the next launch of a graph.
	//cu:call cuDeviceGraphMemTrim 11040 (dev)
	DeviceGraphMemTrim(dev Device) error
	// DeviceGetGraphMemAttribute returns a counter.
	//cu:call cuDeviceGetGraphMemAttribute 11040 (dev, attr, *value)
	DeviceGetGraphMemAttribute(dev Device, attr GraphMemAttribute) (value uint64, err error)
	// DeviceSetGraphMemAttribute resets a high-water mark with 0.
	//cu:hand cuDeviceSetGraphMemAttribute 11040
	DeviceSetGraphMemAttribute(dev Device, attr GraphMemAttribute, value uint64) error
}
