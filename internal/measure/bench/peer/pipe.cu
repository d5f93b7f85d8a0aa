// The peer of bench.SpeedPipe: copy in, kernel, copy out in C++, with chunks of 16 MiB and
// three streams, which is the usual method.
//
//   nvcc -O2 -Xcompiler -fopenmp -o pipe_c pipe.cu -lcuda
//   ./pipe_c work.ptx
//
// For each line "method rounds bytes" it takes a sample with page-locked memory and prints
// the nanoseconds, or -1 and a reason. "both" copies all bytes in and as many out at once,
// without a kernel. "kernel" runs only the kernel.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK(call) do { CUresult result_ = (call); if (result_) { fprintf(stderr, "%s: error %d\n", #call, result_); exit(1); } } while (0)

static const int streams = 3;
static const size_t chunk = 16 << 20;
static CUstream s[streams];
static CUfunction work;

static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }

static void launch(CUdeviceptr out, CUdeviceptr in, size_t bytes, unsigned rounds, CUstream q)
{
    unsigned long long n = bytes / 4;
    void *args[] = {&out, &in, &n, &rounds};
    OK(cuLaunchKernel(work, (n / 4 + 255) / 256, 1, 1, 256, 1, 1, 0, q, args, 0));
}

static void chunks(float *in, float *out, CUdeviceptr dev, size_t n, unsigned rounds)
{
    for (size_t at = 0, k = 0; at < n; at += chunk, k++) {
        size_t m = n - at < chunk ? n - at : chunk;
        CUdeviceptr d = dev + k % streams * chunk;
        CUstream q = s[k % streams];
        OK(cuMemcpyHtoDAsync(d, (char *)in + at, m, q));
        launch(d, d, m, rounds, q);
        OK(cuMemcpyDtoHAsync((char *)out + at, d, m, q));
    }
}

int main(int argc, char **argv)
{
    CUdevice dev; CUcontext ctx; CUmodule mod;
    OK(cuInit(0)); OK(cuDeviceGet(&dev, 0)); OK(cuDevicePrimaryCtxRetain(&ctx, dev)); OK(cuCtxSetCurrent(ctx));
    FILE *f = fopen(argc > 1 ? argv[1] : "work.ptx", "r");
    if (!f) { perror("work.ptx"); return 1; }
    static char ptx[1 << 20];
    ptx[fread(ptx, 1, sizeof ptx - 1, f)] = 0;
    OK(cuModuleLoadData(&mod, ptx)); OK(cuModuleGetFunction(&work, mod, "work"));
    for (int i = 0; i < streams; i++) OK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    char method[16]; unsigned rounds; size_t n, have = 0;
    float *in = 0, *out = 0; CUdeviceptr d = 0, d2 = 0;
    for (int turn = 1; scanf("%15s %u %zu", method, &rounds, &n) == 3; turn++) {
        if (n > have) {
            if (have) { OK(cuMemFreeHost(in)); OK(cuMemFreeHost(out)); OK(cuMemFree(d)); OK(cuMemFree(d2)); }
            OK(cuMemHostAlloc((void **)&in, n, 0)); OK(cuMemHostAlloc((void **)&out, n, 0));
            OK(cuMemAlloc(&d, n)); OK(cuMemAlloc(&d2, n));
            have = n;
        }
#pragma omp parallel for
        for (size_t i = 0; i < n / 4; i++) in[i] = (i + turn) % 1009, out[i] = -1;
        bool copies = !strcmp(method, "chunks");
        double start = now();
        if (copies) chunks(in, out, d, n, rounds);
        else if (!strcmp(method, "kernel")) launch(d, d, n, rounds, s[0]);
        else { OK(cuMemcpyHtoDAsync(d, in, n, s[0])); OK(cuMemcpyDtoHAsync(out, d2, n, s[1])); }
        OK(cuCtxSynchronize());
        double took = now() - start;
        size_t wrong = 0;
        if (copies) {
#pragma omp parallel for reduction(+ : wrong)
            for (size_t i = 0; i < n / 4; i++) wrong += out[i] != in[i] + rounds;
        }
        if (wrong) printf("-1 %zu elements are wrong\n", wrong); else printf("%.0f\n", took);
        fflush(stdout);
    }
}
