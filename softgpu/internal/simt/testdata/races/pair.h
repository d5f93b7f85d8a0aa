// Each PAIR(f, G, B) makes two kernels of the template f: racy_f_GxB, which has a race, and
// ok_f_GxB, which has none. G blocks of B threads run them. The kernels get two buffers of
// 64 KiB, a with a[i] = i and b with zeros, n = 64, and 4096 bytes of dynamic shared memory.
#pragma once

#define BODY(f) template <bool ok> __device__ __forceinline__ void f(unsigned *a, unsigned *b, unsigned n)
#define PAIR(f, g, t)                                                                                     \
    extern "C" __global__ void racy_##f##_##g##x##t(unsigned *a, unsigned *b, unsigned n) { f<false>(a, b, n); } \
    extern "C" __global__ void ok_##f##_##g##x##t(unsigned *a, unsigned *b, unsigned n) { f<true>(a, b, n); }
#define T threadIdx.x
#define B blockIdx.x
#define LANE (threadIdx.x & 31)
#define WARP (threadIdx.x >> 5)

__device__ __forceinline__ unsigned acquire_gpu(unsigned *p) { unsigned v; asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ unsigned acquire_cta(unsigned *p) { unsigned v; asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ unsigned relaxed_gpu(unsigned *p) { unsigned v; asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ void release_gpu(unsigned *p, unsigned v) { asm volatile("st.release.gpu.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ void release_cta(unsigned *p, unsigned v) { asm volatile("st.release.cta.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ void relax_gpu(unsigned *p, unsigned v) { asm volatile("st.relaxed.gpu.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_cta() { asm volatile("fence.acq_rel.cta;" ::: "memory"); }
__device__ __forceinline__ void store(unsigned *p, unsigned v) { asm volatile("st.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory"); }
__device__ __forceinline__ unsigned load(unsigned *p) { unsigned v; asm volatile("ld.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
__device__ __forceinline__ void bar(unsigned id, unsigned n) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive(unsigned id, unsigned n) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ unsigned smem(void *p) { return (unsigned)(unsigned long long)__cvta_generic_to_shared(p); }
