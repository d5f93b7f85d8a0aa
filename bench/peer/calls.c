/* The peer of bench.Calls: what the same driver calls cost from C, one JSON
 * object a line.
 *
 *   cc -O2 calls.c -lcuda -o calls && ./calls
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OK(call) do { CUresult result_ = (call); if (result_) { fprintf(stderr, "%s: error %d\n", #call, result_); exit(1); } } while (0)

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int by_value(const void *a, const void *b) { double d = *(double *)a - *(double *)b; return (d > 0) - (d < 0); }

/* Median over rounds of the mean cost of a call; a round has all calls in turn. Before its turn the stream is drained,
 * so that no call waits for room in its queue; the first calls, which find the GPU asleep, are not timed. */
#define ROUNDS 31
#define CALLS 32
static const char *names[CALLS];
static double means[CALLS][ROUNDS];
static int calls;

#define TIME(name, count, call)                                 \
    do {                                                        \
        OK(cuStreamSynchronize(s));                             \
        for (int i = 0; i < 3; i++) OK(call);                   \
        double start = now();                                   \
        for (int i = 0; i < (count); i++) OK(call);             \
        means[calls][round] = (now() - start) / (count);        \
        names[calls++] = name;                                  \
        OK(cuStreamSynchronize(s));                             \
    } while (0)

static const char *ptx = ".version 6.3\n.target sm_52\n.address_size 64\n.visible .entry empty() { ret; }\n"
                         ".visible .entry three(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }\n";

static CUresult nothing(void) { return CUDA_SUCCESS; }
static CUresult (*volatile function)(void) = nothing; /* the compiler does not know which */

int main(void)
{
    CUdevice dev; CUcontext ctx; CUstream s; CUevent e; CUdeviceptr d; CUmodule m; CUfunction f, three; void *h; CUdevice got;
    unsigned n = 1024;
    OK(cuInit(0)); OK(cuDeviceGet(&dev, 0)); OK(cuDevicePrimaryCtxRetain(&ctx, dev)); OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&d, 4096)); OK(cuMemHostAlloc(&h, 4096, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuModuleLoadData(&m, ptx)); OK(cuModuleGetFunction(&f, m, "empty")); OK(cuModuleGetFunction(&three, m, "three"));
    void *args[] = {&d, &d, &n};
    for (int round = 0; round < ROUNDS; round++) {
        calls = 0;
        TIME("a C function that does nothing", 1000, function());
        TIME("device of the context", 1000, cuCtxGetDevice(&got));
        TIME("event record", 200, cuEventRecord(e, s));
        TIME("event query", 1000, (cuEventQuery(e), 0));
        TIME("copy to device, 4 KiB", 200, cuMemcpyHtoDAsync(d, h, 4096, s));
        TIME("copy to host, 4 KiB", 200, cuMemcpyDtoHAsync(h, d, 4096, s));
        TIME("launch, no parameters", 200, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, 0, 0));
        TIME("launch, 3 parameters", 200, cuLaunchKernel(three, 1, 1, 1, 32, 1, 1, 0, s, args, 0));
        TIME("step: copy in, launch, copy out, event", 50,
             (cuMemcpyHtoDAsync(d, h, 4096, s) || cuLaunchKernel(three, 1, 1, 1, 32, 1, 1, 0, s, args, 0) ||
              cuMemcpyDtoHAsync(h, d, 4096, s) || cuEventRecord(e, s)));
        TIME("copy to device, 4 KiB, and wait", 50, (cuMemcpyHtoDAsync(d, h, 4096, s) || cuStreamSynchronize(s)));
    }
    for (int i = 0; i < calls; i++) {
        qsort(means[i], ROUNDS, sizeof(double), by_value);
        printf("{\"what\": \"%s\", \"ns\": %.1f}\n", names[i], means[i][ROUNDS / 2]);
    }
    return 0;
}
