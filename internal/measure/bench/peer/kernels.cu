// Times of kernels, by one mechanism each: reuse by many blocks, scattered stores, gathers,
// atomic additions, few warps, chains of loads, and arithmetic. Made for a machine with CUDA:
//
//   nvcc -O2 -arch=native kernels.cu -o kernels && ./kernels >kernels-h200.tsv
//
// The software GPU runs the same kernels, as softgpu/testdata/kernels.ptx, made by
//
//   clang-19 -O2 -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib
//     -DKERNELS_ONLY -S internal/measure/bench/peer/kernels.cu -o softgpu/testdata/kernels.ptx
typedef unsigned u32;
#ifdef KERNELS_ONLY
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#include <__clang_cuda_builtin_vars.h>
static __device__ float sqrt(float x) { return __builtin_sqrtf(x); }
static __device__ double sqrt(double x) { return __builtin_sqrt(x); }
static __device__ u32 sqrt(u32 x) { return x; } // arith_u32 never calls it
static __device__ u32 atomicAdd(u32 *p, u32 v) { return __nvvm_atom_add_gen_i((int *)p, v); }
#else
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>
#endif
#define KERNEL extern "C" __global__ void
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)

// All blocks read a table of n words. With skew each begins at another place.
KERNEL table(float *o, const float *in, u32 n, u32 skew)
{
    float s = 0;
    u32 b = skew ? blockIdx.x * 977 % n : 0;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < n; i += blockDim.x)
        s += in[(i + b) % n];
    o[THREAD] = s;
}

KERNEL put(float *o, const u32 *ix) { o[ix[THREAD]] = 1; }
KERNEL count(u32 *o, const u32 *ix) { atomicAdd(o + ix[THREAD], 1u); }
KERNEL pick(float *o, const float *in, const u32 *ix) { o[THREAD] = in[ix[THREAD]]; }

KERNEL rmw(float *x, u32 n)
{
#pragma unroll 1
    for (u32 i = THREAD; i < n; i += THREADS)
        x[i] = x[i] * 2 + 1;
}

KERNEL rd(float *o, const float *x, u32 n)
{
    float s = 0;
#pragma unroll 1
    for (u32 i = THREAD; i < n; i += THREADS)
        s += x[i];
    o[THREAD] = s;
}

KERNEL chase(u32 *o, const volatile u32 *nx, u32 steps)
{
    u32 p = 0;
    for (u32 i = 0; i < steps; i++)
        p = nx[p];
    *o = p;
}

KERNEL chaseplain(u32 *o, const u32 *nx, u32 steps)
{
    u32 p = 0;
    for (u32 i = 0; i < steps; i++)
        p = nx[p];
    *o = p;
}

template <class T> static __device__ void steps_of(T *o, T x, T y, int op, u32 steps)
{
    switch (op) {
    case 0:
        for (u32 i = 0; i < steps; i++)
            x = x * y + (T)1;
        break;
    case 1:
        for (u32 i = 0; i < steps; i++)
            x = (T)1.5 / x + y;
        break;
    case 2:
        for (u32 i = 0; i < steps; i++)
            x = (T)sqrt(x) + y;
        break;
    case 3:
        for (u32 i = 0; i < steps; i++)
            x = (T)(int)(x * y) + y;
        break;
    }
    o[THREAD] = x;
}

KERNEL arith_f32(float *o, float x, float y, int op, u32 steps) { steps_of(o, x, y, op, steps); }
KERNEL arith_f64(double *o, double x, double y, int op, u32 steps) { steps_of(o, x, y, op, steps); }
KERNEL arith_u32(u32 *o, u32 x, u32 y, int op, u32 steps) { steps_of(o, x, y, op % 2, steps); }

#ifndef KERNELS_ONLY
#define OK(x)                                                               \
    do {                                                                    \
        auto e = (x);                                                       \
        if (e) {                                                            \
            fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e));         \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static const char *where_name[] = {"device", "host"};

