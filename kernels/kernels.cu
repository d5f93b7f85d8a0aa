// The kernels that Ferry ships. Each thread moves 16 bytes at a time where the
// addresses allow it. All kernels but gather work with any grid: each thread
// steps through the data by the number of threads. kernels.ptx is made from this
// file; doc.go has the command.

#include <stdint.h>

#define THREAD (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * (uint64_t)blockDim.x)

static __device__ __forceinline__ bool aligned16(uint64_t bits) { return (bits & 15) == 0; }

// c[i] = a[i] + b[i] for i < n.
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, uint64_t n)
{
    uint64_t i = THREAD, wide = 0;
    if (aligned16((uint64_t)a | (uint64_t)b | (uint64_t)c)) {
        wide = n / 4;
        for (uint64_t k = i; k < wide; k += STRIDE) {
            float4 x = ((const float4 *)a)[k], y = ((const float4 *)b)[k];
            ((float4 *)c)[k] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
        }
    }
    for (uint64_t k = wide * 4 + i; k < n; k += STRIDE)
        c[k] = a[k] + b[k];
}

// x[i] += 1 for i < n.
extern "C" __global__ void increment(float *x, uint64_t n)
{
    uint64_t i = THREAD, wide = 0;
    if (aligned16((uint64_t)x)) {
        wide = n / 4;
        for (uint64_t k = i; k < wide; k += STRIDE) {
            float4 v = ((float4 *)x)[k];
            ((float4 *)x)[k] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
        }
    }
    for (uint64_t k = wide * 4 + i; k < n; k += STRIDE)
        x[k] += 1;
}

// dst[i] = src[i] for i < n bytes.
extern "C" __global__ void copy(uint8_t *dst, const uint8_t *src, uint64_t n)
{
    uint64_t i = THREAD, wide = 0;
    if (aligned16((uint64_t)dst | (uint64_t)src)) {
        wide = n / 16;
        for (uint64_t k = i; k < wide; k += STRIDE)
            ((uint4 *)dst)[k] = ((const uint4 *)src)[k];
    }
    for (uint64_t k = wide * 16 + i; k < n; k += STRIDE)
        dst[k] = src[k];
}

// x[i] = value for i < n words.
extern "C" __global__ void fill(uint32_t *x, uint32_t value, uint64_t n)
{
    uint64_t i = THREAD, wide = 0;
    if (aligned16((uint64_t)x)) {
        wide = n / 4;
        for (uint64_t k = i; k < wide; k += STRIDE)
            ((uint4 *)x)[k] = make_uint4(value, value, value, value);
    }
    for (uint64_t k = wide * 4 + i; k < n; k += STRIDE)
        x[k] = value;
}

// One launch of gather copies up to this many ranges. They fit into the 4096 bytes of
// parameters that every GPU accepts.
#define GATHER 200

struct Ranges {
    uint64_t dst[GATHER], src[GATHER];
    uint32_t bytes[GATHER];
};

// dst[k][i] = src[k][i] for i < bytes[k]. The grid has "blocks" blocks for each range k.
extern "C" __global__ void gather(const __grid_constant__ Ranges r, uint32_t blocks)
{
    uint32_t k = blockIdx.x / blocks;
    uint32_t i = (blockIdx.x % blocks) * blockDim.x + threadIdx.x, stride = blocks * blockDim.x;
    uint8_t *dst = (uint8_t *)r.dst[k];
    const uint8_t *src = (const uint8_t *)r.src[k];
    uint32_t n = r.bytes[k], done = 0;
    if (aligned16((uint64_t)dst | (uint64_t)src)) {
        for (uint32_t w = i; w < n / 16; w += stride)
            ((uint4 *)dst)[w] = ((const uint4 *)src)[w];
        done = n / 16 * 16;
    } else if ((((uint64_t)dst | (uint64_t)src) & 3) == 0) {
        for (uint32_t w = i; w < n / 4; w += stride)
            ((uint32_t *)dst)[w] = ((const uint32_t *)src)[w];
        done = n / 4 * 4;
    }
    for (uint32_t b = done + i; b < n; b += stride)
        dst[b] = src[b];
}
