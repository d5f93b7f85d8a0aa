// The rules of the runtime: each function tests one, and main says which do not hold.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include <cuda.h>
#include <cuda_runtime.h>

#define WANT(CONDITION)                                          \
    do {                                                         \
        if (!(CONDITION)) {                                      \
            std::printf("line %d: %s\n", __LINE__, #CONDITION);  \
            wrong++;                                             \
        }                                                        \
    } while (0)

static int wrong;

__constant__ int table[4] = {1, 2, 3, 4};
__device__ int counter = 7;
static __device__ double hidden[2];
__global__ void use(int *out) {
    out[threadIdx.x] = table[threadIdx.x] + counter;
    hidden[0] = 2.5;
}
__global__ void wild(int *p) { *p = 1; }
__global__ void empty() {}

// A static object whose constructor calls the runtime: its kernels are registered before.
struct Early {
    int *p = nullptr;
    cudaError_t error;
    Early() {
        error = cudaMalloc(&p, 64);
        use<<<1, 4>>>(p);
        if (!error)
            error = cudaGetLastError();
    }
} early;

inline Early inlined; // whose constructor stands before those of the file

template <class T> struct Of {
    static Early object;
};
template <class T> Early Of<T>::object;

static void symbols() {
    WANT(!inlined.error && !Of<int>::object.error);
    int *out, got[4], value = 0;
    void *at;
    size_t bytes;
    int fresh[4] = {10, 20, 30, 40};
    WANT(!early.error);
    WANT(!cudaMalloc(&out, sizeof got));
    WANT(!cudaMemcpyToSymbol(table, fresh, sizeof fresh));
    WANT(!cudaMemcpyToSymbol(table, &fresh[0], sizeof(int), 3 * sizeof(int)));
    use<<<1, 4>>>(out);
    WANT(!cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    WANT(got[0] == 17 && got[1] == 27 && got[2] == 37 && got[3] == 17);
    WANT(!cudaMemcpyFromSymbol(&value, counter, sizeof value) && value == 7);
    WANT(!cudaGetSymbolSize(&bytes, table) && bytes == sizeof table);
    WANT(!cudaGetSymbolAddress(&at, hidden));
    double two;
    WANT(!cudaMemcpy(&two, at, sizeof two, cudaMemcpyDeviceToHost) && two == 2.5);
    WANT(cudaMemcpyToSymbol(table, fresh, sizeof fresh, 4) == cudaErrorInvalidValue);
    WANT(cudaMemcpyToSymbol(fresh, fresh, 4) == cudaErrorInvalidSymbol);
    cudaGetLastError();
    WANT(!cudaFree(out));
}

static void errors() {
    WANT(!std::strcmp(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration"));
    WANT(!std::strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
    WANT(!std::strcmp(cudaGetErrorString(cudaSuccess), "no error"));
    WANT(cudaGetLastError() == cudaSuccess);
    empty<<<1, 2048>>>();
    WANT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    std::thread([] { WANT(cudaGetLastError() == cudaSuccess); }).join();
    WANT(cudaGetLastError() == cudaErrorInvalidConfiguration);
    WANT(cudaGetLastError() == cudaSuccess);
    empty<<<0, 1>>>();
    WANT(cudaGetLastError() == cudaErrorInvalidConfiguration);
    WANT(cudaSetDevice(99) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
    int x;
    WANT(cudaFree(&x) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue);
    WANT(cudaFree(nullptr) == cudaSuccess);
    WANT(cudaMemcpy(&x, &x, 4, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    WANT(cudaMemcpyToSymbolAsync(counter, &x, 4, 0, cudaMemcpyDeviceToHost) == cudaErrorInvalidMemcpyDirection);
    WANT(cudaMemcpyToSymbolAsync(counter, &x, 4, 0, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection);
    WANT(cudaMemcpyFromSymbolAsync(&x, counter, 4, 0, cudaMemcpyHostToDevice) == cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
    cudaEvent_t event;
    WANT(!cudaEventCreate(&event) && !cudaEventRecord(event) && !cudaEventSynchronize(event) && !cudaEventQuery(event));
    WANT(!cudaEventDestroy(event));
}

static void contexts() {
    int device = -1;
    CUcontext first = nullptr, own = nullptr, now = nullptr;
    WANT(!cudaGetDevice(&device) && device == 0);
    WANT(!cudaFree(nullptr) && !cuCtxGetCurrent(&first) && first);
    WANT(!cuCtxCreate(&own, 0, 0));
    int *p;
    WANT(!cudaMalloc(&p, 16) && !cuCtxGetCurrent(&now) && now == own); // of the driver, not the primary one
    CUcontext of = nullptr;
    WANT(!cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)p) && of == own);
    WANT(!cudaFree(p) && !cuCtxDestroy(own) && !cuCtxGetCurrent(&now) && now == first);
}

static void properties() {
    cudaDeviceProp p;
    int value = 0;
    WANT(!cudaGetDeviceProperties(&p, 0));
    WANT(p.name[0] && p.totalGlobalMem > 0 && p.warpSize == 32 && p.maxThreadsPerBlock >= 512 && p.major > 0 && p.clockRate > 0 && p.canMapHostMemory == 1);
    WANT(!cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0) && value == p.multiProcessorCount);
    WANT(!cudaRuntimeGetVersion(&value) && value == CUDART_VERSION);
    WANT(!cudaDriverGetVersion(&value) && value >= 12000);
    cudaFuncAttributes a;
    WANT(!cudaFuncGetAttributes(&a, use) && a.maxThreadsPerBlock >= 512);
    int grid = 0, block = 0, blocks = 0;
    WANT(!cudaOccupancyMaxPotentialBlockSize(&grid, &block, use) && block > 0 && grid > 0);
    WANT(!cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, use, 256, 0) && blocks > 0);
}

static void memory() {
    void *host, *mapped, *managed;
    cudaPointerAttributes a;
    int x = 0;
    WANT(!cudaHostAlloc(&host, 256, cudaHostAllocMapped) && !cudaHostGetDevicePointer(&mapped, host, 0));
    WANT(!cudaPointerGetAttributes(&a, host) && a.type == cudaMemoryTypeHost && a.hostPointer == host && a.device == 0);
    WANT(!cudaMallocManaged(&managed, 256));
    WANT(!cudaPointerGetAttributes(&a, managed) && a.type == cudaMemoryTypeManaged);
    WANT(!cudaPointerGetAttributes(&a, &x) && a.type == cudaMemoryTypeUnregistered);
    WANT(!cudaMemPrefetchAsync(managed, 256, 0) && !cudaMemPrefetchAsync(managed, 256, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0));
    WANT(!cudaMemAdvise(managed, 256, cudaMemAdviseSetReadMostly, 0));
    WANT(!cudaDeviceSynchronize() && !cudaFree(managed) && !cudaFreeHost(host));
    char *pitched, rows[3][10], back[3][10] = {};
    size_t pitch;
    for (int i = 0; i < 30; i++)
        rows[i / 10][i % 10] = char(i + 1);
    WANT(!cudaMallocPitch(&pitched, &pitch, 10, 3) && pitch >= 10);
    WANT(!cudaMemcpy2D(pitched, pitch, rows, 10, 10, 3, cudaMemcpyHostToDevice));
    WANT(!cudaMemcpy2D(back, 10, pitched, pitch, 10, 3, cudaMemcpyDeviceToHost) && !std::memcmp(rows, back, sizeof rows));
    WANT(!cudaFree(pitched));
    int *a1;
    WANT(!cudaMallocAsync(&a1, 64, 0) && !cudaMemsetAsync(a1, 0, 64) && !cudaFreeAsync(a1, 0) && !cudaStreamSynchronize(0));
    WANT(!cudaMalloc(&a1, 0) && !a1);
    WANT(!cudaMallocManaged(&a1, 0) && !a1);
}

static void CUDART_CB bump(void *p) { ++*(int *)p; }
static void CUDART_CB late(cudaStream_t, cudaError_t e, void *p) { *(int *)p += e ? 100 : 10; }

static void streams() {
    int least, greatest, count = 0;
    cudaStream_t s;
    WANT(!cudaDeviceGetStreamPriorityRange(&least, &greatest) && greatest <= least);
    WANT(!cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    WANT(!cudaLaunchHostFunc(s, bump, &count) && !cudaStreamAddCallback(s, late, &count, 0) && !cudaStreamSynchronize(s) && count == 11);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int *p, got[4];
    WANT(!cudaMalloc(&p, sizeof got));
    WANT(!cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    use<<<1, 4, 0, s>>>(p);
    cudaStreamCaptureStatus status;
    WANT(!cudaStreamIsCapturing(s, &status) && status == cudaStreamCaptureStatusActive);
    WANT(!cudaStreamEndCapture(s, &graph) && !cudaGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    WANT(!cudaGraphLaunch(exec, s) && !cudaStreamSynchronize(s));
    WANT(!cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost) && got[1] == 27);
    WANT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph) && !cudaStreamDestroy(s) && !cudaFree(p));
    WANT(cudaStreamDestroy(0) == cudaErrorInvalidResourceHandle);
    void *args[] = {&p};
    WANT(!cudaMalloc(&p, sizeof got) && !cudaLaunchKernel(use, 1, 4, args) && !cudaLaunchCooperativeKernel(use, 1, 4, args) && !cudaDeviceSynchronize());
    cudaLaunchConfig_t config = {};
    config.gridDim = 1, config.blockDim = 4;
    WANT(!cudaLaunchKernelEx(&config, use, p) && !cudaDeviceSynchronize() && !cudaFree(p));
    cudaGetLastError();
}

// What clang writes for a file registers it, and closing its library ends that.
extern "C" void **__cudaRegisterFatBinary(void *);
extern "C" void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, void *);
extern "C" void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
extern "C" void __cudaUnregisterFatBinary(void **);

#define STORES(NAME, VALUE)                                                                          \
    ".version 7.0\n.target sm_50\n.address_size 64\n.visible .global .u32 of_" NAME " = " VALUE ";\n" \
    ".visible .entry " NAME "(.param .u64 p) {\n.reg .u64 %r<3>;\nld.param.u64 %r1, [p];\n"          \
    "cvta.to.global.u64 %r2, %r1;\nst.global.u32 [%r2], " VALUE ";\nret;\n}\n"

static const char *const texts[] = {STORES("one", "1"), STORES("two", "2")};
static const char *const kernelNames[] = {"one", "two"}, *const variableNames[] = {"of_one", "of_two"};

// Two libraries one after the other at the same addresses.
static void libraries() {
    static struct {
        int magic = 0x466243b1, version = 1;
        const char *text;
        void *unused = nullptr;
    } wrapper;
    static char kernel, variable;
    int *p, got = 0;
    size_t before, after;
    WANT(!cudaMalloc(&p, 4) && !cudaMemGetInfo(&before, &after));
    void *args[] = {&p};
    for (int i = 0; i < 4; i++) {
        wrapper.text = texts[i % 2];
        void **handle = __cudaRegisterFatBinary(&wrapper);
        __cudaRegisterFunction(handle, &kernel, &kernel, kernelNames[i % 2], -1, 0, 0, 0, 0, 0);
        __cudaRegisterVar(handle, &variable, &variable, variableNames[i % 2], 0, 4, 0, 0);
        WANT(!cudaLaunchKernel(&kernel, 1, 1, args, 0, 0) && !cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost) && got == i % 2 + 1);
        WANT(!cudaMemcpyFromSymbol(&got, (const void *)&variable, 4) && got == i % 2 + 1);
        __cudaUnregisterFatBinary(handle);
        WANT(cudaLaunchKernel(&kernel, 1, 1, args, 0, 0) == cudaErrorInvalidDeviceFunction);
        WANT(cudaMemcpyFromSymbol(&got, (const void *)&variable, 4) == cudaErrorInvalidSymbol);
    }
    cudaGetLastError();
    WANT(!cudaFree(p));
}

// Handles of kernels: of the program and of libraries that it loads.
static void handles() {
    int *p, got[4] = {};
    cudaKernel_t kernel, one, all[2];
    cudaLibrary_t library;
    unsigned count = 0;
    WANT(!cudaMalloc(&p, sizeof got));
    void *args[] = {&p};
    WANT(!cudaGetKernel(&kernel, use) && !cudaLaunchKernel(kernel, 1, 4, args));
    WANT(!cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost) && got[1] == 27);
    WANT(!cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 0));
    WANT(cudaGetKernel(&kernel, (const void *)got) == cudaErrorInvalidDeviceFunction);
    WANT(!cudaLibraryLoadData(&library, texts[1], 0, 0, 0, 0, 0, 0) && !cudaLibraryGetKernelCount(&count, library) && count == 1);
    WANT(!cudaLibraryGetKernel(&one, library, "two") && !cudaLibraryEnumerateKernels(all, 1, library) && all[0] == one);
    WANT(!cudaLaunchKernel(one, 1, 1, args) && !cudaMemcpy(got, p, 4, cudaMemcpyDeviceToHost) && got[0] == 2);
    void *at;
    size_t bytes;
    WANT(!cudaLibraryGetGlobal(&at, &bytes, library, "of_two") && bytes == 4 && !cudaMemcpy(got, at, 4, cudaMemcpyDeviceToHost) && got[0] == 2);
    cudaFuncAttributes a;
    WANT(!cudaFuncGetAttributes(&a, (const void *)one) && a.maxThreadsPerBlock > 0);
    WANT(!cudaLibraryUnload(library) && cudaLaunchKernel(one, 1, 1, args) == cudaErrorInvalidDeviceFunction);
    cudaGetLastError();
    WANT(!cudaFree(p));
}

// A class whose table has no function where it is abstract.
struct Shape {
    __device__ __noinline__ Shape() {}
    __device__ virtual ~Shape() {}
    __device__ virtual int area() const = 0;
};
struct Square : Shape {
    int n;
    __device__ Square(int n) : n(n) {}
    __device__ int area() const override { return n * n; }
};
struct Row : Shape {
    int n;
    __device__ Row(int n) : n(n) {}
    __device__ int area() const override { return -n; }
};
__global__ void areas(int *out) {
    Shape *s = threadIdx.x % 2 ? (Shape *)new Square(threadIdx.x) : new Row(threadIdx.x);
    out[threadIdx.x] = s->area();
    delete s;
}

static void classes() {
    int *p, got[4];
    WANT(!cudaMalloc(&p, sizeof got));
    areas<<<1, 4>>>(p);
    WANT(!cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost) && got[1] == 1 && got[2] == -2 && got[3] == 9);
    WANT(!cudaFree(p));
}

#include "nodes.h"

static int thrown(int n) {
    if (n)
        throw n;
    return n;
}
__global__ void take(int) {}

// Launches that exceptions leave do not use up memory, nor harm others.
static void exceptions() {
    int caught = 0, *p, got[4];
    WANT(!cudaMalloc(&p, sizeof got));
    for (int i = 1; i < 40; i++)
        try {
            take<<<i, i>>>(thrown(i));
        } catch (int) {
            caught++;
        }
    use<<<1, 4>>>(p);
    WANT(caught == 39 && !cudaMemcpy(got, p, sizeof got, cudaMemcpyDeviceToHost) && got[3] == 17);
    WANT(!cudaFree(p));
}

// A thread beside a reset has the old context or the new one, and afterwards the new one.
static void resets() {
    for (int i = 0; i < 20; i++) {
        std::atomic<bool> begun{false}, done{false};
        std::thread other([&] {
            while (!done)
                cudaSetDevice(0), cudaGetLastError(), begun = true;
            WANT(!cudaFree(nullptr) && !cudaDeviceSynchronize());
        });
        while (!begun)
            std::this_thread::yield();
        WANT(!cudaDeviceReset());
        done = true;
        other.join();
        WANT(!cudaDeviceSynchronize());
    }
}

static void reset() {
    WANT(!cudaDeviceReset());
    int *out, got[4], fresh = 0;
    WANT(!cudaMalloc(&out, sizeof got));
    use<<<1, 4>>>(out); // the module is loaded anew: symbols have their first values
    WANT(!cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost) && got[0] == 8 && got[3] == 11);
    WANT(!cudaMemcpyFromSymbol(&fresh, table, 4) && fresh == 1);
    WANT(!cudaSetDeviceFlags(cudaDeviceScheduleYield | cudaDeviceMapHost));
    unsigned flags = 0;
    WANT(!cudaGetDeviceFlags(&flags) && flags == (cudaDeviceScheduleYield | cudaDeviceMapHost));
}

// The last: the error stays.
static void sticky() {
    wild<<<1, 1>>>((int *)8);
    WANT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    WANT(cudaGetLastError() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    void *p;
    WANT(cudaMalloc(&p, 4) == cudaErrorIllegalAddress);
}

int main() {
    symbols();
    errors();
    contexts();
    properties();
    memory();
    streams();
    libraries();
    handles();
    classes();
    nodes();
    boxes();
    batches();
    exceptions();
    resets();
    reset();
    sticky();
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
