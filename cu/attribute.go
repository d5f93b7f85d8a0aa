package cu

import "strconv"

// DeviceAttribute names a property of a device with a 32-bit value: CUDA's
// CUdevice_attribute.
//
// Where the text of an attribute starts with "whether", the value is 1 for yes and 0
// for no. Sizes are in bytes, clock rates in kHz and image dimensions in
// elements. A driver older than an attribute refuses it with
// [ErrorInvalidValue].
//
// https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html
type DeviceAttribute int32

// String returns CUDA's name of the attribute, such as
// "CU_DEVICE_ATTRIBUTE_WARP_SIZE". For an attribute that Ferry does not know it
// returns the number: "CU_DEVICE_ATTRIBUTE_12345".
func (a DeviceAttribute) String() string {
	if a >= 0 && int(a) < len(deviceAttributeNames) && deviceAttributeNames[a] != "" {
		return deviceAttributeNames[a]
	}
	return "CU_DEVICE_ATTRIBUTE_" + strconv.Itoa(int(a))
}

// DeviceAttributes returns the attributes of CUDA 13.0 in the order of their numbers. A
// number that has two names in CUDA is listed once. The caller owns the slice.
func DeviceAttributes() []DeviceAttribute {
	all := make([]DeviceAttribute, 0, len(deviceAttributeNames))
	for number, name := range deviceAttributeNames {
		if name != "" {
			all = append(all, DeviceAttribute(number))
		}
	}
	return all
}

