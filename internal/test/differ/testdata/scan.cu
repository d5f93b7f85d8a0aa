// Prefix sums.
#include "differ.h"

KERNEL scan_hillis(const u32 *in, u32 *out) {
    __shared__ u32 s[2][256];
    u32 t = threadIdx.x, i = thread();
    int from = 0;
    s[0][t] = in[i];
    __syncthreads();
    for (u32 k = 1; k < 256; k <<= 1) {
        s[1 - from][t] = s[from][t] + (t >= k ? s[from][t - k] : 0);
        from = 1 - from;
        __syncthreads();
    }
    out[i] = s[from][t];
}

KERNEL scan_blelloch(const u32 *in, u32 *out) {
    __shared__ u32 s[256];
    u32 t = threadIdx.x, base = blockIdx.x * 256, gap = 1;
    s[2 * t] = in[base + 2 * t];
    s[2 * t + 1] = in[base + 2 * t + 1];
    for (u32 d = 128; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[gap * (2 * t + 2) - 1] += s[gap * (2 * t + 1) - 1];
        gap *= 2;
    }
    if (t == 0) s[255] = 0;
    for (u32 d = 1; d < 256; d *= 2) {
        gap >>= 1;
        __syncthreads();
        if (t < d) {
            u32 a = gap * (2 * t + 1) - 1, b = gap * (2 * t + 2) - 1, x = s[a];
            s[a] = s[b];
            s[b] += x;
        }
    }
    __syncthreads();
    out[base + 2 * t] = s[2 * t];
    out[base + 2 * t + 1] = s[2 * t + 1];
}

DEVICE u32 warp_scan(u32 v) {
    for (int k = 1; k < 32; k <<= 1) {
        u32 x = __shfl_up_sync(FULL, v, k);
        if (lane() >= k) v += x;
    }
    return v;
}

KERNEL scan_warp(const u32 *in, u32 *out) {
    __shared__ u32 sums[32];
    u32 i = thread(), w = threadIdx.x / 32, v = warp_scan(in[i]);
    if (lane() == 31) sums[w] = v;
    __syncthreads();
    if (w == 0) sums[lane()] = warp_scan(lane() < blockDim.x / 32 ? sums[lane()] : 0);
    __syncthreads();
    out[i] = v + (w ? sums[w - 1] : 0);
}

// One pass over all blocks. Each takes a ticket, publishes its sum, and looks
// back until it finds a prefix. state is (sum << 2 | 1) or (prefix << 2 | 2).
KERNEL scan_lookback(const u32 *in, u32 *out, u64 *state, u32 *ticket) {
    __shared__ u32 tile, sums[8], before;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();
    u32 i = tile * 256 + threadIdx.x, w = threadIdx.x / 32, v = warp_scan(in[i]);
    if (lane() == 31) sums[w] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 all = 0, prefix = 0;
        for (int k = 0; k < 8; k++) { u32 x = sums[k]; sums[k] = all; all += x; }
        volatile u64 *s = state;
        if (tile > 0) {
            s[tile] = (u64)all << 2 | 1;
            for (int k = tile - 1; k >= 0;) {
                u64 x = s[k];
                if ((x & 3) == 0) continue;
                prefix += (u32)(x >> 2);
                if (x & 2) break;
                k--;
            }
        }
        s[tile] = (u64)(prefix + all) << 2 | 2;
        before = prefix;
    }
    __syncthreads();
    out[i] = before + sums[w] + v;
}

// A scan of the maximum that restarts where the flag is set.
KERNEL scan_segmented(const i32 *in, const u8 *head, i32 *out) {
    u32 i = thread();
    i32 v = in[i];
    u32 f = head[i] & 1;
    for (int k = 1; k < 32; k <<= 1) {
        i32 x = __shfl_up_sync(FULL, v, k);
        u32 g = __shfl_up_sync(FULL, f, k);
        if (lane() >= k && !f) { v = max(v, x); f = g; }
    }
    out[i] = v;
}
