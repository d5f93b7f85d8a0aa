// cuda_runtime.h: what nvcc gives every source, and the runtime API with its forms for C++.
#ifndef FERRY_COMPAT_CUDA_RUNTIME_H
#define FERRY_COMPAT_CUDA_RUNTIME_H
#define __CUDA_RUNTIME_H__ // sources ask for it
#include "../ferry/core.h"
#ifdef FERRY_API
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __cplusplus
#include <cmath>
#include <utility>
#endif
#endif
#include "cuda_runtime_api.h"
#if defined(FERRY_API) && defined(__cplusplus)
#include "channel_descriptor.h"
#include "driver_functions.h"

// What <<<>>> becomes, which with the default stream of threads is another function. The names of HIP
// are for files with managed variables.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#undef cudaLaunchKernel
extern "C" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
#define cudaLaunchKernel cudaLaunchKernel_ptsz
#define FERRY_PUSH(NAME) unsigned NAME(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0) __asm__(#NAME "_ptsz");
#else
#define FERRY_PUSH(NAME) unsigned NAME(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
#endif
extern "C" {
FERRY_PUSH(__cudaPushCallConfiguration)
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0); // of a clang that takes the toolkit for an old one
#ifdef __HIP__
FERRY_PUSH(__hipPushCallConfiguration)
cudaError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
#endif
}
#undef FERRY_PUSH

// FERRY_FORM begins a form for C++. It is part of its caller, so that reports name the caller's line.
#define FERRY_FORM(...) template <__VA_ARGS__> static inline __attribute__((always_inline, nodebug)) cudaError_t

FERRY_FORM(class T) cudaMalloc(T **p, size_t bytes) { return ::cudaMalloc((void **)(void *)p, bytes); }
FERRY_FORM(class T) cudaMallocHost(T **p, size_t bytes, unsigned flags = 0) { return ::cudaHostAlloc((void **)(void *)p, bytes, flags); }
FERRY_FORM(class T) cudaHostAlloc(T **p, size_t bytes, unsigned flags) { return ::cudaHostAlloc((void **)(void *)p, bytes, flags); }
FERRY_FORM(class T) cudaHostGetDevicePointer(T **p, void *host, unsigned flags = 0) { return ::cudaHostGetDevicePointer((void **)(void *)p, host, flags); }
FERRY_FORM(class T) cudaMallocManaged(T **p, size_t bytes, unsigned flags = cudaMemAttachGlobal) { return ::cudaMallocManaged((void **)(void *)p, bytes, flags); }
FERRY_FORM(class T) cudaMallocAsync(T **p, size_t bytes, cudaStream_t stream) { return ::cudaMallocAsync((void **)(void *)p, bytes, stream); }
FERRY_FORM(class T) cudaMallocAsync(T **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) { return ::cudaMallocFromPoolAsync((void **)(void *)p, bytes, pool, stream); }
FERRY_FORM(class T) cudaMallocFromPoolAsync(T **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) { return ::cudaMallocFromPoolAsync((void **)(void *)p, bytes, pool, stream); }
FERRY_FORM(class T) cudaMallocPitch(T **p, size_t *pitch, size_t width, size_t height) { return ::cudaMallocPitch((void **)(void *)p, pitch, width, height); }
FERRY_FORM(class T) cudaStreamAttachMemAsync(cudaStream_t stream, T *p, size_t bytes = 0, unsigned flags = cudaMemAttachSingle) { return ::cudaStreamAttachMemAsync(stream, (void *)p, bytes, flags); }