// The attributes of CUDA 13.0, in the order of their numbers.
const (
	// CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: most threads in a block.
	DeviceAttributeMaxThreadsPerBlock DeviceAttribute = 1
	// CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: most threads of a block along x.
	DeviceAttributeMaxBlockDimX DeviceAttribute = 2
	// CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: most threads of a block along y.
	DeviceAttributeMaxBlockDimY DeviceAttribute = 3
	// CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: most threads of a block along z.
	DeviceAttributeMaxBlockDimZ DeviceAttribute = 4
	// CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: most blocks of a grid along x.
	DeviceAttributeMaxGridDimX DeviceAttribute = 5
	// CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: most blocks of a grid along y.
	DeviceAttributeMaxGridDimY DeviceAttribute = 6
	// CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: most blocks of a grid along z.
	DeviceAttributeMaxGridDimZ DeviceAttribute = 7
	// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: shared memory that a block may have without asking for more, in bytes.
	DeviceAttributeMaxSharedMemoryPerBlock DeviceAttribute = 8
	// CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: constant memory that a module may declare, in bytes.
	DeviceAttributeTotalConstantMemory DeviceAttribute = 9
	// CU_DEVICE_ATTRIBUTE_WARP_SIZE: threads in a warp.
	DeviceAttributeWarpSize DeviceAttribute = 10
	// CU_DEVICE_ATTRIBUTE_MAX_PITCH: largest distance between the rows of a 2D copy, in bytes.
	DeviceAttributeMaxPitch DeviceAttribute = 11
	// CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: most 32-bit registers that a block may use.
	DeviceAttributeMaxRegistersPerBlock DeviceAttribute = 12
	// CU_DEVICE_ATTRIBUTE_CLOCK_RATE: peak clock rate of the multiprocessors, in kHz.
	DeviceAttributeClockRate DeviceAttribute = 13
	// CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: alignment of a texture's base address, in bytes.
	DeviceAttributeTextureAlignment DeviceAttribute = 14
	// CU_DEVICE_ATTRIBUTE_GPU_OVERLAP: whether copies can run while kernels run; deprecated: use the number of copy engines.
	DeviceAttributeGPUOverlap DeviceAttribute = 15
	// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: number of multiprocessors.
	DeviceAttributeMultiprocessorCount DeviceAttribute = 16
	// CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT: whether a watchdog ends kernels that run too long.
	DeviceAttributeKernelExecTimeout DeviceAttribute = 17
	// CU_DEVICE_ATTRIBUTE_INTEGRATED: whether the GPU shares its memory with the host's CPU.
	DeviceAttributeIntegrated DeviceAttribute = 18
	// CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY: whether page-locked host memory can be mapped for kernels.
	DeviceAttributeCanMapHostMemory DeviceAttribute = 19
	// CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: which processes may create contexts: 0 all, 2 none, 3 one.
	DeviceAttributeComputeMode DeviceAttribute = 20
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH: widest 1D texture, in texels.
	DeviceAttributeMaximumTexture1DWidth DeviceAttribute = 21
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH: widest 2D texture, in texels.
	DeviceAttributeMaximumTexture2DWidth DeviceAttribute = 22
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT: highest 2D texture, in texels.
	DeviceAttributeMaximumTexture2DHeight DeviceAttribute = 23
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH: widest 3D texture, in texels.
	DeviceAttributeMaximumTexture3DWidth DeviceAttribute = 24
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT: highest 3D texture, in texels.
	DeviceAttributeMaximumTexture3DHeight DeviceAttribute = 25
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH: deepest 3D texture, in texels.
	DeviceAttributeMaximumTexture3DDepth DeviceAttribute = 26
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH: widest layered 2D texture, in texels.
	DeviceAttributeMaximumTexture2DLayeredWidth DeviceAttribute = 27
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT: highest layered 2D texture, in texels.
	DeviceAttributeMaximumTexture2DLayeredHeight DeviceAttribute = 28
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS: most layers of a layered 2D texture.
	DeviceAttributeMaximumTexture2DLayeredLayers DeviceAttribute = 29
	// CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT: alignment of a surface's base address, in bytes.
	DeviceAttributeSurfaceAlignment DeviceAttribute = 30
	// CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS: whether several kernels of a context can run at once.
	DeviceAttributeConcurrentKernels DeviceAttribute = 31
	// CU_DEVICE_ATTRIBUTE_ECC_ENABLED: whether the memory's error correction is on.
	DeviceAttributeECCEnabled DeviceAttribute = 32
	// CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: number of the PCI bus that the device is on.
	DeviceAttributePCIBusID DeviceAttribute = 33
	// CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: number of the device on its PCI bus (its slot).
	DeviceAttributePCIDeviceID DeviceAttribute = 34
	// CU_DEVICE_ATTRIBUTE_TCC_DRIVER: whether the Windows driver runs without display support (TCC).
	DeviceAttributeTCCDriver DeviceAttribute = 35
	// CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: peak clock rate of the memory, in kHz.
	DeviceAttributeMemoryClockRate DeviceAttribute = 36
	// CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: width of the bus to the memory, in bits.
	DeviceAttributeGlobalMemoryBusWidth DeviceAttribute = 37
	// CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: size of the L2 cache, in bytes.
	DeviceAttributeL2CacheSize DeviceAttribute = 38
	// CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: most threads that a multiprocessor holds at once.
	DeviceAttributeMaxThreadsPerMultiprocessor DeviceAttribute = 39
	// CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: number of engines that copy while kernels run.
	DeviceAttributeAsyncEngineCount DeviceAttribute = 40
	// CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: whether host and device share one address space (UVA).
	DeviceAttributeUnifiedAddressing DeviceAttribute = 41
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH: widest layered 1D texture, in texels.
	DeviceAttributeMaximumTexture1DLayeredWidth DeviceAttribute = 42
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS: most layers of a layered 1D texture.
	DeviceAttributeMaximumTexture1DLayeredLayers DeviceAttribute = 43
	// CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER: whether 2D textures can be gathered from; deprecated.
	DeviceAttributeCanTex2DGather DeviceAttribute = 44
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH: widest 2D texture that can be gathered from, in texels.
	DeviceAttributeMaximumTexture2DGatherWidth DeviceAttribute = 45
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT: highest 2D texture that can be gathered from, in texels.
	DeviceAttributeMaximumTexture2DGatherHeight DeviceAttribute = 46
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE: widest 3D texture of the second permitted shape, in texels; 0 without one.
	DeviceAttributeMaximumTexture3DWidthAlternate DeviceAttribute = 47
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE: highest 3D texture of the second permitted shape, in texels; 0 without one.
	DeviceAttributeMaximumTexture3DHeightAlternate DeviceAttribute = 48
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: deepest 3D texture of the second permitted shape, in texels; 0 without one.
	DeviceAttributeMaximumTexture3DDepthAlternate DeviceAttribute = 49
	// CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: number of the PCI domain that the device is in.
	DeviceAttributePCIDomainID DeviceAttribute = 50
	// CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT: alignment of the row distance of textures over linear memory, in bytes.
	DeviceAttributeTexturePitchAlignment DeviceAttribute = 51
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH: widest and highest cubemap texture, in texels.
	DeviceAttributeMaximumTextureCubemapWidth DeviceAttribute = 52
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH: widest and highest layered cubemap texture, in texels.
	DeviceAttributeMaximumTextureCubemapLayeredWidth DeviceAttribute = 53
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS: most layers of a layered cubemap texture.
	DeviceAttributeMaximumTextureCubemapLayeredLayers DeviceAttribute = 54
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH: widest 1D surface, in elements.
	DeviceAttributeMaximumSurface1DWidth DeviceAttribute = 55
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH: widest 2D surface, in elements.
	DeviceAttributeMaximumSurface2DWidth DeviceAttribute = 56
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT: highest 2D surface, in elements.
	DeviceAttributeMaximumSurface2DHeight DeviceAttribute = 57
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH: widest 3D surface, in elements.
	DeviceAttributeMaximumSurface3DWidth DeviceAttribute = 58
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT: highest 3D surface, in elements.
	DeviceAttributeMaximumSurface3DHeight DeviceAttribute = 59
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH: deepest 3D surface, in elements.
	DeviceAttributeMaximumSurface3DDepth DeviceAttribute = 60
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH: widest layered 1D surface, in elements.
	DeviceAttributeMaximumSurface1DLayeredWidth DeviceAttribute = 61
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS: most layers of a layered 1D surface.
	DeviceAttributeMaximumSurface1DLayeredLayers DeviceAttribute = 62
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH: widest layered 2D surface, in elements.
	DeviceAttributeMaximumSurface2DLayeredWidth DeviceAttribute = 63
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT: highest layered 2D surface, in elements.
	DeviceAttributeMaximumSurface2DLayeredHeight DeviceAttribute = 64
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS: most layers of a layered 2D surface.
	DeviceAttributeMaximumSurface2DLayeredLayers DeviceAttribute = 65
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH: widest and highest cubemap surface, in elements.
	DeviceAttributeMaximumSurfaceCubemapWidth DeviceAttribute = 66
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH: widest and highest layered cubemap surface, in elements.
	DeviceAttributeMaximumSurfaceCubemapLayeredWidth DeviceAttribute = 67
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS: most layers of a layered cubemap surface.
	DeviceAttributeMaximumSurfaceCubemapLayeredLayers DeviceAttribute = 68
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH: widest 1D texture over linear memory, in texels; deprecated, because the width depends on the format.
	DeviceAttributeMaximumTexture1DLinearWidth DeviceAttribute = 69
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH: widest 2D texture over linear memory, in texels.
	DeviceAttributeMaximumTexture2DLinearWidth DeviceAttribute = 70
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: highest 2D texture over linear memory, in texels.
	DeviceAttributeMaximumTexture2DLinearHeight DeviceAttribute = 71
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH: largest row distance of a 2D texture over linear memory, in bytes.
	DeviceAttributeMaximumTexture2DLinearPitch DeviceAttribute = 72
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH: widest mipmapped 2D texture, in texels.
	DeviceAttributeMaximumTexture2DMipmappedWidth DeviceAttribute = 73
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT: highest mipmapped 2D texture, in texels.
	DeviceAttributeMaximumTexture2DMipmappedHeight DeviceAttribute = 74
	// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: first number of the compute capability, the 9 of 9.0.
	DeviceAttributeComputeCapabilityMajor DeviceAttribute = 75
	// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: second number of the compute capability, the 0 of 9.0.
	DeviceAttributeComputeCapabilityMinor DeviceAttribute = 76
	// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH: widest mipmapped 1D texture, in texels.
	DeviceAttributeMaximumTexture1DMipmappedWidth DeviceAttribute = 77
	// CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED: whether streams can have priorities.
	DeviceAttributeStreamPrioritiesSupported DeviceAttribute = 78
	// CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED: whether L1 caches accesses to global memory.
	DeviceAttributeGlobalL1CacheSupported DeviceAttribute = 79
	// CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED: whether L1 caches accesses to local memory.
	DeviceAttributeLocalL1CacheSupported DeviceAttribute = 80
	// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: shared memory of a multiprocessor, in bytes.
	DeviceAttributeMaxSharedMemoryPerMultiprocessor DeviceAttribute = 81
	// CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: number of 32-bit registers of a multiprocessor.
	DeviceAttributeMaxRegistersPerMultiprocessor DeviceAttribute = 82
	// CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY: whether managed memory can be allocated.
	DeviceAttributeManagedMemory DeviceAttribute = 83
	// CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD: whether the device is one of several on a board.
	DeviceAttributeMultiGPUBoard DeviceAttribute = 84
	// CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID: number that the devices of one board have in common.
	DeviceAttributeMultiGPUBoardGroupID DeviceAttribute = 85
	// CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED: whether the link to the host carries every atomic operation of the device.
	DeviceAttributeHostNativeAtomicSupported DeviceAttribute = 86
	// CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: ratio of single-precision to double-precision operations per second.
	DeviceAttributeSingleToDoublePrecisionPerfRatio DeviceAttribute = 87
	// CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS: whether kernels can use ordinary host memory that is not page-locked.
	DeviceAttributePageableMemoryAccess DeviceAttribute = 88
	// CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: whether CPU and GPU may use managed memory at the same time.
	DeviceAttributeConcurrentManagedAccess DeviceAttribute = 89
	// CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED: whether the device can interrupt a kernel for another one.
	DeviceAttributeComputePreemptionSupported DeviceAttribute = 90
	// CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: whether registered host memory has the same address for kernels as for the CPU.
	DeviceAttributeCanUseHostPointerForRegisteredMem DeviceAttribute = 91
	// CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1: whether the first version of stream memory operations works; deprecated.
	DeviceAttributeCanUseStreamMemOpsV1 DeviceAttribute = 92
	// CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1: whether the first version of stream memory operations works on 64-bit values; deprecated.
	DeviceAttributeCanUse64BitStreamMemOpsV1 DeviceAttribute = 93
	// CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1: whether the first version of stream memory operations can wait for the NOR of a value; deprecated.
	DeviceAttributeCanUseStreamWaitValueNORV1 DeviceAttribute = 94
	// CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: whether cooperative kernels, whose blocks can wait for each other, can be launched.
	DeviceAttributeCooperativeLaunch DeviceAttribute = 95
	// CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH: whether a cooperative kernel can be launched on several devices at once; deprecated.
	DeviceAttributeCooperativeMultiDeviceLaunch DeviceAttribute = 96
	// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: shared memory that a block may have when its kernel asks for it, in bytes.
	DeviceAttributeMaxSharedMemoryPerBlockOptin DeviceAttribute = 97
	// CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES: whether a stream memory operation can flush writes that came from other devices.
	DeviceAttributeCanFlushRemoteWrites DeviceAttribute = 98
	// CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED: whether existing host memory can be page-locked in place (MemHostRegister).
	DeviceAttributeHostRegisterSupported DeviceAttribute = 99
	// CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES: whether kernels reach ordinary host memory through the page tables of the CPU.
	DeviceAttributePageableMemoryAccessUsesHostPageTables DeviceAttribute = 100
	// CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST: whether the CPU can use managed memory that lies on the device without moving it.
	DeviceAttributeDirectManagedMemAccessFromHost DeviceAttribute = 101
	// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: whether addresses can be reserved first and mapped to memory later (cuMemCreate, cuMemMap).
	DeviceAttributeVirtualMemoryManagementSupported DeviceAttribute = 102
	// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: whether created memory can be shared by a file descriptor.
	DeviceAttributeHandleTypePOSIXFileDescriptorSupported DeviceAttribute = 103
	// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED: whether created memory can be shared by a Windows NT handle.
	DeviceAttributeHandleTypeWin32HandleSupported DeviceAttribute = 104
	// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED: whether created memory can be shared by a Windows KMT handle.
	DeviceAttributeHandleTypeWin32KMTHandleSupported DeviceAttribute = 105
	// CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: most blocks that a multiprocessor holds at once.
	DeviceAttributeMaxBlocksPerMultiprocessor DeviceAttribute = 106
	// CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED: whether memory can be created compressible.
	DeviceAttributeGenericCompressionSupported DeviceAttribute = 107
	// CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE: most of the L2 cache that can be set aside for persisting data, in bytes.
	DeviceAttributeMaxPersistingL2CacheSize DeviceAttribute = 108
	// CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE: largest window of addresses that an access policy can cover, in bytes.
	DeviceAttributeMaxAccessPolicyWindowSize DeviceAttribute = 109
	// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: whether created memory can be made ready for GPUDirect RDMA.
	DeviceAttributeGPUDirectRDMAWithCUDAVMMSupported DeviceAttribute = 110
	// CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: shared memory of each block that the driver keeps for itself, in bytes.
	DeviceAttributeReservedSharedMemoryPerBlock DeviceAttribute = 111
	// CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED: whether arrays can be sparse, with memory for some parts only.
	DeviceAttributeSparseCUDAArraySupported DeviceAttribute = 112
	// CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED: whether host memory that the GPU must not write can be registered.
	DeviceAttributeReadOnlyHostRegisterSupported DeviceAttribute = 113
	// CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: whether external timeline semaphores can be waited for and signalled.
	DeviceAttributeTimelineSemaphoreInteropSupported DeviceAttribute = 114
	// CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: whether stream-ordered allocation and its pools work (MemAllocAsync).
	DeviceAttributeMemoryPoolsSupported DeviceAttribute = 115
	// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED: whether other PCI devices can reach the memory by GPUDirect RDMA.
	DeviceAttributeGPUDirectRDMASupported DeviceAttribute = 116
	// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: ways to flush GPUDirect RDMA writes, as bits: 1 a call from the host, 2 a stream memory operation.
	DeviceAttributeGPUDirectRDMAFlushWritesOptions DeviceAttribute = 117
	// CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING: which devices see GPUDirect RDMA writes in order without a flush: 0 none, 100 this device, 200 all devices.
	DeviceAttributeGPUDirectRDMAWritesOrdering DeviceAttribute = 118
	// CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: handles by which a pool can be shared, as bits: 1 file descriptor, 2 Windows NT, 4 Windows KMT, 8 fabric.
	DeviceAttributeMempoolSupportedHandleTypes DeviceAttribute = 119
	// CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: whether kernels can be launched in clusters of blocks.
	DeviceAttributeClusterLaunch DeviceAttribute = 120
	// CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED: whether an array can be created now and get its memory later.
	DeviceAttributeDeferredMappingCUDAArraySupported DeviceAttribute = 121
	// CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS: whether stream memory operations work on 64-bit values.
	DeviceAttributeCanUse64BitStreamMemOps DeviceAttribute = 122
	// CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR: whether stream memory operations can wait for the NOR of a value.
	DeviceAttributeCanUseStreamWaitValueNOR DeviceAttribute = 123
	// CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: whether device memory can be shared as a Linux dma_buf.
	DeviceAttributeDMABufSupported DeviceAttribute = 124
	// CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED: whether events can be shared between processes.
	DeviceAttributeIPCEventSupported DeviceAttribute = 125
	// CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT: number of memory synchronization domains, which fence separately.
	DeviceAttributeMemSyncDomainCount DeviceAttribute = 126
	// CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: whether kernels can copy by tensor maps (TMA).
	DeviceAttributeTensorMapAccessSupported DeviceAttribute = 127
	// CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED: whether memory can be shared by a fabric handle, across machines.
	DeviceAttributeHandleTypeFabricSupported DeviceAttribute = 128
	// CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS: whether a function pointer is valid in every kernel of the device.
	DeviceAttributeUnifiedFunctionPointers DeviceAttribute = 129
	// CU_DEVICE_ATTRIBUTE_NUMA_CONFIG: whether the device's memory is a NUMA node of the host: 0 no, 1 yes.
	DeviceAttributeNUMAConfig DeviceAttribute = 130
	// CU_DEVICE_ATTRIBUTE_NUMA_ID: NUMA node of the device's memory, -1 without one.
	DeviceAttributeNUMAID DeviceAttribute = 131
	// CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: whether NVSwitch can multicast to several devices and reduce from them.
	DeviceAttributeMulticastSupported DeviceAttribute = 132
	// CU_DEVICE_ATTRIBUTE_MPS_ENABLED: whether contexts of this device share it by MPS.
	DeviceAttributeMPSEnabled DeviceAttribute = 133
	// CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: NUMA node of the host nearest to the device, -1 where the system has no NUMA.
	DeviceAttributeHostNUMAID DeviceAttribute = 134
	// CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED: whether a context can run inside a Direct3D 12 queue (CUDA in graphics).
	DeviceAttributeD3D12CIGSupported DeviceAttribute = 135
	// CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK: formats that the decompression engine reads, as bits: 1 Deflate, 2 Snappy, 4 LZ4; 0 without an engine.
	DeviceAttributeMemDecompressAlgorithmMask DeviceAttribute = 136
	// CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH: most bytes of one operation of the decompression engine.
	DeviceAttributeMemDecompressMaximumLength DeviceAttribute = 137
	// CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED: whether a context can run inside a Vulkan queue (CUDA in graphics).
	DeviceAttributeVulkanCIGSupported DeviceAttribute = 138
	// CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID: PCI device ID in the upper 16 bits, PCI vendor ID (0x10DE) in the lower.
	DeviceAttributeGPUPCIDeviceID DeviceAttribute = 139
	// CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID: PCI subsystem ID in the upper 16 bits, subsystem vendor ID in the lower.
	DeviceAttributeGPUPCISubsystemID DeviceAttribute = 140
	// CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: whether memory can be created on a NUMA node of the host (cuMemCreate).
	DeviceAttributeHostNUMAVirtualMemoryManagementSupported DeviceAttribute = 141
	// CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED: whether pools can be on a NUMA node of the host (MemPoolCreate).
	DeviceAttributeHostNUMAMemoryPoolsSupported DeviceAttribute = 142
	// CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED: whether memory of a host NUMA node can be shared across machines.
	DeviceAttributeHostNUMAMultinodeIPCSupported DeviceAttribute = 143
	// CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED: whether pools can be on the host (MemPoolCreate).
	DeviceAttributeHostMemoryPoolsSupported DeviceAttribute = 144
	// CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: whether memory can be created on the host (cuMemCreate).
	DeviceAttributeHostVirtualMemoryManagementSupported DeviceAttribute = 145
	// CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED: whether page-locked host memory can be shared as a Linux dma_buf.
	DeviceAttributeHostAllocDMABufSupported DeviceAttribute = 146
	// CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED: whether the link to the host carries some atomic operations of the device, but not all.
	DeviceAttributeOnlyPartialHostNativeAtomicSupported DeviceAttribute = 147
)

