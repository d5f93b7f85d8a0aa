// Words that many threads read, one of which is not waited for: in the middle, or the last.
// Compiled by ferry compile --arch sm_90 --compiler clang-19.
#include "ferry.h"
#include "pair.h"

BODY(many_half_warp) { // the other half of the warp
    __shared__ unsigned s;
    if (T == 0) s = a[5];
    __syncthreads();
    b[T] = s;
    if (ok) __syncwarp(); else if (T < 16) __syncwarp(0xffff);
    if (T == 0) s = 7;
}
PAIR(many_half_warp, 1, 32)

template <unsigned odd, bool ok> __device__ __forceinline__ void but_one_warp(unsigned *a, unsigned *b, unsigned *s) {
    if (T == 0) *s = a[5];
    __syncthreads();
    unsigned sum = *(volatile unsigned *)s + load(s);
    sum += load(s) * 3;
    sum += load(s) * 5;
    b[T] = sum;
    if (ok || WARP != odd) bar(1, ok ? 1024 : 992);
    if (T == 0) *s = 7;
}

BODY(many_warps_first) { __shared__ unsigned s; but_one_warp<1, ok>(a, b, &s); }
PAIR(many_warps_first, 1, 1024)
BODY(many_warps_middle) { __shared__ unsigned s; but_one_warp<17, ok>(a, b, &s); }
PAIR(many_warps_middle, 1, 1024)
BODY(many_warps_last) { __shared__ unsigned s; but_one_warp<31, ok>(a, b, &s); }
PAIR(many_warps_last, 1, 1024)
BODY(many_warps_global) { but_one_warp<23, ok>(a, b + 2048, b); }
PAIR(many_warps_global, 1, 1024)

template <unsigned odd, bool ok> __device__ __forceinline__ void but_one_block(unsigned *a, unsigned *b) {
    b[64 * B + T + 64] = load(b);
    __syncthreads();
    if (T == 0 && (ok || B != odd)) {
        __threadfence();
        atomicAdd(b + 1, 1u);
    }
    if (T == 0 && B == 0) {
        while (acquire_gpu(b + 1) < gridDim.x - !ok);
        b[0] = 7;
    }
}

BODY(many_blocks_first) { but_one_block<1, ok>(a, b); }
PAIR(many_blocks_first, 48, 64)
BODY(many_blocks_middle) { but_one_block<29, ok>(a, b); }
PAIR(many_blocks_middle, 48, 64)
BODY(many_blocks_last) { but_one_block<47, ok>(a, b); }
PAIR(many_blocks_last, 48, 64)