// Variables of the device are named by themselves.
FERRY_FORM(class T) cudaMemcpyToSymbol(const T &symbol, const void *from, size_t bytes, size_t offset = 0, enum cudaMemcpyKind kind = cudaMemcpyHostToDevice) { return ::cudaMemcpyToSymbol((const void *)&symbol, from, bytes, offset, kind); }
FERRY_FORM(class T) cudaMemcpyToSymbolAsync(const T &symbol, const void *from, size_t bytes, size_t offset = 0, enum cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0) { return ::cudaMemcpyToSymbolAsync((const void *)&symbol, from, bytes, offset, kind, stream); }
FERRY_FORM(class T) cudaMemcpyFromSymbol(void *to, const T &symbol, size_t bytes, size_t offset = 0, enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost) { return ::cudaMemcpyFromSymbol(to, (const void *)&symbol, bytes, offset, kind); }
FERRY_FORM(class T) cudaMemcpyFromSymbolAsync(void *to, const T &symbol, size_t bytes, size_t offset = 0, enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0) { return ::cudaMemcpyFromSymbolAsync(to, (const void *)&symbol, bytes, offset, kind, stream); }
FERRY_FORM(class T) cudaGetSymbolAddress(void **p, const T &symbol) { return ::cudaGetSymbolAddress(p, (const void *)&symbol); }
FERRY_FORM(class T) cudaGetSymbolAddress(T **p, const T &symbol) { return ::cudaGetSymbolAddress((void **)(void *)p, (const void *)&symbol); }
FERRY_FORM(class T, size_t n) cudaGetSymbolAddress(T **p, const T (&symbol)[n]) { return ::cudaGetSymbolAddress((void **)(void *)p, (const void *)&symbol); }
FERRY_FORM(class T) cudaGetSymbolSize(size_t *bytes, const T &symbol) { return ::cudaGetSymbolSize(bytes, (const void *)&symbol); }

// Kernels.
FERRY_FORM(class T) cudaLaunchKernel(T *kernel, dim3 grid, dim3 block, void **args, size_t shared = 0, cudaStream_t stream = 0) { return ::cudaLaunchKernel((const void *)kernel, grid, block, args, shared, stream); }
FERRY_FORM(class T) cudaLaunchCooperativeKernel(T *kernel, dim3 grid, dim3 block, void **args, size_t shared = 0, cudaStream_t stream = 0) { return ::cudaLaunchCooperativeKernel((const void *)kernel, grid, block, args, shared, stream); }
FERRY_FORM(class... P, class... A) cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P...), A &&...args) {
    return [&](P... values) {
        void *all[sizeof...(P) + 1] = {(void *)&values...};
        return ::cudaLaunchKernelExC(config, (const void *)kernel, all);
    }((A &&)args...);
}
FERRY_FORM(class T) cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, T *kernel) { return ::cudaFuncGetAttributes(attributes, (const void *)kernel); }
FERRY_FORM(class T) cudaFuncSetAttribute(T *kernel, enum cudaFuncAttribute attribute, int value) { return ::cudaFuncSetAttribute((const void *)kernel, attribute, value); }
FERRY_FORM(class T) cudaFuncSetCacheConfig(T *kernel, enum cudaFuncCache config) { return ::cudaFuncSetCacheConfig((const void *)kernel, config); }
FERRY_FORM(class T) cudaFuncSetSharedMemConfig(T *kernel, enum cudaSharedMemConfig config) { return ::cudaFuncSetSharedMemConfig((const void *)kernel, config); }
FERRY_FORM(class T) cudaFuncGetName(const char **name, T *kernel) { return ::cudaFuncGetName(name, (const void *)kernel); }
FERRY_FORM(class T) cudaGetFuncBySymbol(cudaFunction_t *function, T *kernel) { return ::cudaGetFuncBySymbol(function, (const void *)kernel); }
FERRY_FORM(class T) cudaGetKernel(cudaKernel_t *handle, T *kernel) { return ::cudaGetKernel(handle, (const void *)kernel); }

