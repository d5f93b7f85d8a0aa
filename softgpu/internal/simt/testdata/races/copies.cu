// cp.async: copies that are not over when the instruction is.
// Compiled by ferry compile --arch sm_90 --compiler clang-19.
#include "ferry.h"
#include "pair.h"

typedef unsigned long long u64;

__device__ __forceinline__ void copy(unsigned *to, unsigned *from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(smem(to)), "l"(from) : "memory"); }
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
template <int n> __device__ __forceinline__ void wait_group() { asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory"); }
__device__ __forceinline__ void init(u64 *m, unsigned n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(smem(m)), "r"(n) : "memory"); }
__device__ __forceinline__ void arrives(u64 *m) { asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(smem(m)) : "memory"); }
__device__ __forceinline__ void copies_arrive(u64 *m) { asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(smem(m)) : "memory"); }
__device__ __forceinline__ void copies_arrive_noinc(u64 *m) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(smem(m)) : "memory"); }
__device__ __forceinline__ void await(u64 *m, unsigned parity) {
    unsigned d;
    do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(d) : "r"(smem(m)), "r"(parity) : "memory"); while (!d);
}

#define SHARED(n) __shared__ __attribute__((aligned(16))) unsigned s[n]

BODY(copy_own) { // the thread itself reads too early
    SHARED(32);
    copy(s + T, a + T);
    commit();
    if (ok) wait_group<0>();
    b[T] = s[T];
}
PAIR(copy_own, 1, 32)

BODY(copy_last_group) { // one group may still be under way
    SHARED(64);
    copy(s + T, a + T);
    commit();
    copy(s + T + 32, a + T + 32);
    commit();
    wait_group<1>();
    __syncthreads();
    b[T] = s[(ok ? 0 : 32) + (T ^ 3)];
}
PAIR(copy_last_group, 1, 32)

BODY(copy_wait_behind_barrier) { // the barrier must come behind the wait
    SHARED(64);
    copy(s + T, a + T);
    if (ok) wait_all();
    __syncthreads();
    if (!ok) wait_all();
    b[T] = s[T ^ 32];
}
PAIR(copy_wait_behind_barrier, 1, 64)

BODY(copy_source) { // the source changes too early
    SHARED(64);
    copy(s + T, a + T);
    if (!ok) a[T] = 5;
    wait_all();
    if (ok) a[T] = 5;
    b[T] = s[T];
}
PAIR(copy_source, 1, 64)

BODY(copy_source_by_other) { // by another block
    SHARED(32);
    if (B == 0) copy(s + T, a + T);
    if (B == 1) a[T + (ok ? 32 : 0)] = 5;
    wait_all();
}
PAIR(copy_source_by_other, 2, 32)

BODY(copy_not_committed) { // a copy that is in no group
    SHARED(32);
    copy(s + T, a + T);
    if (ok) commit();
    wait_group<0>();
    b[T] = s[T];
}
PAIR(copy_not_committed, 1, 32)

BODY(copy_twice) { // two copies have no order
    SHARED(32);
    copy(s + T, a + T);
    if (ok) wait_all();
    copy(s + T, a + T + 32);
    wait_all();
    b[T] = s[T];
}
PAIR(copy_twice, 1, 32)

BODY(copy_overwritten) { // a store to what the copy writes
    SHARED(32);
    copy(s + T, a + T);
    if (ok) wait_all();
    s[T] = 7;
    wait_all();
    b[T] = s[T];
}
PAIR(copy_overwritten, 1, 32)

BODY(copy_lanes) { // the wait of one lane is not that of another
    SHARED(32);
    copy(s + T, a + T);
    wait_all();
    if (ok) __syncwarp();
    b[T] = s[T ^ 1];
}
PAIR(copy_lanes, 1, 32)

