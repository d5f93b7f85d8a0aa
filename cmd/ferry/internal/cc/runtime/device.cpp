// What is known of devices, limits, peers and versions.
#include "runtime.h"

#include <cstring>

using namespace ferry;

namespace {

// A Field is an attribute in the structure of a device.
struct Field {
    size_t at;
    cudaDeviceAttr attribute;
    bool wide; // a size_t
};
#define FIELD(NAME, ATTRIBUTE) {offsetof(cudaDeviceProp, NAME), cudaDevAttr##ATTRIBUTE, sizeof(cudaDeviceProp::NAME) == sizeof(size_t)}

const Field fields[] = {
    FIELD(sharedMemPerBlock, MaxSharedMemoryPerBlock),
    FIELD(regsPerBlock, MaxRegistersPerBlock),
    FIELD(warpSize, WarpSize),
    FIELD(memPitch, MaxPitch),
    FIELD(maxThreadsPerBlock, MaxThreadsPerBlock),
    FIELD(maxThreadsDim[0], MaxBlockDimX),
    FIELD(maxThreadsDim[1], MaxBlockDimY),
    FIELD(maxThreadsDim[2], MaxBlockDimZ),
    FIELD(maxGridSize[0], MaxGridDimX),
    FIELD(maxGridSize[1], MaxGridDimY),
    FIELD(maxGridSize[2], MaxGridDimZ),
    FIELD(clockRate, ClockRate),
    FIELD(totalConstMem, TotalConstantMemory),
    FIELD(major, ComputeCapabilityMajor),
    FIELD(minor, ComputeCapabilityMinor),
    FIELD(textureAlignment, TextureAlignment),
    FIELD(texturePitchAlignment, TexturePitchAlignment),
    FIELD(deviceOverlap, GpuOverlap),
    FIELD(multiProcessorCount, MultiProcessorCount),
    FIELD(kernelExecTimeoutEnabled, KernelExecTimeout),
    FIELD(integrated, Integrated),
    FIELD(canMapHostMemory, CanMapHostMemory),
    FIELD(computeMode, ComputeMode),
    FIELD(maxTexture1D, MaxTexture1DWidth),
    FIELD(maxTexture1DMipmap, MaxTexture1DMipmappedWidth),
    FIELD(maxTexture1DLinear, MaxTexture1DLinearWidth),
    FIELD(maxTexture2D[0], MaxTexture2DWidth),
    FIELD(maxTexture2D[1], MaxTexture2DHeight),
    FIELD(maxTexture2DMipmap[0], MaxTexture2DMipmappedWidth),
    FIELD(maxTexture2DMipmap[1], MaxTexture2DMipmappedHeight),
    FIELD(maxTexture2DLinear[0], MaxTexture2DLinearWidth),
    FIELD(maxTexture2DLinear[1], MaxTexture2DLinearHeight),
    FIELD(maxTexture2DLinear[2], MaxTexture2DLinearPitch),
    FIELD(maxTexture2DGather[0], MaxTexture2DGatherWidth),
    FIELD(maxTexture2DGather[1], MaxTexture2DGatherHeight),
    FIELD(maxTexture3D[0], MaxTexture3DWidth),
    FIELD(maxTexture3D[1], MaxTexture3DHeight),
    FIELD(maxTexture3D[2], MaxTexture3DDepth),
    FIELD(maxTexture3DAlt[0], MaxTexture3DWidthAlt),
    FIELD(maxTexture3DAlt[1], MaxTexture3DHeightAlt),
    FIELD(maxTexture3DAlt[2], MaxTexture3DDepthAlt),
    FIELD(maxTextureCubemap, MaxTextureCubemapWidth),
    FIELD(maxTexture1DLayered[0], MaxTexture1DLayeredWidth),
    FIELD(maxTexture1DLayered[1], MaxTexture1DLayeredLayers),
    FIELD(maxTexture2DLayered[0], MaxTexture2DLayeredWidth),
    FIELD(maxTexture2DLayered[1], MaxTexture2DLayeredHeight),
    FIELD(maxTexture2DLayered[2], MaxTexture2DLayeredLayers),
    FIELD(maxTextureCubemapLayered[0], MaxTextureCubemapLayeredWidth),
    FIELD(maxTextureCubemapLayered[1], MaxTextureCubemapLayeredLayers),
    FIELD(maxSurface1D, MaxSurface1DWidth),
    FIELD(maxSurface2D[0], MaxSurface2DWidth),
    FIELD(maxSurface2D[1], MaxSurface2DHeight),
    FIELD(maxSurface3D[0], MaxSurface3DWidth),
    FIELD(maxSurface3D[1], MaxSurface3DHeight),
    FIELD(maxSurface3D[2], MaxSurface3DDepth),
    FIELD(maxSurface1DLayered[0], MaxSurface1DLayeredWidth),
    FIELD(maxSurface1DLayered[1], MaxSurface1DLayeredLayers),
    FIELD(maxSurface2DLayered[0], MaxSurface2DLayeredWidth),
    FIELD(maxSurface2DLayered[1], MaxSurface2DLayeredHeight),
    FIELD(maxSurface2DLayered[2], MaxSurface2DLayeredLayers),
    FIELD(maxSurfaceCubemap, MaxSurfaceCubemapWidth),
    FIELD(maxSurfaceCubemapLayered[0], MaxSurfaceCubemapLayeredWidth),
    FIELD(maxSurfaceCubemapLayered[1], MaxSurfaceCubemapLayeredLayers),
    FIELD(surfaceAlignment, SurfaceAlignment),
    FIELD(concurrentKernels, ConcurrentKernels),
    FIELD(ECCEnabled, EccEnabled),
    FIELD(pciBusID, PciBusId),
    FIELD(pciDeviceID, PciDeviceId),
    FIELD(pciDomainID, PciDomainId),
    FIELD(tccDriver, TccDriver),
    FIELD(asyncEngineCount, AsyncEngineCount),
    FIELD(unifiedAddressing, UnifiedAddressing),
    FIELD(memoryClockRate, MemoryClockRate),
    FIELD(memoryBusWidth, GlobalMemoryBusWidth),
    FIELD(l2CacheSize, L2CacheSize),
    FIELD(persistingL2CacheMaxSize, MaxPersistingL2CacheSize),
    FIELD(maxThreadsPerMultiProcessor, MaxThreadsPerMultiProcessor),
    FIELD(streamPrioritiesSupported, StreamPrioritiesSupported),
    FIELD(globalL1CacheSupported, GlobalL1CacheSupported),
    FIELD(localL1CacheSupported, LocalL1CacheSupported),
    FIELD(sharedMemPerMultiprocessor, MaxSharedMemoryPerMultiprocessor),
    FIELD(regsPerMultiprocessor, MaxRegistersPerMultiprocessor),
    FIELD(managedMemory, ManagedMemory),
    FIELD(isMultiGpuBoard, IsMultiGpuBoard),
    FIELD(multiGpuBoardGroupID, MultiGpuBoardGroupID),
    FIELD(hostNativeAtomicSupported, HostNativeAtomicSupported),
    FIELD(singleToDoublePrecisionPerfRatio, SingleToDoublePrecisionPerfRatio),
    FIELD(pageableMemoryAccess, PageableMemoryAccess),
    FIELD(concurrentManagedAccess, ConcurrentManagedAccess),
    FIELD(computePreemptionSupported, ComputePreemptionSupported),
    FIELD(canUseHostPointerForRegisteredMem, CanUseHostPointerForRegisteredMem),
    FIELD(cooperativeLaunch, CooperativeLaunch),
    FIELD(sharedMemPerBlockOptin, MaxSharedMemoryPerBlockOptin),
    FIELD(pageableMemoryAccessUsesHostPageTables, PageableMemoryAccessUsesHostPageTables),
    FIELD(directManagedMemAccessFromHost, DirectManagedMemAccessFromHost),
    FIELD(maxBlocksPerMultiProcessor, MaxBlocksPerMultiprocessor),
    FIELD(accessPolicyMaxWindowSize, MaxAccessPolicyWindowSize),
    FIELD(reservedSharedMemPerBlock, ReservedSharedMemoryPerBlock),
    FIELD(hostRegisterSupported, HostRegisterSupported),
    FIELD(sparseCudaArraySupported, SparseCudaArraySupported),
    FIELD(hostRegisterReadOnlySupported, HostRegisterReadOnlySupported),
    FIELD(timelineSemaphoreInteropSupported, TimelineSemaphoreInteropSupported),
    FIELD(memoryPoolsSupported, MemoryPoolsSupported),
    FIELD(gpuDirectRDMASupported, GPUDirectRDMASupported),
    FIELD(gpuDirectRDMAFlushWritesOptions, GPUDirectRDMAFlushWritesOptions),
    FIELD(gpuDirectRDMAWritesOrdering, GPUDirectRDMAWritesOrdering),
    FIELD(memoryPoolSupportedHandleTypes, MemoryPoolSupportedHandleTypes),
    FIELD(deferredMappingCudaArraySupported, DeferredMappingCudaArraySupported),
    FIELD(ipcEventSupported, IpcEventSupport),
    FIELD(clusterLaunch, ClusterLaunch),
    FIELD(unifiedFunctionPointers, Reserved129),
    FIELD(deviceNumaConfig, NumaConfig),
    FIELD(deviceNumaId, NumaId),
    FIELD(mpsEnabled, MpsEnabled),
    FIELD(hostNumaId, HostNumaId),
    FIELD(gpuPciDeviceID, GpuPciDeviceId),
    FIELD(gpuPciSubsystemID, GpuPciSubsystemId),
    FIELD(hostNumaMultinodeIpcSupported, HostNumaMultinodeIpcSupported),
};

CUresult properties(cudaDeviceProp *p, int ordinal) {
    CUdevice d;
    if (CUresult r = CU(cuDeviceGet)(&d, ordinal))
        return r;
    *p = {};
    CU(cuDeviceGetName)(p->name, sizeof p->name, d);
    CU(cuDeviceGetUuid_v2)((CUuuid *)&p->uuid, d);
    CU(cuDeviceTotalMem_v2)(&p->totalGlobalMem, d);
    for (const Field &f : fields) {
        int value = 0; // of an attribute that the driver does not know
        CU(cuDeviceGetAttribute)(&value, (CUdevice_attribute)f.attribute, d);
        if (f.wide)
            *(size_t *)((char *)p + f.at) = (unsigned)value;
        else
            memcpy((char *)p + f.at, &value, sizeof value);
    }
    return CUDA_SUCCESS;
}

} // namespace

