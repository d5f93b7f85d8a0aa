// Launches, and what is known of kernels.
#include "runtime.h"

using namespace ferry;

namespace {

// A Configuration is what stands in <<<>>>, from there until the launch.
struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    void *caller;
    bool perThread; // in a file with the default stream of threads
};

// Configurations are those of a thread that wait for their launch: one for each <<<>>> in whose arguments
// it is. Where more than most wait, the oldest is lost: an exception has left its launch.
struct Configurations {
    static const unsigned most = 16;
    Configuration all[most];
    unsigned count, next;

    void push(const Configuration &c) {
        all[next++ % most] = c;
        count += count < most;
    }
    bool pop(Configuration *c) {
        if (!count)
            return false;
        count--, *c = all[--next % most];
        return true;
    }
};

thread_local Configurations configurations; // without a destructor, for which dlclose would wait

// launching is the <<<>>> that the thread is about to launch, if caller is set: the function that calls
// cudaLaunchKernel is one that clang writes.
thread_local Configuration launching;

// A Launch is a call that launches a kernel, by its name or by <<<>>>.
struct Launch {
    bool before = self.perThread;
    Call call;
    explicit Launch(void *caller) : call(launching.caller ? launching.caller : caller) {
        self.perThread |= launching.caller && launching.perThread;
        launching.caller = nullptr;
    }
    ~Launch() { self.perThread = before; }
};
#define FERRY_LAUNCH Launch(__builtin_return_address(0)).call

void push(dim3 grid, dim3 block, size_t shared, cudaStream_t s, void *caller, bool perThread) {
    configurations.push({grid, block, shared, s, caller, perThread});
}

// ofDriver returns a configuration as the driver takes it. Its attributes have the same layout.
CUlaunchConfig ofDriver(const cudaLaunchConfig_t *config) {
    dim3 g = config->gridDim, b = config->blockDim;
    return {g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)config->dynamicSmemBytes, stream(config->stream), (CUlaunchAttribute *)config->attrs, config->numAttrs};
}

// tooMuch reports whether a number of bytes of shared memory is more than the driver's 32 bits can say.
bool tooMuch(size_t shared) { return shared > 0xffffffff; }

// checked turns the driver's code for a wrong configuration into that of the runtime.
cudaError_t checked(CUresult r, dim3 grid, dim3 block) {
    bool none = !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z;
    if (r != CUDA_ERROR_INVALID_VALUE)
        return code(r);
    if (none)
        return cudaErrorInvalidConfiguration;
    int device = self.device, most = 0, limits[6];
    CUdevice current;
    if (!CU(cuCtxGetDevice)(&current))
        device = current;
    CU(cuDeviceGetAttribute)(&most, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device);
    for (int i = 0; i < 6; i++)
        CU(cuDeviceGetAttribute)(&limits[i], (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i), device);
    unsigned values[] = {block.x, block.y, block.z, grid.x, grid.y, grid.z};
    for (int i = 0; i < 6; i++)
        if (values[i] > (unsigned)limits[i])
            return cudaErrorInvalidConfiguration;
    return (unsigned long long)block.x * block.y * block.z > (unsigned)most ? cudaErrorInvalidConfiguration : cudaErrorInvalidValue;
}

} // namespace

extern "C" {

// The functions that <<<>>> calls. Those with _ptsz are for files with the default stream of threads,
// those of HIP for files with managed variables.
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t s) {
    push(grid, block, shared, s, __builtin_return_address(0), false);
    return 0;
}

unsigned __cudaPushCallConfiguration_ptsz(dim3 grid, dim3 block, size_t shared, cudaStream_t s) {
    push(grid, block, shared, s, __builtin_return_address(0), true);
    return 0;
}

unsigned __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t s) {
    push(grid, block, shared, s, __builtin_return_address(0), false);
    return 0;
}

unsigned __hipPushCallConfiguration_ptsz(dim3 grid, dim3 block, size_t shared, cudaStream_t s) {
    push(grid, block, shared, s, __builtin_return_address(0), true);
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *s) {
    if (!configurations.pop(&launching))
        return note(cudaErrorMissingConfiguration);
    const Configuration &c = launching;
    *grid = c.grid, *block = c.block, *shared = c.shared, *(cudaStream_t *)s = c.stream;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s) {
    return FERRY_LAUNCH.in([&]() -> cudaError_t {
        CUfunction f;
        if (cudaError_t e = function(kernel, &f))
            return e;
        if (tooMuch(shared))
            return cudaErrorInvalidValue;
        return checked(CU(cuLaunchKernel)(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream(s), args, nullptr), grid, block);
    });
}

