// Histograms: atomics on global memory, on shared memory, and a table for each warp.
#include "differ.h"

KERNEL histogram_global(const u8 *in, u32 *out, u32 n) {
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) atomicAdd(out + in[i], 1u);
}

KERNEL histogram_shared(const u8 *in, u32 *out, u32 n) {
    __shared__ u32 s[256];
    for (u32 k = threadIdx.x; k < 256; k += blockDim.x) s[k] = 0;
    __syncthreads();
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) atomicAdd(s + in[i], 1u);
    __syncthreads();
    for (u32 k = threadIdx.x; k < 256; k += blockDim.x)
        if (s[k]) atomicAdd(out + k, s[k]);
}

KERNEL histogram_warps(const uchar4 *in, u32 *out, u32 n) {
    __shared__ u32 s[4][64];
    u32 w = threadIdx.x / 32;
    s[w][lane()] = s[w][lane() + 32] = 0;
    __syncwarp();
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) {
        uchar4 v = in[i];
        atomicAdd(&s[w][v.x >> 2], 1u);
        atomicAdd(&s[w][v.y >> 2], 1u);
        atomicAdd(&s[w][v.z >> 2], 1u);
        atomicAdd(&s[w][v.w >> 2], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        u32 sum = 0;
        for (int k = 0; k < 4; k++) sum += s[k][threadIdx.x];
        atomicAdd(out + threadIdx.x, sum);
    }
}

// Lanes with the same bin elect a lane that adds for all of them.
KERNEL histogram_match(const u8 *in, u32 *out) {
    u32 bin = in[thread()] & 15, same = __match_any_sync(FULL, bin);
    if (__ffs(same) - 1 == (int)lane()) atomicAdd(out + bin, (u32)__popc(same));
}
