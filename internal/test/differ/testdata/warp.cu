// Warp-wide operations.
#include "differ.h"

// Keeps the positive values of each warp, in order, by ballots.
KERNEL warp_compact(const i32 *in, i32 *out, u32 *kept) {
    u32 i = thread();
    bool keep = in[i] > 0;
    u32 b = __ballot_sync(FULL, keep);
    if (keep) out[i / 32 * 32 + __popc(b & below())] = in[i];
    if (lane() == 0) kept[i / 32] = __popc(b);
}

// Sums of values by key, with one addition for each key of a warp.
KERNEL warp_aggregate(const u32 *key, const u32 *value, u32 *sum) {
    u32 i = thread(), k = key[i] & 31, v = value[i], same = __match_any_sync(FULL, k), all = 0;
    for (int l = 0; l < 32; l++) {
        u32 x = __shfl_sync(FULL, v, l);
        if (same >> l & 1) all += x;
    }
    if ((same & below()) == 0) atomicAdd(sum + k, all);
}

KERNEL warp_shuffles(const u32 *in, u32 *out) {
    u32 i = thread(), v = in[i], r;
    r = __shfl_sync(FULL, v, v & 31);
    r = r * 3 + __shfl_up_sync(FULL, v, 5);
    r = r * 3 + __shfl_down_sync(FULL, v, 7);
    r = r * 3 + __shfl_xor_sync(FULL, v, 9);
    u32 x;
    asm volatile("{ .reg .pred p; shfl.sync.idx.b32 %0|p, %1, %2, 0x1807, 0xffffffff; @!p add.u32 %0, %0, 1; }" : "=r"(x) : "r"(v), "r"(v >> 8));
    r = r * 3 + x;
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, 3, 0x1800, 0xffffffff; @!p add.u32 %0, %0, 7; }" : "=r"(x) : "r"(v));
    r = r * 3 + x;
    asm volatile("{ .reg .pred p; shfl.sync.down.b32 %0|p, %1, 6, 0x100f, 0xffffffff; @!p add.u32 %0, %0, 9; }" : "=r"(x) : "r"(v));
    r = r * 3 + x;
    asm volatile("{ .reg .pred p; shfl.sync.bfly.b32 %0|p, %1, 17, 0x1c1f, 0xffffffff; @!p add.u32 %0, %0, 11; }" : "=r"(x) : "r"(v));
    out[i] = r * 3 + x;
}

KERNEL warp_votes(const u32 *in, u32 *out) {
    u32 i = thread(), v = in[i], r = 0;
    for (int bit = 0; bit < 8; bit++) {
        int p = v >> bit & 1;
        r = r * 5 + (__any_sync(FULL, p && lane() > 20) ? 1 : 0);
        r = r * 5 + (__all_sync(FULL, p || lane() < 20) ? 1 : 0);
        r ^= __ballot_sync(FULL, p);
    }
    if (v & 1) r += __popc(__ballot_sync(__activemask(), v & 2)); // converged halves
    __syncwarp();
    u32 u;
    asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.uni.pred q, p, 0xffffffff; selp.u32 %0, 1, 2, q; }" : "=r"(u) : "r"(v & 0x80000000u));
    out[i] = r ^ u;
}

// A bitonic sort of a warp by shuffles only.
KERNEL warp_sort(i32 *data) {
    i32 v = data[thread()];
    for (u32 k = 2; k <= 32; k <<= 1)
        for (u32 j = k >> 1; j > 0; j >>= 1) {
            i32 o = __shfl_xor_sync(FULL, v, j);
            bool low = ((lane() & j) == 0) == ((lane() & k) == 0);
            v = low ? min(v, o) : max(v, o);
        }
    data[thread()] = v;
}

#if __CUDA_ARCH__ >= 800
KERNEL warp_redux(const u32 *in, u32 *out) {
    u32 i = thread(), v = in[i], r, s = 0;
    asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v)); s = s * 7 + r;
    asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v)); s = s * 7 + r;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v)); s = s * 7 + r;
    asm volatile("redux.sync.and.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v | 0x10u)); s = s * 7 + r;
    asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v & 0xffff0u)); s = s * 7 + r;
    asm volatile("redux.sync.xor.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v)); s = s * 7 + r;
    if (lane() & 1) { asm volatile("redux.sync.add.s32 %0, %1, 0xaaaaaaaa;" : "=r"(r) : "r"(v)); s += r; }
    out[i] = s;
}
#endif

// Groups of eight lanes with their own masks, on both sides of a branch.
KERNEL warp_halves(const u32 *in, u32 *out) {
    u32 v = in[thread()], m = 0xffu << (lane() & 24), r;
    if (lane() & 8) r = __ballot_sync(m, v & 4) ^ __shfl_sync(m, v, lane() ^ 3);
    else r = __shfl_xor_sync(m, v, 5) + __popc(__ballot_sync(m, v & 8));
    out[thread()] = r;
}

KERNEL warp_match_all(const u32 *in, u32 *out) {
    u32 v = in[thread() / 32 * 32 + (lane() & in[thread() / 32])], m, p;
    asm volatile("{ .reg .pred q; match.all.sync.b32 %0|q, %2, 0xffffffff; selp.u32 %1, 1, 0, q; }" : "=r"(m), "=r"(p) : "r"(v));
    u32 any;
    u64 wide = (u64)(v & 3) << 40 | (v & 1);
    asm volatile("match.any.sync.b64 %0, %1, 0xffffffff;" : "=r"(any) : "l"(wide));
    out[thread()] = m * 3 + p + any * 5;
}
