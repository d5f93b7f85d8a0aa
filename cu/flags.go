package cu

// CtxFlags are the flags of CtxCreate and DevicePrimaryCtxSetFlags (CU_CTX_*).
type CtxFlags uint32

const (
	CtxSchedAuto         CtxFlags = 0x00 // CU_CTX_SCHED_AUTO: spin or yield, by the number of processors
	CtxSchedSpin         CtxFlags = 0x01 // CU_CTX_SCHED_SPIN: waits spin, lowest latency
	CtxSchedYield        CtxFlags = 0x02 // CU_CTX_SCHED_YIELD: waits yield the thread
	CtxSchedBlockingSync CtxFlags = 0x04 // CU_CTX_SCHED_BLOCKING_SYNC: waits sleep
	CtxSchedMask         CtxFlags = 0x07 // CU_CTX_SCHED_MASK
	CtxMapHost           CtxFlags = 0x08 // CU_CTX_MAP_HOST: page-locked memory can be mapped; always on since CUDA 3.2 with UVA
	CtxLmemResizeToMax   CtxFlags = 0x10 // CU_CTX_LMEM_RESIZE_TO_MAX
)

// MemHostAllocFlags are the flags of MemHostAlloc (CU_MEMHOSTALLOC_*).
type MemHostAllocFlags uint32

const (
	MemHostAllocPortable      MemHostAllocFlags = 0x1 // CU_MEMHOSTALLOC_PORTABLE: page-locked for every context
	MemHostAllocDeviceMap     MemHostAllocFlags = 0x2 // CU_MEMHOSTALLOC_DEVICEMAP: mapped into the device's addresses
	MemHostAllocWriteCombined MemHostAllocFlags = 0x4 // CU_MEMHOSTALLOC_WRITECOMBINED: fast to write in order, slow to read from the CPU
)

// MemHostRegisterFlags are the flags of MemHostRegister (CU_MEMHOSTREGISTER_*).
type MemHostRegisterFlags uint32

const (
	MemHostRegisterPortable  MemHostRegisterFlags = 0x1 // CU_MEMHOSTREGISTER_PORTABLE
	MemHostRegisterDeviceMap MemHostRegisterFlags = 0x2 // CU_MEMHOSTREGISTER_DEVICEMAP
	MemHostRegisterIOMemory  MemHostRegisterFlags = 0x4 // CU_MEMHOSTREGISTER_IOMEMORY: memory of another device on the bus: contiguous, not cache-coherent
	MemHostRegisterReadOnly  MemHostRegisterFlags = 0x8 // CU_MEMHOSTREGISTER_READ_ONLY
)

// MemAttachFlags say which streams may access managed memory (CU_MEM_ATTACH_*).
type MemAttachFlags uint32

const (
	MemAttachGlobal MemAttachFlags = 0x1 // CU_MEM_ATTACH_GLOBAL: any stream on any device
	MemAttachHost   MemAttachFlags = 0x2 // CU_MEM_ATTACH_HOST: no stream on a device whose concurrentManagedAccess is 0
	MemAttachSingle MemAttachFlags = 0x4 // CU_MEM_ATTACH_SINGLE: only one stream
)

// StreamFlags are the flags of StreamCreate (CU_STREAM_*).
type StreamFlags uint32

const (
	StreamDefault     StreamFlags = 0x0 // CU_STREAM_DEFAULT: ordered with the legacy default stream
	StreamNonBlocking StreamFlags = 0x1 // CU_STREAM_NON_BLOCKING: independent of the legacy default stream
)

// EventFlags are the flags of EventCreate (CU_EVENT_*).
type EventFlags uint32

const (
	EventDefault       EventFlags = 0x0 // CU_EVENT_DEFAULT: timing, waits spin
	EventBlockingSync  EventFlags = 0x1 // CU_EVENT_BLOCKING_SYNC: waits sleep
	EventDisableTiming EventFlags = 0x2 // CU_EVENT_DISABLE_TIMING: no time stamp, cheaper
	EventInterprocess  EventFlags = 0x4 // CU_EVENT_INTERPROCESS: needs EventDisableTiming
)

// EventRecordFlags are the flags of EventRecordWithFlags (CU_EVENT_RECORD_*).
type EventRecordFlags uint32

const (
	EventRecordDefault  EventRecordFlags = 0x0 // CU_EVENT_RECORD_DEFAULT
	EventRecordExternal EventRecordFlags = 0x1 // CU_EVENT_RECORD_EXTERNAL: an event-record node when captured
)

// EventWaitFlags are the flags of StreamWaitEvent (CU_EVENT_WAIT_*).
type EventWaitFlags uint32