extern "C" {

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int ordinal) {
    return FERRY_CALL.begun([&] { return p ? properties(p, ordinal) : CUDA_ERROR_INVALID_VALUE; });
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int ordinal) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetAttribute)(value, (CUdevice_attribute)attribute, ordinal); });
}

// All devices are equal to a program that does not say what it needs: the first is as good as any.
cudaError_t cudaChooseDevice(int *ordinal, const struct cudaDeviceProp *wanted) {
    return FERRY_CALL.begun([&] {
        if (!ordinal || !wanted)
            return CUDA_ERROR_INVALID_VALUE;
        *ordinal = 0;
        return CUDA_SUCCESS;
    });
}

cudaError_t cudaDeviceGetByPCIBusId(int *ordinal, const char *id) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetByPCIBusId)(ordinal, id); });
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int ordinal) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetPCIBusId)(id, bytes, ordinal); });
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    return FERRY_CALL.in([&] { return CU(cuCtxSetLimit)((CUlimit)limit, value); });
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    return FERRY_CALL.in([&] { return CU(cuCtxGetLimit)(value, (CUlimit)limit); });
}

cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value) {
    return FERRY_CALL.in([&] { return CU(cuCtxSetLimit)((CUlimit)limit, value); });
}

cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit) {
    return FERRY_CALL.in([&] { return CU(cuCtxGetLimit)(value, (CUlimit)limit); });
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) {
    return FERRY_CALL.in([&] { return CU(cuCtxGetCacheConfig)((CUfunc_cache *)config); });
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
    return FERRY_CALL.in([&] { return CU(cuCtxSetCacheConfig)((CUfunc_cache)config); });
}

cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config) {
    return FERRY_CALL.in([&] { return CU(cuCtxGetCacheConfig)((CUfunc_cache *)config); });
}

cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config) {
    return FERRY_CALL.in([&] { return CU(cuCtxSetCacheConfig)((CUfunc_cache)config); });
}

// The width of the banks of shared memory is fixed since Maxwell.
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config) {
    return FERRY_CALL.in([&] {
        if (!config)
            return CUDA_ERROR_INVALID_VALUE;
        *config = cudaSharedMemBankSizeFourByte;
        return CUDA_SUCCESS;
    });
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig) {
    return FERRY_CALL.in([] { return CUDA_SUCCESS; });
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int ordinal, int peer) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceCanAccessPeer)(can, ordinal, peer); });
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int from, int to) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetP2PAttribute)(value, (CUdevice_P2PAttribute)attribute, from, to); });
}

cudaError_t cudaDeviceGetHostAtomicCapabilities(unsigned *capabilities, const enum cudaAtomicOperation *operations, unsigned count, int ordinal) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetHostAtomicCapabilities)(capabilities, (const CUatomicOperation *)operations, count, ordinal); });
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned *capabilities, const enum cudaAtomicOperation *operations, unsigned count, int from, int to) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetP2PAtomicCapabilities)(capabilities, (const CUatomicOperation *)operations, count, from, to); });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    return FERRY_CALL.in([&] {
        CUcontext context;
        CUresult r = primary(peer, &context);
        return r ? r : CU(cuCtxEnablePeerAccess)(context, flags);
    });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    return FERRY_CALL.in([&] {
        CUcontext context;
        CUresult r = primary(peer, &context);
        return r ? r : CU(cuCtxDisablePeerAccess)(context);
    });
}