// us returns the median of 11 times between events around f, after one that is not counted.
static double us(std::function<void()> f)
{
    cudaEvent_t a, b;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    std::vector<float> v;
    for (int i = 0; i < 12; i++) {
        OK(cudaEventRecord(a));
        f();
        OK(cudaEventRecord(b));
        OK(cudaEventSynchronize(b));
        float ms;
        OK(cudaEventElapsedTime(&ms, a, b));
        if (i)
            v.push_back(ms * 1e3f);
    }
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

static u32 any() { return ((u32)rand() << 15) ^ rand(); }

int main()
{
    float *at[2], *out;
    u32 *ix;
    OK(cudaMalloc(&at[0], 1 << 28));
    OK(cudaMalloc(&out, 1 << 26));
    OK(cudaHostAlloc((void **)&at[1], 1 << 28, cudaHostAllocMapped));
    OK(cudaMalloc(&ix, 4 << 20));
    std::vector<u32> h(1 << 20);
    for (int blocks : {1, 33, 66, 132, 264, 528, 1056})
        for (int kib : {16, 64, 128})
            for (int skew : {0, 1})
                for (int w : {0, 1})
                    printf("table\tblocks %d\tKiB %d\tskew %d\t%s\t%.1f\n", blocks, kib, skew, where_name[w],
                           us([&] { table<<<blocks, 256>>>(out, at[w], kib * 256, skew); }));
    for (int kib : {0, 1, 4, 16, 64, 256, 1024, 16384, 131072}) {
        u32 n = kib ? kib * 256 : 1;
        for (auto &x : h)
            x = any() % n;
        OK(cudaMemcpy(ix, h.data(), 4 << 20, cudaMemcpyHostToDevice));
        for (int w : {0, 1}) {
            int g = w ? 1024 : 4096;
            printf("put\tKiB %d\t%s\t%.1f\n", kib, where_name[w], us([&] { put<<<g, 256>>>(at[w], ix); }));
            printf("count\tKiB %d\t%s\t%.1f\n", kib, where_name[w],
                   us([&] { count<<<w ? 256 : 4096, 256>>>((u32 *)at[w], ix); }));
            printf("pick\tKiB %d\t%s\t%.1f\n", kib, where_name[w], us([&] { pick<<<g, 256>>>(out, at[w], ix); }));
        }
    }
    for (int warps : {1, 2, 4, 8, 16, 32})
        for (int w : {0, 1}) {
            printf("rmw\twarps %d\t%s\t%.1f\n", warps, where_name[w], us([&] { rmw<<<1, 32 * warps>>>(at[w], 1 << 18); }));
            printf("read\twarps %d\t%s\t%.1f\n", warps, where_name[w], us([&] { rd<<<1, 32 * warps>>>(out, at[w], 1 << 18); }));
        }
    for (int kib : {4, 16, 128, 512, 4096, 65536, 262144}) {
        u32 n = kib * 256;
        std::vector<u32> p(n), q(n);
        for (u32 i = 0; i < n; i++)
            p[i] = i;
        for (u32 i = n - 1; i; i--)
            std::swap(p[i], p[any() % (i + 1)]);
        for (u32 i = 0; i < n; i++)
            q[p[i]] = p[(i + 1) % n];
        OK(cudaMemcpy(at[0], q.data(), 4ul * n, cudaMemcpyHostToDevice));
        std::copy(q.begin(), q.end(), (u32 *)at[1]);
        for (int w : {0, 1}) {
            const u32 *t = (u32 *)at[w];
            printf("chase\tKiB %d\t%s\t%.1f\n", kib, where_name[w], us([&] { chase<<<1, 1>>>((u32 *)out, t, 1000); }));
            printf("chaseplain\tKiB %d\t%s\t%.1f\n", kib, where_name[w],
                   us([&] { chaseplain<<<1, 1>>>((u32 *)out, t, 1000); }));
        }
    }
    for (int g : {1, 132, 1056})
        for (int b : {32, 256})
            for (int op = 0; op < 4; op++) {
                printf("arith f32\top %d\t%d x %d\t%.1f\n", op, g, b, us([&] { arith_f32<<<g, b>>>(out, 1.1f, 0.9f, op, 1000); }));
                printf("arith f64\top %d\t%d x %d\t%.1f\n", op, g, b, us([&] { arith_f64<<<g, b>>>((double *)out, 1.1, 0.9, op, 1000); }));
                printf("arith u32\top %d\t%d x %d\t%.1f\n", op % 2, g, b, us([&] { arith_u32<<<g, b>>>((u32 *)out, 7u, 9u, op % 2, 1000); }));
            }
    OK(cudaDeviceSynchronize());
}
#endif