// Occupancy.
FERRY_FORM(class T) cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, T kernel, int threads, size_t shared) { return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void *)kernel, threads, shared); }
FERRY_FORM(class T) cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, T kernel, int threads, size_t shared, unsigned flags) { return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (const void *)kernel, threads, shared, flags); }
FERRY_FORM(class T) cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, T *kernel, int blocks, int threads) { return ::cudaOccupancyAvailableDynamicSMemPerBlock(bytes, (const void *)kernel, blocks, threads); }
FERRY_FORM(class T) cudaOccupancyMaxPotentialClusterSize(int *size, T *kernel, const cudaLaunchConfig_t *config) { return ::cudaOccupancyMaxPotentialClusterSize(size, (const void *)kernel, config); }
FERRY_FORM(class T) cudaOccupancyMaxActiveClusters(int *clusters, T *kernel, const cudaLaunchConfig_t *config) { return ::cudaOccupancyMaxActiveClusters(clusters, (const void *)kernel, config); }
// The block that lets most threads of the kernel run on a multiprocessor; the largest of equals.
// shared(threads) is the dynamic shared memory of a block.
FERRY_FORM(class F, class T) cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *grid, int *block, T kernel, F shared, int limit = 0, unsigned flags = 0) {
    int device = 0, processors = 0, resident = 0, warp = 0, most = 0;
    cudaFuncAttributes attributes;
    cudaError_t e;
    if (!grid || !block || !(const void *)kernel) return cudaErrorInvalidValue;
    *grid = *block = 0;
    if ((e = ::cudaGetDevice(&device)) || (e = ::cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device)) ||
        (e = ::cudaDeviceGetAttribute(&resident, cudaDevAttrMaxThreadsPerMultiProcessor, device)) ||
        (e = ::cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, device)) || (e = ::cudaFuncGetAttributes(&attributes, (const void *)kernel)))
        return e;
    int top = attributes.maxThreadsPerBlock;
    if (limit > 0 && limit < top) top = limit;
    for (int next = (top + warp - 1) / warp * warp; next > 0; next -= warp) {
        int threads = next < top ? next : top, blocks = 0;
        if ((e = ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)kernel, threads, shared(threads), flags))) return e;
        if (threads * blocks > most) most = threads * blocks, *block = threads, *grid = blocks * processors;
        if (most == resident) break;
    }
    return cudaSuccess;
}
FERRY_FORM(class F, class T) cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, T kernel, F shared, int limit = 0) { return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(grid, block, kernel, shared, limit, 0); }
FERRY_FORM(class T) cudaOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, T kernel, size_t shared = 0, int limit = 0, unsigned flags = 0) { return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(grid, block, kernel, [=](int) { return shared; }, limit, flags); }
FERRY_FORM(class T) cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, T kernel, size_t shared = 0, int limit = 0) { return cudaOccupancyMaxPotentialBlockSizeWithFlags(grid, block, kernel, shared, limit, 0); }

// What has a default in C++ alone, and the forms of CUDA 11 and of CUDA 13.
#define FERRY_OTHER static inline __attribute__((always_inline, nodebug)) cudaError_t
FERRY_OTHER cudaEventCreate(cudaEvent_t *event, unsigned flags) { return ::cudaEventCreateWithFlags(event, flags); }
FERRY_OTHER cudaMallocHost(void **p, size_t bytes, unsigned flags) { return ::cudaHostAlloc(p, bytes, flags); }
FERRY_OTHER cudaMallocAsync(void **p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) { return ::cudaMallocFromPoolAsync(p, bytes, pool, stream); }
FERRY_OTHER cudaMemAdvise(const void *p, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation place) { return ::cudaMemAdvise_v2(p, bytes, advice, place); }
FERRY_OTHER cudaMemPrefetchAsync(const void *p, size_t bytes, struct cudaMemLocation place, unsigned flags, cudaStream_t stream = 0) { return ::cudaMemPrefetchAsync_v2(p, bytes, place, flags, stream); }
FERRY_OTHER cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphNode_t *failed, char *log, size_t bytes) {
    (void)failed;
    if (log && bytes) *log = 0;
    return ::cudaGraphInstantiate(exec, graph, 0);
}
FERRY_OTHER cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphNode_t *failed, enum cudaGraphExecUpdateResult *result) {
    cudaGraphExecUpdateResultInfo info;
    cudaError_t e = ::cudaGraphExecUpdate(exec, graph, &info);
    if (failed) *failed = info.errorNode;
    if (result) *result = info.result;
    return e;
}
FERRY_OTHER cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id = 0, cudaGraph_t *graph = 0, const cudaGraphNode_t **nodes = 0, size_t *count = 0) { return ::cudaStreamGetCaptureInfo(stream, status, id, graph, nodes, count); }
#undef FERRY_FORM
#undef FERRY_OTHER
#endif
#endif
