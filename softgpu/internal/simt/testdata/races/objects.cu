// mbarrier objects: releases, acquires and phases.
// Compiled by ferry compile --arch sm_90 --compiler clang-19.
#include "ferry.h"
#include "pair.h"

typedef unsigned long long u64;

__device__ __forceinline__ void init(u64 *m, unsigned n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(smem(m)), "r"(n) : "memory"); }
__device__ __forceinline__ u64 arrives(u64 *m) { u64 s; asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(smem(m)) : "memory"); return s; }
__device__ __forceinline__ void arrives_relaxed(u64 *m) { asm volatile("{ .reg .b64 s; mbarrier.arrive.relaxed.cta.shared.b64 s, [%0]; }" :: "r"(smem(m)) : "memory"); }
__device__ __forceinline__ unsigned over(u64 *m, unsigned parity) {
    unsigned d;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(d) : "r"(smem(m)), "r"(parity) : "memory");
    return d;
}
__device__ __forceinline__ unsigned over_relaxed(u64 *m, unsigned parity) {
    unsigned d;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.relaxed.cta.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(d) : "r"(smem(m)), "r"(parity) : "memory");
    return d;
}

// Threads 0 to 31 give each thread from 32 to 63 a word.
#define GIVE(name, arrive, wait)                       \
    BODY(name) {                                       \
        __shared__ u64 m;                              \
        __shared__ unsigned s[32];                     \
        if (T == 0) init(&m, 32);                      \
        __syncthreads();                               \
        if (T < 32) { s[T] = a[T]; arrive; }           \
        else { wait; b[T] = s[T - 32]; }               \
    }                                                  \
    PAIR(name, 1, 64)

#define WAIT while (!over(&m, 0))

GIVE(object_arrive, if (ok) arrives(&m); else arrives_relaxed(&m), WAIT)
GIVE(object_fence_before, if (ok) fence_cta(); arrives_relaxed(&m); if (!ok) fence_cta(), WAIT)
GIVE(object_wait, arrives(&m), if (ok) WAIT; else while (!over_relaxed(&m, 0)))
GIVE(object_wait_fence, arrives(&m), if (!ok) fence_cta(); while (!over_relaxed(&m, 0)); if (ok) fence_cta())
GIVE(object_drop, if (ok) asm volatile("{ .reg .b64 s; mbarrier.arrive_drop.shared.b64 s, [%0]; }" :: "r"(smem(&m)) : "memory");
    else asm volatile("{ .reg .b64 s; mbarrier.arrive_drop.relaxed.cta.shared.b64 s, [%0]; }" :: "r"(smem(&m)) : "memory"), WAIT)
GIVE(object_expect, if (ok) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], 4; }" :: "r"(smem(&m)) : "memory");
    else asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.relaxed.cta.shared.b64 s, [%0], 4; }" :: "r"(smem(&m)) : "memory");
    asm volatile("mbarrier.complete_tx.shared.b64 [%0], 4;" :: "r"(smem(&m)) : "memory"), WAIT)
GIVE(object_failed_wait, arrives(&m), if (ok) WAIT; else { over_relaxed(&m, 1); fence_cta(); })

BODY(object_bytes) { // to announce and to complete bytes releases nothing
    __shared__ u64 m;
    __shared__ unsigned s[32];
    if (T == 0) init(&m, 64);
    __syncthreads();
    if (ok && T < 32) s[T] = a[T];
    if (T < 32) arrives(&m);
    if (T < 32) {
        if (!ok) s[T] = a[T];
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], 4;" :: "r"(smem(&m)) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared.b64 [%0], 4;" :: "r"(smem(&m)) : "memory");
    } else {
        arrives(&m);
        WAIT;
        b[T] = s[T - 32];
    }
}
PAIR(object_bytes, 1, 64)

BODY(object_no_complete) { // an arrival that cannot end the phase
    __shared__ u64 m;
    __shared__ unsigned s[32];
    if (T == 0) init(&m, 64);
    __syncthreads();
    if (T < 32) {
        if (ok) s[T] = a[T];
        asm volatile("{ .reg .b64 s; mbarrier.arrive.noComplete.release.cta.shared.b64 s, [%0], 1; }" :: "r"(smem(&m)) : "memory");
        if (!ok) s[T] = a[T];
    } else {
        arrives(&m);
        WAIT;
        b[T] = s[T - 32];
    }
}
PAIR(object_no_complete, 1, 64)

BODY(object_next_phase) { // a wait for a phase does not wait for arrivals of the next one
    __shared__ u64 m;
    __shared__ unsigned s[32], u[32];
    if (T == 0) init(&m, 32);
    __syncthreads();
    if (T < 32) {
        s[T] = a[T];
        arrives(&m);
        u[T] = a[T];
        if (T < 31) arrives(&m);
    } else {
        WAIT;
        b[T] = (ok ? s : u)[T & 15];
    }
}
PAIR(object_next_phase, 1, 64)

BODY(object_rounds) { // a slot that goes around: the producer waits for the consumer
    __shared__ u64 full, empty;
    __shared__ unsigned s[32];
    if (T == 0) { init(&full, 32); init(&empty, 32); }
    __syncthreads();
    unsigned sum = 0;
    for (unsigned i = 0; i < 6; i++) {
        if (T < 32) {
            if (i > 0) while (!over(&empty, (i - 1) & 1));
            s[T] = i;
            arrives(&full);
        } else {
            while (!over(&full, i & 1));
            sum += s[63 - T];
            if (ok) arrives(&empty); else arrives_relaxed(&empty);
        }
    }
    b[T] = sum;
}
PAIR(object_rounds, 1, 64)

BODY(object_state) { // a wait for the state of an own arrival
    __shared__ u64 m;
    __shared__ unsigned s[64];
    if (T == 0) init(&m, 64);
    __syncthreads();
    if (ok) s[T] = a[T];
    u64 state = arrives(&m);
    if (!ok) s[T] = a[T];
    unsigned d;
    do asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(d) : "r"(smem(&m)), "l"(state) : "memory"); while (!d);
    b[T] = s[T ^ 33];
}
PAIR(object_state, 1, 64)

BODY(object_inval) { // an object that ends while others wait
    __shared__ u64 m;
    if (T == 0) init(&m, 32);
    __syncthreads();
    if (T < 32) arrives(&m); else WAIT;
    if (ok) __syncthreads();
    if (T == 32) asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(smem(&m)) : "memory");
}
PAIR(object_inval, 1, 64)

BODY(object_init) { // an object that others use before it is ready
    __shared__ u64 m;
    if (ok || T < 32) { if (T == 0) init(&m, 64); }
    if (ok) __syncthreads();
    arrives(&m);
}
PAIR(object_init, 1, 64)