cudaError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *s) { return __cudaPopCallConfiguration(grid, block, shared, s); }

cudaError_t hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s) {
    return cudaLaunchKernel(kernel, grid, block, args, shared, s);
}

cudaError_t cudaLaunchCooperativeKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s) {
    return FERRY_LAUNCH.in([&]() -> cudaError_t {
        CUfunction f;
        if (cudaError_t e = function(kernel, &f))
            return e;
        if (tooMuch(shared))
            return cudaErrorInvalidValue;
        return checked(CU(cuLaunchCooperativeKernel)(f, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream(s), args), grid, block);
    });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **args) {
    return FERRY_LAUNCH.in([&]() -> cudaError_t {
        CUfunction f;
        if (!config || tooMuch(config->dynamicSmemBytes))
            return cudaErrorInvalidValue;
        if (cudaError_t e = function(kernel, &f))
            return e;
        CUlaunchConfig c = ofDriver(config);
        return checked(CU(cuLaunchKernelEx)(&c, f, args, nullptr), config->gridDim, config->blockDim);
    });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *data) {
    return FERRY_CALL.in([&] { return CU(cuLaunchHostFunc)(stream(s), fn, data); });
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *kernel) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        CUfunction f;
        if (!a)
            return cudaErrorInvalidValue;
        if (cudaError_t e = function(kernel, &f))
            return e;
        *a = {};
        auto get = [&](CUfunction_attribute name) { int v = 0; CU(cuFuncGetAttribute)(&v, name, f); return v; };
        a->sharedSizeBytes = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
        a->constSizeBytes = get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
        a->localSizeBytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
        a->maxThreadsPerBlock = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
        a->numRegs = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
        a->ptxVersion = get(CU_FUNC_ATTRIBUTE_PTX_VERSION);
        a->binaryVersion = get(CU_FUNC_ATTRIBUTE_BINARY_VERSION);
        a->cacheModeCA = get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA);
        a->maxDynamicSharedSizeBytes = get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
        a->preferredShmemCarveout = get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
        return cudaSuccess;
    });
}

// FERRY_WITH calls a function of the driver with f, the driver's function of a kernel.
#define FERRY_WITH(KERNEL, EXPRESSION)                  \
    FERRY_CALL.in([&]() -> cudaError_t {                \
        CUfunction f;                                   \
        cudaError_t e = ferry::function(KERNEL, &f);    \
        return e ? e : code(EXPRESSION);                \
    })

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute name, int value) {
    return FERRY_WITH(kernel, CU(cuFuncSetAttribute)(f, (CUfunction_attribute)name, value));
}

cudaError_t cudaFuncSetCacheConfig(const void *kernel, enum cudaFuncCache config) {
    return FERRY_WITH(kernel, CU(cuFuncSetCacheConfig)(f, (CUfunc_cache)config));
}

// The width of the banks of shared memory is fixed since Maxwell.
cudaError_t cudaFuncSetSharedMemConfig(const void *kernel, enum cudaSharedMemConfig) {
    return FERRY_WITH(kernel, cudaSuccess);
}

cudaError_t cudaFuncGetName(const char **name, const void *kernel) {
    return FERRY_WITH(kernel, CU(cuFuncGetName)(name, f));
}

cudaError_t cudaFuncGetParamInfo(const void *kernel, size_t index, size_t *offset, size_t *bytes) {
    return FERRY_WITH(kernel, CU(cuFuncGetParamInfo)(f, index, offset, bytes));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *kernel, const cudaLaunchConfig_t *config) {
    if (!config || tooMuch(config->dynamicSmemBytes))
        return note(cudaErrorInvalidValue);
    CUlaunchConfig c = ofDriver(config);
    return FERRY_WITH(kernel, CU(cuOccupancyMaxActiveClusters)(clusters, f, &c));
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *kernel, const cudaLaunchConfig_t *config) {
    if (!config || tooMuch(config->dynamicSmemBytes))
        return note(cudaErrorInvalidValue);
    CUlaunchConfig c = ofDriver(config);
    return FERRY_WITH(kernel, CU(cuOccupancyMaxPotentialClusterSize)(size, f, &c));
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *kernel) {
    return FERRY_WITH(kernel, (*out = f, cudaSuccess));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) {
    return FERRY_WITH(kernel, CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(blocks, f, threads, shared));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared, unsigned flags) {
    return FERRY_WITH(kernel, CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(blocks, f, threads, shared, flags));
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *kernel, int blocks, int threads) {
    return FERRY_WITH(kernel, CU(cuOccupancyAvailableDynamicSMemPerBlock)(bytes, f, blocks, threads));
}

} // extern "C"