const (
	EventWaitDefault  EventWaitFlags = 0x0 // CU_EVENT_WAIT_DEFAULT
	EventWaitExternal EventWaitFlags = 0x1 // CU_EVENT_WAIT_EXTERNAL: an event-wait node when captured
)

// StreamWriteValueFlags are the flags of StreamWriteValue32 and StreamWriteValue64
// (CUstreamWriteValue_flags).
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEMOP.html
type StreamWriteValueFlags uint32

const (
	StreamWriteValueDefault         StreamWriteValueFlags = 0x0 // CU_STREAM_WRITE_VALUE_DEFAULT: earlier writes of the stream are visible before the value
	StreamWriteValueNoMemoryBarrier StreamWriteValueFlags = 0x1 // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER: the write may overtake earlier writes; not supported by the form of CUDA 11.7
)

// StreamWaitValueFlags are the flags of StreamWaitValue32 and StreamWaitValue64
// (CUstreamWaitValue_flags): one condition, and StreamWaitValueFlush or not. word is what the
// memory holds.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
type StreamWaitValueFlags uint32

const (
	StreamWaitValueGEQ   StreamWaitValueFlags = 0x0        // CU_STREAM_WAIT_VALUE_GEQ: word - value >= 0 as a signed number, so that counters may wrap around
	StreamWaitValueEQ    StreamWaitValueFlags = 0x1        // CU_STREAM_WAIT_VALUE_EQ: word == value
	StreamWaitValueAND   StreamWaitValueFlags = 0x2        // CU_STREAM_WAIT_VALUE_AND: word & value != 0
	StreamWaitValueNOR   StreamWaitValueFlags = 0x3        // CU_STREAM_WAIT_VALUE_NOR: ^(word | value) != 0
	StreamWaitValueFlush StreamWaitValueFlags = 0x40000000 // CU_STREAM_WAIT_VALUE_FLUSH: then make writes of other devices visible that arrived before
)

// StreamCaptureMode says which unsafe calls a capture forbids (CUstreamCaptureMode). A
// capture has a mode, and so has each thread: see ThreadExchangeStreamCaptureMode.
// Modes other than relaxed depend on the calling thread, and a goroutine can change
// threads. Ferry's own code captures in relaxed mode.
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
type StreamCaptureMode uint32

const (
	StreamCaptureModeGlobal      StreamCaptureMode = 0 // CU_STREAM_CAPTURE_MODE_GLOBAL
	StreamCaptureModeThreadLocal StreamCaptureMode = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	StreamCaptureModeRelaxed     StreamCaptureMode = 2 // CU_STREAM_CAPTURE_MODE_RELAXED
)

// StreamCaptureStatus is the result of StreamIsCapturing (CUstreamCaptureStatus).
type StreamCaptureStatus uint32

const (
	StreamCaptureStatusNone        StreamCaptureStatus = 0 // CU_STREAM_CAPTURE_STATUS_NONE
	StreamCaptureStatusActive      StreamCaptureStatus = 1 // CU_STREAM_CAPTURE_STATUS_ACTIVE
	StreamCaptureStatusInvalidated StreamCaptureStatus = 2 // CU_STREAM_CAPTURE_STATUS_INVALIDATED: end the capture to recover
)

// MemoryType is the kind of memory at an address (CUmemorytype).
type MemoryType uint32

const (
	MemoryTypeHost    MemoryType = 1 // CU_MEMORYTYPE_HOST
	MemoryTypeDevice  MemoryType = 2 // CU_MEMORYTYPE_DEVICE
	MemoryTypeArray   MemoryType = 3 // CU_MEMORYTYPE_ARRAY
	MemoryTypeUnified MemoryType = 4 // CU_MEMORYTYPE_UNIFIED: the driver finds out from the address
)

// MemAdvice is advice on managed memory (CUmem_advise).
type MemAdvice uint32

const (
	MemAdviseSetReadMostly          MemAdvice = 1 // CU_MEM_ADVISE_SET_READ_MOSTLY
	MemAdviseUnsetReadMostly        MemAdvice = 2 // CU_MEM_ADVISE_UNSET_READ_MOSTLY
	MemAdviseSetPreferredLocation   MemAdvice = 3 // CU_MEM_ADVISE_SET_PREFERRED_LOCATION
	MemAdviseUnsetPreferredLocation MemAdvice = 4 // CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION
	MemAdviseSetAccessedBy          MemAdvice = 5 // CU_MEM_ADVISE_SET_ACCESSED_BY
	MemAdviseUnsetAccessedBy        MemAdvice = 6 // CU_MEM_ADVISE_UNSET_ACCESSED_BY
)

