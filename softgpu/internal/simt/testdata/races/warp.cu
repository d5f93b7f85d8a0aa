// Lanes of a warp: since Volta they do not run in lock step.
#include "pair.h"

BODY(warp_reduce) {
    __shared__ unsigned s[64];
    s[T] = a[T];
    for (unsigned k = 16; k > 0; k >>= 1) {
        if (ok) __syncwarp();
        unsigned x = s[(T & ~31) | ((T + k) & 31)];
        if (ok) __syncwarp();
        s[T] += x;
    }
    b[T] = s[T];
}
PAIR(warp_reduce, 1, 64)

BODY(warp_shuffle) { // a shuffle orders no memory
    __shared__ unsigned s[32];
    s[T] = a[T];
    unsigned x = __shfl_xor_sync(~0u, T, 1);
    if (ok) __syncwarp();
    b[T] = s[x] + x;
}
PAIR(warp_shuffle, 1, 32)

BODY(warp_vote) { // nor does a vote
    __shared__ unsigned s[32];
    s[T] = a[T];
    unsigned x = __ballot_sync(~0u, T & 1);
    if (ok) __syncwarp();
    b[T] = s[(T + 1) & 31] + x;
}
PAIR(warp_vote, 1, 32)

BODY(warp_leader) { // one lane writes for the others
    __shared__ unsigned s[2];
    if (LANE == 0) s[WARP] = a[T];
    if (ok) __syncwarp();
    b[T] = s[WARP];
}
PAIR(warp_leader, 1, 64)

BODY(warp_leader_again) { // and again, before all have read
    __shared__ unsigned s[2];
    unsigned x = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (LANE == 0) s[WARP] = a[i];
        __syncwarp();
        x += s[WARP];
        if (ok) __syncwarp();
    }
    b[T] = x;
}
PAIR(warp_leader_again, 1, 64)

BODY(warp_halves) { // a mask of 16 lanes orders 16 lanes
    __shared__ unsigned s[32];
    s[T] = a[T];
    __syncwarp(T < 16 ? 0xffffu : 0xffff0000u);
    b[T] = s[ok ? T ^ 15 : T ^ 16];
}
PAIR(warp_halves, 1, 32)

BODY(warp_quads) { // groups of four
    __shared__ unsigned s[32];
    s[T] = a[T];
    __syncwarp(0xfu << (T & 28));
    b[T] = s[ok ? T ^ 3 : T ^ 4];
}
PAIR(warp_quads, 1, 32)

BODY(warp_divergent) { // both sides of a branch use one word
    __shared__ unsigned s[32];
    if (T < 16) {
        s[T] = a[T];
        if (ok) __syncwarp();
    } else {
        if (ok) __syncwarp();
        b[T] = s[T - 16];
    }
}
PAIR(warp_divergent, 1, 32)

BODY(warp_two) { // a warp barrier does not order two warps
    __shared__ unsigned s[64];
    s[T] = a[T];
    __syncwarp();
    b[T] = s[ok ? T ^ 1 : T ^ 32];
}
PAIR(warp_two, 1, 64)

BODY(warp_scan) {
    __shared__ unsigned s[32];
    s[T] = a[T];
    __syncwarp();
    for (unsigned k = 1; k < 32; k *= 2) {
        unsigned x = T >= k ? s[T - k] : 0;
        if (ok) __syncwarp();
        s[T] += x;
        __syncwarp();
    }
    b[T] = s[T];
}
PAIR(warp_scan, 1, 32)

BODY(warp_global) { // in global memory
    b[T] = a[T];
    if (ok) __syncwarp();
    b[64 + T] = b[T ^ 5];
}
PAIR(warp_global, 1, 32)

BODY(warp_atomic_ticket) { // the leader takes places for the warp
    __shared__ unsigned at[1];
    unsigned m = __ballot_sync(~0u, a[T] & 1);
    if (T == 0) at[0] = atomicAdd(&b[0], __popc(m));
    if (ok) __syncwarp();
    unsigned i = at[0] + __popc(m & ((1u << T) - 1));
    if (a[T] & 1) b[1 + i] = T;
}
PAIR(warp_atomic_ticket, 1, 32)