// deviceAttributeNames has CUDA's name of every attribute, at the index of its
// number.
var deviceAttributeNames = [...]string{
	DeviceAttributeMaxThreadsPerBlock:                       "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK",
	DeviceAttributeMaxBlockDimX:                             "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X",
	DeviceAttributeMaxBlockDimY:                             "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y",
	DeviceAttributeMaxBlockDimZ:                             "CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z",
	DeviceAttributeMaxGridDimX:                              "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X",
	DeviceAttributeMaxGridDimY:                              "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y",
	DeviceAttributeMaxGridDimZ:                              "CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z",
	DeviceAttributeMaxSharedMemoryPerBlock:                  "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK",
	DeviceAttributeTotalConstantMemory:                      "CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY",
	DeviceAttributeWarpSize:                                 "CU_DEVICE_ATTRIBUTE_WARP_SIZE",
	DeviceAttributeMaxPitch:                                 "CU_DEVICE_ATTRIBUTE_MAX_PITCH",
	DeviceAttributeMaxRegistersPerBlock:                     "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK",
	DeviceAttributeClockRate:                                "CU_DEVICE_ATTRIBUTE_CLOCK_RATE",
	DeviceAttributeTextureAlignment:                         "CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT",
	DeviceAttributeGPUOverlap:                               "CU_DEVICE_ATTRIBUTE_GPU_OVERLAP",
	DeviceAttributeMultiprocessorCount:                      "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
	DeviceAttributeKernelExecTimeout:                        "CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT",
	DeviceAttributeIntegrated:                               "CU_DEVICE_ATTRIBUTE_INTEGRATED",
	DeviceAttributeCanMapHostMemory:                         "CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY",
	DeviceAttributeComputeMode:                              "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE",
	DeviceAttributeMaximumTexture1DWidth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH",
	DeviceAttributeMaximumTexture2DWidth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH",
	DeviceAttributeMaximumTexture2DHeight:                   "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT",
	DeviceAttributeMaximumTexture3DWidth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH",
	DeviceAttributeMaximumTexture3DHeight:                   "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT",
	DeviceAttributeMaximumTexture3DDepth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH",
	DeviceAttributeMaximumTexture2DLayeredWidth:             "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH",
	DeviceAttributeMaximumTexture2DLayeredHeight:            "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT",
	DeviceAttributeMaximumTexture2DLayeredLayers:            "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS",
	DeviceAttributeSurfaceAlignment:                         "CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT",
	DeviceAttributeConcurrentKernels:                        "CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS",
	DeviceAttributeECCEnabled:                               "CU_DEVICE_ATTRIBUTE_ECC_ENABLED",
	DeviceAttributePCIBusID:                                 "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID",
	DeviceAttributePCIDeviceID:                              "CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID",
	DeviceAttributeTCCDriver:                                "CU_DEVICE_ATTRIBUTE_TCC_DRIVER",
	DeviceAttributeMemoryClockRate:                          "CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE",
	DeviceAttributeGlobalMemoryBusWidth:                     "CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH",
	DeviceAttributeL2CacheSize:                              "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE",
	DeviceAttributeMaxThreadsPerMultiprocessor:              "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR",
	DeviceAttributeAsyncEngineCount:                         "CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT",
	DeviceAttributeUnifiedAddressing:                        "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING",
	DeviceAttributeMaximumTexture1DLayeredWidth:             "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH",
	DeviceAttributeMaximumTexture1DLayeredLayers:            "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS",
	DeviceAttributeCanTex2DGather:                           "CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER",
	DeviceAttributeMaximumTexture2DGatherWidth:              "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH",
	DeviceAttributeMaximumTexture2DGatherHeight:             "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT",
	DeviceAttributeMaximumTexture3DWidthAlternate:           "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE",
	DeviceAttributeMaximumTexture3DHeightAlternate:          "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE",
	DeviceAttributeMaximumTexture3DDepthAlternate:           "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE",
	DeviceAttributePCIDomainID:                              "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID",
	DeviceAttributeTexturePitchAlignment:                    "CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT",
	DeviceAttributeMaximumTextureCubemapWidth:               "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH",
	DeviceAttributeMaximumTextureCubemapLayeredWidth:        "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH",
	DeviceAttributeMaximumTextureCubemapLayeredLayers:       "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS",
	DeviceAttributeMaximumSurface1DWidth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH",
	DeviceAttributeMaximumSurface2DWidth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH",
	DeviceAttributeMaximumSurface2DHeight:                   "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT",
	DeviceAttributeMaximumSurface3DWidth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH",
	DeviceAttributeMaximumSurface3DHeight:                   "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT",
	DeviceAttributeMaximumSurface3DDepth:                    "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH",
	DeviceAttributeMaximumSurface1DLayeredWidth:             "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH",
	DeviceAttributeMaximumSurface1DLayeredLayers:            "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS",
	DeviceAttributeMaximumSurface2DLayeredWidth:             "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH",
	DeviceAttributeMaximumSurface2DLayeredHeight:            "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT",
	DeviceAttributeMaximumSurface2DLayeredLayers:            "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS",
	DeviceAttributeMaximumSurfaceCubemapWidth:               "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH",
	DeviceAttributeMaximumSurfaceCubemapLayeredWidth:        "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH",
	DeviceAttributeMaximumSurfaceCubemapLayeredLayers:       "CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS",
	DeviceAttributeMaximumTexture1DLinearWidth:              "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH",
	DeviceAttributeMaximumTexture2DLinearWidth:              "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH",
	DeviceAttributeMaximumTexture2DLinearHeight:             "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT",
	DeviceAttributeMaximumTexture2DLinearPitch:              "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH",
	DeviceAttributeMaximumTexture2DMipmappedWidth:           "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH",
	DeviceAttributeMaximumTexture2DMipmappedHeight:          "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT",
	DeviceAttributeComputeCapabilityMajor:                   "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
	DeviceAttributeComputeCapabilityMinor:                   "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
	DeviceAttributeMaximumTexture1DMipmappedWidth:           "CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH",
	DeviceAttributeStreamPrioritiesSupported:                "CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED",
	DeviceAttributeGlobalL1CacheSupported:                   "CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED",
	DeviceAttributeLocalL1CacheSupported:                    "CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED",
	DeviceAttributeMaxSharedMemoryPerMultiprocessor:         "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
	DeviceAttributeMaxRegistersPerMultiprocessor:            "CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR",
	DeviceAttributeManagedMemory:                            "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY",
	DeviceAttributeMultiGPUBoard:                            "CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD",
	DeviceAttributeMultiGPUBoardGroupID:                     "CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID",
	DeviceAttributeHostNativeAtomicSupported:                "CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED",
	DeviceAttributeSingleToDoublePrecisionPerfRatio:         "CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO",
	DeviceAttributePageableMemoryAccess:                     "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS",
	DeviceAttributeConcurrentManagedAccess:                  "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS",
	DeviceAttributeComputePreemptionSupported:               "CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED",
	DeviceAttributeCanUseHostPointerForRegisteredMem:        "CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM",
	DeviceAttributeCanUseStreamMemOpsV1:                     "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1",
	DeviceAttributeCanUse64BitStreamMemOpsV1:                "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1",
	DeviceAttributeCanUseStreamWaitValueNORV1:               "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1",
	DeviceAttributeCooperativeLaunch:                        "CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH",
	DeviceAttributeCooperativeMultiDeviceLaunch:             "CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH",
	DeviceAttributeMaxSharedMemoryPerBlockOptin:             "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
	DeviceAttributeCanFlushRemoteWrites:                     "CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES",
	DeviceAttributeHostRegisterSupported:                    "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED",
	DeviceAttributePageableMemoryAccessUsesHostPageTables:   "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES",
	DeviceAttributeDirectManagedMemAccessFromHost:           "CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST",
	DeviceAttributeVirtualMemoryManagementSupported:         "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
	DeviceAttributeHandleTypePOSIXFileDescriptorSupported:   "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED",
	DeviceAttributeHandleTypeWin32HandleSupported:           "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED",
	DeviceAttributeHandleTypeWin32KMTHandleSupported:        "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED",
	DeviceAttributeMaxBlocksPerMultiprocessor:               "CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR",
	DeviceAttributeGenericCompressionSupported:              "CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED",
	DeviceAttributeMaxPersistingL2CacheSize:                 "CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE",
	DeviceAttributeMaxAccessPolicyWindowSize:                "CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE",
	DeviceAttributeGPUDirectRDMAWithCUDAVMMSupported:        "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED",
	DeviceAttributeReservedSharedMemoryPerBlock:             "CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK",
	DeviceAttributeSparseCUDAArraySupported:                 "CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED",
	DeviceAttributeReadOnlyHostRegisterSupported:            "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED",
	DeviceAttributeTimelineSemaphoreInteropSupported:        "CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED",
	DeviceAttributeMemoryPoolsSupported:                     "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED",
	DeviceAttributeGPUDirectRDMASupported:                   "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED",
	DeviceAttributeGPUDirectRDMAFlushWritesOptions:          "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS",
	DeviceAttributeGPUDirectRDMAWritesOrdering:              "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING",
	DeviceAttributeMempoolSupportedHandleTypes:              "CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES",
	DeviceAttributeClusterLaunch:                            "CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH",
	DeviceAttributeDeferredMappingCUDAArraySupported:        "CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED",
	DeviceAttributeCanUse64BitStreamMemOps:                  "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS",
	DeviceAttributeCanUseStreamWaitValueNOR:                 "CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR",
	DeviceAttributeDMABufSupported:                          "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED",
	DeviceAttributeIPCEventSupported:                        "CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED",
	DeviceAttributeMemSyncDomainCount:                       "CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT",
	DeviceAttributeTensorMapAccessSupported:                 "CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED",
	DeviceAttributeHandleTypeFabricSupported:                "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED",
	DeviceAttributeUnifiedFunctionPointers:                  "CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS",
	DeviceAttributeNUMAConfig:                               "CU_DEVICE_ATTRIBUTE_NUMA_CONFIG",
	DeviceAttributeNUMAID:                                   "CU_DEVICE_ATTRIBUTE_NUMA_ID",
	DeviceAttributeMulticastSupported:                       "CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED",
	DeviceAttributeMPSEnabled:                               "CU_DEVICE_ATTRIBUTE_MPS_ENABLED",
	DeviceAttributeHostNUMAID:                               "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID",
	DeviceAttributeD3D12CIGSupported:                        "CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED",
	DeviceAttributeMemDecompressAlgorithmMask:               "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK",
	DeviceAttributeMemDecompressMaximumLength:               "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH",
	DeviceAttributeVulkanCIGSupported:                       "CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED",
	DeviceAttributeGPUPCIDeviceID:                           "CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID",
	DeviceAttributeGPUPCISubsystemID:                        "CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID",
	DeviceAttributeHostNUMAVirtualMemoryManagementSupported: "CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
	DeviceAttributeHostNUMAMemoryPoolsSupported:             "CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED",
	DeviceAttributeHostNUMAMultinodeIPCSupported:            "CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED",
	DeviceAttributeHostMemoryPoolsSupported:                 "CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED",
	DeviceAttributeHostVirtualMemoryManagementSupported:     "CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
	DeviceAttributeHostAllocDMABufSupported:                 "CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED",
	DeviceAttributeOnlyPartialHostNativeAtomicSupported:     "CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED",
}