// MemRangeAttribute is a property of a range of managed memory (CUmem_range_attribute).
type MemRangeAttribute uint32

const (
	MemRangeAttributeReadMostly           MemRangeAttribute = 1 // CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY
	MemRangeAttributePreferredLocation    MemRangeAttribute = 2 // CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
	MemRangeAttributeAccessedBy           MemRangeAttribute = 3 // CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY
	MemRangeAttributeLastPrefetchLocation MemRangeAttribute = 4 // CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
)

// InvalidDevice is the result of MemRangeGetAttribute when a range has no single
// location (CU_DEVICE_INVALID).
const InvalidDevice Device = -2

// MemPoolAttribute is a setting or counter of a memory pool (CUmemPool_attribute).
type MemPoolAttribute uint32

const (
	MemPoolAttrReuseFollowEventDependencies   MemPoolAttribute = 1 // CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES (0 or 1)
	MemPoolAttrReuseAllowOpportunistic        MemPoolAttribute = 2 // CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC (0 or 1)
	MemPoolAttrReuseAllowInternalDependencies MemPoolAttribute = 3 // CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES (0 or 1)
	MemPoolAttrReleaseThreshold               MemPoolAttribute = 4 // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD (bytes)
	MemPoolAttrReservedMemCurrent             MemPoolAttribute = 5 // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT (bytes)
	MemPoolAttrReservedMemHigh                MemPoolAttribute = 6 // CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH (bytes; set to 0 to reset)
	MemPoolAttrUsedMemCurrent                 MemPoolAttribute = 7 // CU_MEMPOOL_ATTR_USED_MEM_CURRENT (bytes)
	MemPoolAttrUsedMemHigh                    MemPoolAttribute = 8 // CU_MEMPOOL_ATTR_USED_MEM_HIGH (bytes; set to 0 to reset)
)

// MemAccessFlags say how a device can use memory (CUmemAccess_flags).
type MemAccessFlags uint32

const (
	MemAccessProtNone      MemAccessFlags = 0 // CU_MEM_ACCESS_FLAGS_PROT_NONE
	MemAccessProtRead      MemAccessFlags = 1 // CU_MEM_ACCESS_FLAGS_PROT_READ
	MemAccessProtReadWrite MemAccessFlags = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
)

// MemAllocationHandleType is a way to share memory with other processes, or several ways as
// bits (CUmemAllocationHandleType).
type MemAllocationHandleType uint32

const (
	MemHandleTypeNone                MemAllocationHandleType = 0 // CU_MEM_HANDLE_TYPE_NONE
	MemHandleTypePosixFileDescriptor MemAllocationHandleType = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	MemHandleTypeWin32               MemAllocationHandleType = 2 // CU_MEM_HANDLE_TYPE_WIN32
	MemHandleTypeWin32KMT            MemAllocationHandleType = 4 // CU_MEM_HANDLE_TYPE_WIN32_KMT
	MemHandleTypeFabric              MemAllocationHandleType = 8 // CU_MEM_HANDLE_TYPE_FABRIC
)

// IpcMemFlags change how memory of another process is opened (CUipcMem_flags).
type IpcMemFlags uint32

const (
	IpcMemLazyEnablePeerAccess IpcMemFlags = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: also memory of a peer; IpcOpenMemHandle demands it
)

// MemRangeHandleType is what stands for a range of addresses (CUmemRangeHandleType).
type MemRangeHandleType uint32

// MemRangeHandleTypeDMABufFD is a file descriptor of a DMA-BUF: CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD.
const MemRangeHandleTypeDMABufFD MemRangeHandleType = 1

// MemRangeFlags change how other devices reach a range of addresses (CUmemRangeFlags).
type MemRangeFlags uint32

const (
	MemRangeFlagDMABufMappingTypePCIe MemRangeFlags = 1 // CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE: over PCIe BAR1, on platforms that have another way
)

// MemAllocationGranularity says which granularity to return
// (CUmemAllocationGranularity_flags).
type MemAllocationGranularity uint32

const (
	MemAllocGranularityMinimum     MemAllocationGranularity = 0 // CU_MEM_ALLOC_GRANULARITY_MINIMUM: what calls demand
	MemAllocGranularityRecommended MemAllocationGranularity = 1 // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED: what is fastest
)

// FunctionAttribute is a property of a kernel (CUfunction_attribute).
type FunctionAttribute uint32

