// Memory of the device, of the host and of both, and pools.
#include "runtime.h"

using namespace ferry;

extern "C" {

cudaError_t cudaMalloc(void **p, size_t bytes) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        *p = nullptr;
        return bytes ? CU(cuMemAlloc_v2)((CUdeviceptr *)p, bytes) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
    return FERRY_CALL.in([&] {
        if (!p || !pitch)
            return CUDA_ERROR_INVALID_VALUE;
        *p = nullptr, *pitch = 0;
        return width && height ? CU(cuMemAllocPitch_v2)((CUdeviceptr *)p, pitch, width, height, 4) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *p, struct cudaExtent extent) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        *p = {nullptr, 0, extent.width, extent.height};
        size_t rows = extent.height * extent.depth;
        return extent.width && rows ? CU(cuMemAllocPitch_v2)((CUdeviceptr *)&p->ptr, &p->pitch, extent.width, rows, 4) : CUDA_SUCCESS;
    });
}

cudaError_t cudaFree(void *p) {
    return FERRY_CALL.in([&] { return p ? CU(cuMemFree_v2)(device(p)) : CUDA_SUCCESS; });
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        *p = nullptr;
        return bytes ? CU(cuMemHostAlloc)(p, bytes, flags) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMallocHost(void **p, size_t bytes) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        *p = nullptr;
        return bytes ? CU(cuMemHostAlloc)(p, bytes, cudaHostAllocDefault) : CUDA_SUCCESS;
    });
}

cudaError_t cudaFreeHost(void *p) {
    return FERRY_CALL.in([&] { return p ? CU(cuMemFreeHost)(p) : CUDA_SUCCESS; });
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuMemHostRegister_v2)(p, bytes, flags); });
}

cudaError_t cudaHostUnregister(void *p) {
    return FERRY_CALL.in([&] { return CU(cuMemHostUnregister)(p); });
}

cudaError_t cudaHostGetDevicePointer(void **p, void *host, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuMemHostGetDevicePointer_v2)((CUdeviceptr *)p, host, flags); });
}

cudaError_t cudaHostGetFlags(unsigned *flags, void *host) {
    return FERRY_CALL.in([&] { return CU(cuMemHostGetFlags)(flags, host); });
}

cudaError_t cudaMallocManaged(void **p, size_t bytes, unsigned flags) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        *p = nullptr;
        return bytes ? CU(cuMemAllocManaged)((CUdeviceptr *)p, bytes, flags) : CUDA_SUCCESS;
    });
}

cudaError_t cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice, int place) {
    return FERRY_CALL.in([&] { return CU(cuMemAdvise)(device(p), bytes, (CUmem_advise)advice, place); });
}

cudaError_t cudaMemAdvise_v2(const void *p, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation place) {
    return FERRY_CALL.in([&] { return CU(cuMemAdvise_v2)(device(p), bytes, (CUmem_advise)advice, CUmemLocation{(CUmemLocationType)place.type, place.id}); });
}

cudaError_t cudaMemPrefetchAsync(const void *p, size_t bytes, int place, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuMemPrefetchAsync)(device(p), bytes, place, stream(s)); });
}

cudaError_t cudaMemPrefetchAsync_v2(const void *p, size_t bytes, struct cudaMemLocation place, unsigned flags, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuMemPrefetchAsync_v2)(device(p), bytes, CUmemLocation{(CUmemLocationType)place.type, place.id}, flags, stream(s)); });
}

cudaError_t cudaMemPrefetchBatchAsync(void **all, size_t *sizes, size_t count, struct cudaMemLocation *places, size_t *from, size_t placesCount, unsigned long long flags, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuMemPrefetchBatchAsync)((CUdeviceptr *)all, sizes, count, (CUmemLocation *)places, from, placesCount, flags, stream(s)); });
}

cudaError_t cudaMemDiscardBatchAsync(void **all, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuMemDiscardBatchAsync)((CUdeviceptr *)all, sizes, count, flags, stream(s)); });
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t bytes, enum cudaMemRangeAttribute attribute, const void *p, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuMemRangeGetAttribute)(data, bytes, (CUmem_range_attribute)attribute, device(p), count); });
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *sizes, enum cudaMemRangeAttribute *attributes, size_t number, const void *p, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuMemRangeGetAttributes)(data, sizes, (CUmem_range_attribute *)attributes, number, device(p), count); });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t s, void *p, size_t bytes, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuStreamAttachMemAsync)(stream(s), device(p), bytes, flags); });
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    return FERRY_CALL.in([&] { return CU(cuMemGetInfo_v2)(available, total); });
}

