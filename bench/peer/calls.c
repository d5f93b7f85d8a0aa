/* The peer of libcuda's benchmarks: what the same driver calls cost from C.
 *
 *   cc -O2 calls.c -lcuda -o calls_c && ./calls_c
 *   CGO_ENABLED=0 FERRY_REQUIRE_GPU=1 go test -run '^$' -bench . ./libcuda
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OK(call) do { CUresult result_ = (call); if (result_) { fprintf(stderr, "%s: error %d\n", #call, result_); exit(1); } } while (0)

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static int by_value(const void *a, const void *b) { double d = *(double *)a - *(double *)b; return (d > 0) - (d < 0); }

/* Median over rounds of the mean cost of a call; the stream is drained between rounds, not inside. */
#define TIME(name, count, call)                                                    \
    do {                                                                           \
        double t[31];                                                              \
        for (int r = 0; r < 31; r++) {                                             \
            OK(cuStreamSynchronize(s));                                            \
            double start = now();                                                  \
            for (int i = 0; i < (count); i++) OK(call);                            \
            t[r] = (now() - start) / (count);                                      \
        }                                                                          \
        qsort(t, 31, sizeof *t, by_value);                                         \
        printf("%-40s %8.1f ns\n", name, t[15]);                                   \
    } while (0)

static const char *ptx = ".version 6.3\n.target sm_52\n.address_size 64\n.visible .entry empty() { ret; }\n";

int main(void)
{
    CUdevice dev; CUcontext ctx; CUstream s; CUevent e; CUdeviceptr d; CUmodule m; CUfunction f; void *h; CUdevice got;
    OK(cuInit(0)); OK(cuDeviceGet(&dev, 0)); OK(cuDevicePrimaryCtxRetain(&ctx, dev)); OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuMemAlloc(&d, 4096)); OK(cuMemHostAlloc(&h, 4096, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuModuleLoadData(&m, ptx)); OK(cuModuleGetFunction(&f, m, "empty"));
    TIME("CtxGetDevice", 1000, cuCtxGetDevice(&got));
    TIME("EventRecord", 500, cuEventRecord(e, s));
    TIME("EventQuery", 1000, (cuEventQuery(e), 0));
    TIME("MemcpyHtoDAsync size=4KiB", 200, cuMemcpyHtoDAsync(d, h, 4096, s));
    TIME("LaunchKernel empty", 200, cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, 0, 0));
    TIME("MemcpyHtoDAsync size=4KiB, synchronised", 50, (cuMemcpyHtoDAsync(d, h, 4096, s) || cuStreamSynchronize(s)));
    return 0;
}
