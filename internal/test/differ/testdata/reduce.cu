// Reductions: by a tree in shared memory, by shuffles, by atomics, and by the last block.
#include "differ.h"

KERNEL reduce_tree(const i32 *in, i32 *out, u32 n) {
    __shared__ i32 s[256];
    u32 t = threadIdx.x, i = blockIdx.x * 512 + t;
    s[t] = (i < n ? in[i] : 0) + (i + 256 < n ? in[i + 256] : 0);
    __syncthreads();
    for (u32 k = 128; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

// The same tree in floats. The order of additions is fixed, and so are the bits.
KERNEL reduce_tree_f32(const float *in, float *out, u32 n) {
    __shared__ float s[128];
    u32 t = threadIdx.x;
    float sum = 0;
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) sum += in[i];
    s[t] = sum;
    __syncthreads();
    for (u32 k = 64; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}

KERNEL reduce_shuffle(const u32 *in, u32 *out, u32 n) {
    u32 i = thread(), v = i < n ? in[i] : 0;
    for (int k = 16; k > 0; k >>= 1) v += __shfl_xor_sync(FULL, v, k);
    if (lane() == 0) out[i / 32] = v;
}

KERNEL reduce_shuffle_f32(const float *in, float *out, u32 n) {
    u32 i = thread();
    float v = i < n ? in[i] : 0;
    for (int k = 16; k > 0; k >>= 1) v += __shfl_down_sync(FULL, v, k);
    if (lane() == 0) out[i / 32] = v;
}

KERNEL reduce_atomic(const u64 *in, u64 *out, u32 n) {
    u64 sum = 0;
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) sum += in[i];
    atomicAdd(out, sum);
    atomicMax(out + 1, sum);
    atomicMin(out + 2, sum);
    atomicXor(out + 3, sum);
}

// Additions of floats in any order.
KERNEL reduce_atomic_f32(const float *in, float *out, u32 n) {
    u32 i = thread();
    if (i < n) atomicAdd(out + i % 4, in[i]);
}

// The last block to arrive adds the results of all blocks.
KERNEL reduce_last_block(const i32 *in, i64 *partial, u32 *arrived, i64 *out, u32 n) {
    __shared__ i64 s[128];
    __shared__ bool last;
    u32 t = threadIdx.x;
    i64 sum = 0;
    for (u32 i = thread(); i < n; i += gridDim.x * 128) sum += (i64)in[i] * in[i];
    s[t] = sum;
    __syncthreads();
    for (u32 k = 64; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || t != 0) return;
    i64 all = 0;
    for (u32 b = 0; b < gridDim.x; b++) all += ((volatile i64 *)partial)[b];
    *out = all;
}

KERNEL reduce_minmax(const float *in, float *out, u32 n) {
    float lo = 3.4e38f, hi = -3.4e38f;
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) {
        lo = fminf(lo, in[i]);
        hi = fmaxf(hi, in[i]);
    }
    for (int k = 16; k > 0; k >>= 1) {
        lo = fminf(lo, __shfl_xor_sync(FULL, lo, k));
        hi = fmaxf(hi, __shfl_xor_sync(FULL, hi, k));
    }
    if (lane() == 0) {
        out[thread() / 32 * 2] = lo;
        out[thread() / 32 * 2 + 1] = hi;
    }
}