// What is known of an address. Memory that CUDA does not know is no error.
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
    return FERRY_CALL.in([&] {
        if (!a)
            return CUDA_ERROR_INVALID_VALUE;
        unsigned type = 0, managed = 0;
        int ordinal = cudaInvalidDeviceId;
        CUdeviceptr onDevice = 0;
        void *onHost = nullptr;
        CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
        void *values[] = {&type, &managed, &ordinal, &onDevice, &onHost};
        CUresult r = CU(cuPointerGetAttributes)(sizeof names / sizeof *names, names, values, device(p));
        *a = {};
        a->type = managed ? cudaMemoryTypeManaged : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : type ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
        a->device = ordinal;
        a->devicePointer = (void *)onDevice;
        a->hostPointer = onHost;
        if (!type)
            a->device = cudaInvalidDeviceId, a->devicePointer = nullptr, a->hostPointer = (void *)p;
        return r;
    });
}

// Pools. Their structures have the layout of the driver's.
cudaError_t cudaMallocAsync(void **p, size_t bytes, cudaStream_t s) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        *p = nullptr;
        return bytes ? CU(cuMemAllocAsync)((CUdeviceptr *)p, bytes, stream(s)) : CUDA_SUCCESS;
    });
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
    return FERRY_CALL.in([&] { return p ? CU(cuMemFreeAsync)(device(p), stream(s)) : CUDA_SUCCESS; });
}

cudaError_t cudaMallocFromPoolAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuMemAllocFromPoolAsync)((CUdeviceptr *)p, bytes, pool, stream(s)); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolCreate)(pool, (const CUmemPoolProps *)props); });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolDestroy)(pool); });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolTrimTo)(pool, keep); });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolSetAttribute)(pool, (CUmemPool_attribute)attribute, value); });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolGetAttribute)(pool, (CUmemPool_attribute)attribute, value); });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolSetAccess)(pool, (const CUmemAccessDesc *)access, count); });
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *place) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolGetAccess)((CUmemAccess_flags *)flags, pool, (CUmemLocation *)place); });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetDefaultMemPool)(pool, device); });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetMemPool)(pool, device); });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceSetMemPool)(device, pool); });
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, struct cudaMemLocation *place, enum cudaMemAllocationType type) {
    return FERRY_CALL.begun([&] { return CU(cuMemGetDefaultMemPool)(pool, (CUmemLocation *)place, (CUmemAllocationType)type); });
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *place, enum cudaMemAllocationType type) {
    return FERRY_CALL.begun([&] { return CU(cuMemGetMemPool)(pool, (CUmemLocation *)place, (CUmemAllocationType)type); });
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *place, enum cudaMemAllocationType type, cudaMemPool_t pool) {
    return FERRY_CALL.begun([&] { return CU(cuMemSetMemPool)((CUmemLocation *)place, (CUmemAllocationType)type, pool); });
}

// Memory of other processes.
cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type, unsigned flags) {
    return FERRY_CALL.begun([&] { return CU(cuMemPoolExportToShareableHandle)(handle, pool, (CUmemAllocationHandleType)type, flags); });
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle, enum cudaMemAllocationHandleType type, unsigned flags) {
    return FERRY_CALL.begun([&] { return CU(cuMemPoolImportFromShareableHandle)(pool, handle, (CUmemAllocationHandleType)type, flags); });
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *p) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolExportPointer)((CUmemPoolPtrExportData *)data, device(p)); });
}

cudaError_t cudaMemPoolImportPointer(void **p, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data) {
    return FERRY_CALL.in([&] { return CU(cuMemPoolImportPointer)((CUdeviceptr *)p, pool, (CUmemPoolPtrExportData *)data); });
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *p) {
    return FERRY_CALL.in([&] { return CU(cuIpcGetMemHandle)((CUipcMemHandle *)handle, device(p)); });
}

cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuIpcOpenMemHandle_v2)((CUdeviceptr *)p, __builtin_bit_cast(CUipcMemHandle, handle), flags); });
}

cudaError_t cudaIpcCloseMemHandle(void *p) {
    return FERRY_CALL.in([&] { return CU(cuIpcCloseMemHandle)(device(p)); });
}

} // extern "C"