const (
	FuncAttributeMaxThreadsPerBlock    FunctionAttribute = 0 // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	FuncAttributeSharedSizeBytes       FunctionAttribute = 1 // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: static shared memory
	FuncAttributeConstSizeBytes        FunctionAttribute = 2 // CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES
	FuncAttributeLocalSizeBytes        FunctionAttribute = 3 // CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: per thread
	FuncAttributeNumRegs               FunctionAttribute = 4 // CU_FUNC_ATTRIBUTE_NUM_REGS: per thread
	FuncAttributePTXVersion            FunctionAttribute = 5 // CU_FUNC_ATTRIBUTE_PTX_VERSION: 75 for sm_75
	FuncAttributeBinaryVersion         FunctionAttribute = 6 // CU_FUNC_ATTRIBUTE_BINARY_VERSION: 90 for sm_90
	FuncAttributeCacheModeCA           FunctionAttribute = 7 // CU_FUNC_ATTRIBUTE_CACHE_MODE_CA
	FuncAttributeMaxDynamicSharedBytes FunctionAttribute = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: settable

	FuncAttributePreferredSharedMemoryCarveout     FunctionAttribute = 9  // CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: percent, -1 for the default; settable
	FuncAttributeClusterSizeMustBeSet              FunctionAttribute = 10 // CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: 1 if the kernel needs a cluster size
	FuncAttributeRequiredClusterWidth              FunctionAttribute = 11 // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: blocks, 0 for any; settable
	FuncAttributeRequiredClusterHeight             FunctionAttribute = 12 // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: blocks, 0 for any; settable
	FuncAttributeRequiredClusterDepth              FunctionAttribute = 13 // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: blocks, 0 for any; settable
	FuncAttributeNonPortableClusterSizeAllowed     FunctionAttribute = 14 // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: 0 or 1; settable
	FuncAttributeClusterSchedulingPolicyPreference FunctionAttribute = 15 // CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE; settable
)

// FuncCache is a preference between the L1 cache and shared memory (CUfunc_cache).
type FuncCache uint32

const (
	FuncCachePreferNone   FuncCache = 0 // CU_FUNC_CACHE_PREFER_NONE: the default
	FuncCachePreferShared FuncCache = 1 // CU_FUNC_CACHE_PREFER_SHARED: more shared memory
	FuncCachePreferL1     FuncCache = 2 // CU_FUNC_CACHE_PREFER_L1: more L1 cache
	FuncCachePreferEqual  FuncCache = 3 // CU_FUNC_CACHE_PREFER_EQUAL: as much of both
)

// OccupancyFlags are flags of the functions of [Occupancy] (CUoccupancy_flags).
type OccupancyFlags uint32

const (
	OccupancyDefault                OccupancyFlags = 0 // CU_OCCUPANCY_DEFAULT
	OccupancyDisableCachingOverride OccupancyFlags = 1 // CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE
)

// Limit is a limit of a context that can be set (CUlimit).
type Limit uint32

const (
	LimitStackSize      Limit = 0 // CU_LIMIT_STACK_SIZE: bytes per thread
	LimitPrintfFIFOSize Limit = 1 // CU_LIMIT_PRINTF_FIFO_SIZE: bytes
	LimitMallocHeapSize Limit = 2 // CU_LIMIT_MALLOC_HEAP_SIZE: bytes
)

// GraphNodeType is the type of a node of a graph (CUgraphNodeType).
type GraphNodeType uint32

const (
	GraphNodeTypeKernel      GraphNodeType = 0  // CU_GRAPH_NODE_TYPE_KERNEL
	GraphNodeTypeMemcpy      GraphNodeType = 1  // CU_GRAPH_NODE_TYPE_MEMCPY
	GraphNodeTypeMemset      GraphNodeType = 2  // CU_GRAPH_NODE_TYPE_MEMSET
	GraphNodeTypeHost        GraphNodeType = 3  // CU_GRAPH_NODE_TYPE_HOST
	GraphNodeTypeGraph       GraphNodeType = 4  // CU_GRAPH_NODE_TYPE_GRAPH
	GraphNodeTypeEmpty       GraphNodeType = 5  // CU_GRAPH_NODE_TYPE_EMPTY
	GraphNodeTypeWaitEvent   GraphNodeType = 6  // CU_GRAPH_NODE_TYPE_WAIT_EVENT
	GraphNodeTypeEventRecord GraphNodeType = 7  // CU_GRAPH_NODE_TYPE_EVENT_RECORD
	GraphNodeTypeMemAlloc    GraphNodeType = 10 // CU_GRAPH_NODE_TYPE_MEM_ALLOC
	GraphNodeTypeMemFree     GraphNodeType = 11 // CU_GRAPH_NODE_TYPE_MEM_FREE
	GraphNodeTypeBatchMemOp  GraphNodeType = 12 // CU_GRAPH_NODE_TYPE_BATCH_MEM_OP
)