BODY(copy_read_before) { // the destination is still being read when the copy begins
    SHARED(64);
    s[T] = T;
    __syncthreads();
    unsigned x = s[T ^ 32];
    if (ok) __syncthreads();
    copy(s + T, a + T);
    wait_all();
    b[T] = s[T] + x;
}
PAIR(copy_read_before, 1, 64)

BODY(copy_pipeline) { // two slots, the next copy runs beside the work on this one
    SHARED(128);
    unsigned sum = 0;
    copy(s + T, a + T);
    commit();
    for (unsigned i = 0; i < 6; i++) {
        copy(s + (i + 1) % 2 * 64 + T, a + (i + 1) * 64 + T);
        commit();
        wait_group<1>();
        __syncthreads();
        sum += s[i % 2 * 64 + (T ^ 63)];
        if (ok) __syncthreads();
    }
    wait_all();
    b[T] = sum;
}
PAIR(copy_pipeline, 1, 64)

BODY(copy_nothing) { // a copy of no bytes does not read its source, but writes
    SHARED(32);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(smem(s + T)), "l"(a + T), "r"(ok ? 0 : 4) : "memory");
    a[T] = 5;
    wait_all();
    b[T] = s[T];
}
PAIR(copy_nothing, 1, 32)

BODY(copy_zeros) { // which must be waited for
    SHARED(32);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(smem(s + T)), "l"(a + T), "r"(0) : "memory");
    if (ok) wait_all();
    b[T] = s[T];
}
PAIR(copy_zeros, 1, 32)

BODY(copy_wide) { // 16 bytes
    SHARED(128);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem(s + 4 * T)), "l"(a + 4 * T) : "memory");
    if (ok) wait_all();
    __syncthreads();
    b[T] = s[127 - T];
}
PAIR(copy_wide, 1, 32)

// Threads 0 to 31 copy, the others read.
#define GIVE(name, count, arrive, wait, read)                   \
    BODY(name) {                                                \
        SHARED(64);                                             \
        __shared__ u64 m;                                       \
        if (T == 0) init(&m, count);                            \
        __syncthreads();                                        \
        if (T < 32) { copy(s + T, a + T); arrive; }             \
        else { wait; b[T] = read; }                             \
    }                                                           \
    PAIR(name, 1, 96)

GIVE(copy_object, 32, copies_arrive_noinc(&m), if (ok) await(&m, 0), s[63 - T & 31])
GIVE(copy_object_counted, 32, if (ok) copies_arrive(&m); arrives(&m), await(&m, 0), s[T & 31])
GIVE(copy_object_alone, 32, if (!ok) s[32 + T] = T; copies_arrive_noinc(&m), await(&m, 0), (ok ? s : s + 32)[T & 31])
GIVE(copy_object_too_late, 32, if (ok) copies_arrive_noinc(&m); else { arrives(&m); copies_arrive(&m); }, await(&m, 0), s[T & 31])

BODY(copy_object_own) { // an arrival of the copies is no wait of their thread
    SHARED(32);
    __shared__ u64 m;
    if (T == 0) init(&m, 32);
    __syncthreads();
    copy(s + T, a + T);
    copies_arrive_noinc(&m);
    if (ok) await(&m, 0);
    b[T] = s[T];
}
PAIR(copy_object_own, 1, 32)

BODY(copy_object_rounds) { // a slot that goes around between two warps
    SHARED(32);
    __shared__ u64 full, empty;
    if (T == 0) { init(&full, 32); init(&empty, 32); }
    __syncthreads();
    unsigned sum = 0;
    for (unsigned i = 0; i < 6; i++) {
        if (T < 32) {
            if (i > 0) await(&empty, (i - 1) & 1);
            copy(s + T, a + 32 * i + T);
            copies_arrive_noinc(&full);
        } else {
            await(&full, i & 1);
            if (!ok) arrives(&empty);
            sum += s[63 - T];
            if (ok) arrives(&empty);
        }
    }
    b[T] = sum;
}
PAIR(copy_object_rounds, 1, 64)
