// Kinds of memory and ways to access it.
#include "differ.h"

__constant__ u32 squares[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
__constant__ double weights[3] = {0.25, 0.5, -0.125};
__device__ i32 counters[8] = {1, -2, 3, -4};
__device__ const char *const names[3] = {"one", "three", "seventeen"};
__device__ struct { u8 a; u64 b; float c; short d[3]; } record = {7, 0x123456789abcdefull, -1.5f, {1, -2, 3}};

KERNEL memory_constant(const u32 *in, double *out) {
    u32 v = in[thread()];
    out[thread()] = squares[v & 15] * weights[v % 3] + squares[threadIdx.x & 7];
}

KERNEL memory_globals(u64 *out) {
    u32 t = threadIdx.x;
    u64 h = 0;
    for (const char *p = names[t % 3]; *p; p++) h = h * 131 + *p;
    out[t] = h + record.a + record.b + (i64)(record.c * 4) + record.d[t % 3] + counters[t % 4];
    __syncthreads();
    if (t < 8) counters[t] += counters[(t + 1) % 8] * 0; // written, but unchanged
}

// Dynamic shared memory, used with two types.
extern __shared__ __attribute__((aligned(16))) u8 dynamic[];

KERNEL memory_dynamic(const u32 *in, u32 *out, u32 n) {
    u32 *words = (u32 *)dynamic;
    u16 *halves = (u16 *)(dynamic + 4 * n);
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) { words[i] = in[blockIdx.x * n + i]; halves[n - 1 - i] = words[i] >> 7; }
    __syncthreads();
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = words[n - 1 - i] ^ halves[i] * 65537u;
}

// Arrays in local memory, indexed by data.
KERNEL memory_local(const u8 *in, u32 *out) {
    u32 a[16];
    u8 b[33];
    for (int i = 0; i < 16; i++) a[i] = i * i;
    for (int i = 0; i < 33; i++) b[i] = i;
    for (int i = 0; i < 64; i++) {
        u8 x = in[(thread() + i) % 256];
        u8 t = b[x % 33];
        b[x % 33] = b[i % 33];
        b[i % 33] = t;
        a[x & 15] += a[t & 15] ^ i;
    }
    u32 h = 0;
    for (int i = 0; i < 16; i++) h = h * 31 + a[i];
    for (int i = 0; i < 33; i++) h = h * 31 + b[i];
    out[thread()] = h;
}

#ifndef __clang__ // clang writes an alignment of 0, which ptxas refuses
KERNEL memory_alloca(const u32 *in, u32 *out) {
    u32 n = in[thread()] % 20 + 1, h = 0;
    u32 *p = (u32 *)__builtin_alloca(n * 4);
    for (u32 i = 0; i < n; i++) p[i] = i ? p[i / 2] * 3 + i : n;
    for (u32 i = 0; i < n; i++) h = h * 7 + p[n - 1 - i];
    out[thread()] = h;
}
#endif

// Words at any address: by single bytes, and from two words by a permutation.
KERNEL memory_unaligned(const u8 *in, const u32 *offset, u64 *out) {
    u32 at = offset[thread()] % 200;
    const u8 *p = in + at;
    u32 bytes = p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24;
    const u32 *w = (const u32 *)(in + (at & ~3u));
    u32 words = __funnelshift_r(w[0], w[1], 8 * (at & 3));
    u16 half = *(const u16 *)(in + (at & ~1u));
    out[thread()] = (u64)bytes << 32 | (words ^ half);
}

KERNEL memory_vectors(const uint4 *in, uint4 *out, const short4 *s, float2 *f, const uchar3 *c, const double2 *d) {
    u32 i = thread();
    uint4 v = in[i];
    short4 h = s[i];
    uchar3 b = c[i];
    double2 e = d[i];
    out[i] = make_uint4(v.w + h.x, v.z ^ h.y, v.y - b.z, v.x * b.x + b.y);
    f[i] = make_float2((float)(e.x + h.z), (float)(e.y * h.w));
}

// Every stride through shared memory. Bank conflicts do not change the results.
KERNEL memory_banks(const u32 *in, u32 *out) {
    __shared__ u32 s[1024];
    for (u32 i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = in[i];
    __syncthreads();
    u32 sum = 0;
    for (u32 stride = 1; stride <= 33; stride++) sum = sum * 5 + s[threadIdx.x * stride % 1024];
    u64 *wide = (u64 *)s;
    sum ^= (u32)(wide[threadIdx.x ^ 5] >> 16) + ((u8 *)s)[threadIdx.x * 3];
    out[threadIdx.x] = sum;
}

KERNEL memory_stride(const float *x, float *y, float a, u32 n) {
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) y[i] = fmaf(a, x[i], y[i]);
}

KERNEL memory_grid(u32 *out) {
    u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    u32 t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u32 i = block * blockDim.x * blockDim.y * blockDim.z + t;
    out[i] = threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 | blockIdx.y << 16 | blockIdx.z << 20 | gridDim.z << 24 | blockDim.y << 28;
}

// The clock advances. The results do not depend on it.
KERNEL memory_clock(const u32 *in, u32 *out) {
    i64 start = clock64();
    u32 v = in[thread()];
    for (int i = 0; i < 20; i++) v = v * 1664525u + 1013904223u;
    i64 end = clock64();
    out[thread()] = v + (end < start);
}

// The cache operators of loads.
KERNEL memory_caches(const u32 *in, u32 *out) {
    u32 i = thread(), a, b, c, d, e;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(a) : "l"(in + i));
    asm volatile("ld.global.cg.u32 %0, [%1+4];" : "=r"(b) : "l"(in + i));
    asm volatile("ld.global.cs.u32 %0, [%1+8];" : "=r"(c) : "l"(in + i));
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(d) : "l"(in + i));
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(e) : "l"(in + i));
    asm volatile("prefetch.global.L2 [%0];" :: "l"(in + i));
    asm volatile("st.global.wt.u32 [%0], %1;" :: "l"(out + i), "r"(a + 3 * b + 5 * c + 7 * d + 11 * e));
}

// Copies and fills of structs, which the compiler generates.
struct big { u64 words[9]; u8 tail[5]; };
KERNEL memory_structs(const big *in, big *out) {
    u32 i = thread();
    big x = in[i], y = {};
    if (x.tail[0] & 1) y = in[i ^ 1];
    y.words[8] ^= x.words[0];
    for (int k = 0; k < 5; k++) y.tail[k] += x.tail[4 - k];
    out[i].tail[0] = y.tail[0]; out[i].tail[1] = y.tail[1]; out[i].tail[2] = y.tail[2]; out[i].tail[3] = y.tail[3]; out[i].tail[4] = y.tail[4];
    for (int k = 0; k < 9; k++) out[i].words[k] = y.words[k];
}