cudaError_t cudaDriverGetVersion(int *version) {
    return FERRY_CALL.out([&] { return CU(cuDriverGetVersion)(version); });
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    return FERRY_CALL.out([&] {
        if (!version)
            return cudaErrorInvalidValue;
        *version = CUDART_VERSION;
        return cudaSuccess;
    });
}

cudaError_t cudaProfilerInitialize(const char *, const char *, cudaOutputMode_t) { return cudaSuccess; }

cudaError_t cudaProfilerStart(void) {
    return FERRY_CALL.in([] { return CU(cuProfilerStart)(); });
}

cudaError_t cudaProfilerStop(void) {
    return FERRY_CALL.in([] { return CU(cuProfilerStop)(); });
}

// streamFlags returns the flags of a search for a function: without any it is for the default stream of
// the caller.
static unsigned long long streamFlags(unsigned long long flags) {
    return flags == cudaEnableDefault && self.perThread ? cudaEnablePerThreadDefaultStream : flags;
}

cudaError_t cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags, enum cudaDriverEntryPointQueryResult *found) {
    return FERRY_CALL.begun([&] { return CU(cuGetProcAddress_v2)(name, f, CUDA_VERSION, streamFlags(flags), (CUdriverProcAddressQueryResult *)found); });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *found) {
    return FERRY_CALL.begun([&] { return CU(cuGetProcAddress_v2)(name, f, (int)version, streamFlags(flags), (CUdriverProcAddressQueryResult *)found); });
}

} // extern "C"

extern "C" {

// What elements of arrays are. Arrays themselves are refused.
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind) { return {x, y, z, w, kind}; }

} // extern "C"
