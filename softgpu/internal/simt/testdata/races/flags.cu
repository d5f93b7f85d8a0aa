// Flags, fences, locks, named barriers and barriers of the grid.
#include "pair.h"

BODY(flag_no_fence) { // data and then a flag
    if (B == 0 && T == 0) {
        store(b, 42);
        if (ok) fence_gpu();
        relax_gpu(b + 1, 1);
    }
    if (B == 1 && T == 0) {
        while (relaxed_gpu(b + 1) == 0);
        fence_gpu();
        b[2] = load(b);
    }
}
PAIR(flag_no_fence, 2, 32)

BODY(flag_no_acquire) { // the reader needs a fence, too
    if (B == 0 && T == 0) {
        store(b, 42);
        fence_gpu();
        relax_gpu(b + 1, 1);
    }
    if (B == 1 && T == 0) {
        while (relaxed_gpu(b + 1) == 0);
        if (ok) fence_gpu();
        b[2] = load(b);
    }
}
PAIR(flag_no_acquire, 2, 32)

BODY(flag_volatile) { // volatile orders nothing
    if (B == 0 && T == 0) {
        store(b, 42);
        if (ok) __threadfence();
        *(volatile unsigned *)(b + 1) = 1;
    }
    if (B == 1 && T == 0) {
        while (*(volatile unsigned *)(b + 1) == 0);
        __threadfence();
        b[2] = load(b);
    }
}
PAIR(flag_volatile, 2, 32)

BODY(flag_release) { // release and acquire, or relaxed
    if (B == 0 && T == 0) {
        store(b, 42);
        if (ok) release_gpu(b + 1, 1); else relax_gpu(b + 1, 1);
    }
    if (B == 1 && T == 0) {
        while (acquire_gpu(b + 1) == 0);
        b[2] = load(b);
    }
}
PAIR(flag_release, 2, 32)

BODY(flag_acquire) { // the other side
    if (B == 0 && T == 0) {
        store(b, 42);
        release_gpu(b + 1, 1);
    }
    if (B == 1 && T == 0) {
        while ((ok ? acquire_gpu(b + 1) : relaxed_gpu(b + 1)) == 0);
        b[2] = load(b);
    }
}
PAIR(flag_acquire, 2, 32)

BODY(flag_scope) { // a fence of the block is not enough between blocks
    if (B == 0 && T == 0) {
        store(b, 42);
        if (ok) __threadfence(); else __threadfence_block();
        relax_gpu(b + 1, 1);
    }
    if (B == 1 && T == 0) {
        while (relaxed_gpu(b + 1) == 0);
        __threadfence();
        b[2] = load(b);
    }
}
PAIR(flag_scope, 2, 32)

BODY(flag_block_fence) { // it is enough in a block
    if (T == 0) {
        store(b + B, 42);
        if (ok) __threadfence_block();
        *(volatile unsigned *)(b + 8 + B) = 1;
    }
    if (T == 32) {
        while (*(volatile unsigned *)(b + 8 + B) == 0);
        __threadfence_block();
        b[16 + B] = load(b + B);
    }
}
PAIR(flag_block_fence, 2, 64)

BODY(flag_cta_release) { // release and acquire of the block
    if (T == 0) {
        store(b + B, 42);
        release_cta(b + 8 + B, 1);
    }
    if (T == 32) {
        while (acquire_cta(b + 8 + (ok ? B : B)) == 0);
        b[16 + B] = load(b + B);
    }
    if (!ok && T == 33) b[32 + B] = load(b + B);
}
PAIR(flag_cta_release, 2, 64)

BODY(flag_early) { // the flag before the data
    if (B == 0 && T == 0) {
        if (!ok) { release_gpu(b + 1, 1); store(b, 42); }
        else { store(b, 42); release_gpu(b + 1, 1); }
    }
    if (B == 1 && T == 0) {
        while (acquire_gpu(b + 1) == 0);
        b[2] = load(b);
    }
}
PAIR(flag_early, 2, 32)

BODY(flag_too_late) { // data after the release is not covered
    if (B == 0 && T == 0) {
        store(b, 42);
        release_gpu(b + 1, 1);
        if (!ok) store(b + 3, 7);
    }
    if (B == 1 && T == 0) {
        while (acquire_gpu(b + 1) == 0);
        b[2] = load(b) + load(b + 3);
    }
}
PAIR(flag_too_late, 2, 32)

BODY(flag_block_writes) { // all threads write, one sets the flag
    if (B == 0) {
        b[T] = T;
        if (ok) __syncthreads();
        if (T == 0) release_gpu(b + 100, 1);
    } else {
        if (T == 0) while (acquire_gpu(b + 100) == 0);
        __syncthreads();
        b[200 + T] = b[T];
    }
}
PAIR(flag_block_writes, 2, 64)

BODY(flag_block_reads) { // one waits, all read
    if (B == 0) {
        b[T] = T;
        __threadfence();
        __syncthreads();
        if (T == 0) *(volatile unsigned *)(b + 100) = 1;
    } else {
        if (T == 0) { while (*(volatile unsigned *)(b + 100) == 0); __threadfence(); }
        if (ok) __syncthreads();
        b[200 + T] = b[T];
    }
}
PAIR(flag_block_reads, 2, 64)

BODY(flag_chain) { // by way of a third block
    if (T != 0) return;
    if (B == 0) { store(b, 42); release_gpu(b + 1, 1); }
    if (B == 1) { while ((ok ? acquire_gpu(b + 1) : relaxed_gpu(b + 1)) == 0); release_gpu(b + 2, 1); }
    if (B == 2) { while (acquire_gpu(b + 2) == 0); b[3] = load(b); }
}
PAIR(flag_chain, 3, 32)

BODY(flag_updates) { // atomics continue what the first has released
    if (T != 0) return;
    if (B == 0) { store(b, 42); if (ok) __threadfence(); atomicAdd(b + 1, 1); }
    if (B == 1) { while (atomicAdd(b + 1, 0) == 0); atomicAdd(b + 1, 1); }
    if (B == 2) { while (atomicAdd(b + 1, 0) < 2); __threadfence(); b[3] = load(b); }
}
PAIR(flag_updates, 3, 32)

BODY(last_block) { // the last block adds the results of all
    __shared__ bool last;
    if (T == 0) {
        b[1 + B] = a[B] + 1;
        if (ok) __threadfence();
        last = atomicAdd(b, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (last && T < gridDim.x) atomicAdd(b + 100, b[1 + T]);
}
PAIR(last_block, 4, 32)

BODY(last_block_fence_by_all) { // every thread writes and fences before the barrier
    __shared__ bool last;
    b[16 + B * 32 + T] = a[T];
    if (ok) __threadfence();
    __syncthreads();
    if (T == 0) last = atomicAdd(b, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    unsigned sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++) sum += b[16 + i * 32 + T];
    b[1024 + T] = sum;
}
PAIR(last_block_fence_by_all, 4, 32)

BODY(grid_sync) { // a barrier of all blocks
    b[64 + B * 32 + T] = a[T];
    __syncthreads();
    if (T == 0) {
        if (ok) __threadfence();
        atomicAdd(b, 1);
        while (*(volatile unsigned *)b < gridDim.x);
        __threadfence();
    }
    __syncthreads();
    b[1024 + B * 32 + T] = b[64 + ((B + 1) % gridDim.x) * 32 + T];
}
PAIR(grid_sync, 4, 32)

BODY(grid_sync_twice) { // two rounds, in place
    for (unsigned round = 1; round <= 3; round++) {
        unsigned x = b[64 + ((B + 1) % gridDim.x) * 32 + T];
        for (unsigned half = 0; half < 2; half++) {
            if (half == 1) b[64 + B * 32 + T] = x + 1;
            if (!ok && half == 0) continue;
            __syncthreads();
            if (T == 0) {
                __threadfence();
                atomicAdd(b, 1);
                while (*(volatile unsigned *)b < gridDim.x * (ok ? 2 * (round - 1) + half + 1 : round));
                __threadfence();
            }
            __syncthreads();
        }
    }
}
PAIR(grid_sync_twice, 3, 32)

BODY(grid_sync_no_barrier) { // the other threads do not wait for thread 0
    b[64 + B * 32 + T] = a[T];
    __syncthreads();
    if (T == 0) {
        __threadfence();
        atomicAdd(b, 1);
        while (*(volatile unsigned *)b < gridDim.x);
        __threadfence();
    }
    if (ok) __syncthreads();
    b[1024 + B * 32 + T] = b[64 + ((B + 1) % gridDim.x) * 32 + T];
}
PAIR(grid_sync_no_barrier, 4, 32)

BODY(spin_lock) {
    if (T != 0) return;
    while (atomicCAS(b, 0, 1) != 0);
    if (ok) __threadfence();
    store(b + 1, load(b + 1) + 1);
    if (ok) __threadfence();
    atomicExch(b, 0);
}
PAIR(spin_lock, 4, 32)

BODY(spin_lock_no_acquire) {
    if (T != 0) return;
    while (atomicCAS(b, 0, 1) != 0);
    if (ok) __threadfence();
    store(b + 1, load(b + 1) + 1);
    __threadfence();
    atomicExch(b, 0);
}
PAIR(spin_lock_no_acquire, 4, 32)

BODY(spin_lock_lanes) { // all lanes of a warp take it, one after the other
    bool done = false;
    while (!done) {
        if (atomicCAS(b, 0, 1) == 0) {
            __threadfence();
            store(b + 1, load(b + 1) + 1);
            if (ok) __threadfence();
            atomicExch(b, 0);
            done = true;
        }
    }
}
PAIR(spin_lock_lanes, 2, 32)

BODY(spin_lock_plain_unlock) { // the lock is opened by a plain store
    if (T != 0) return;
    while (atomicCAS(b, 0, 1) != 0);
    __threadfence();
    store(b + 1, load(b + 1) + 1);
    __threadfence();
    if (ok) atomicExch(b, 0); else store(b, 0);
}
PAIR(spin_lock_plain_unlock, 4, 32)

BODY(spin_lock_two) { // two locks for one word
    if (T != 0) return;
    unsigned *lock = b + (ok ? 0 : B & 1);
    while (atomicCAS(lock, 0, 1) != 0);
    __threadfence();
    store(b + 8, load(b + 8) + 1);
    __threadfence();
    atomicExch(lock, 0);
}
PAIR(spin_lock_two, 4, 32)

BODY(lock_acquire_release) { // atom.acquire and atom.release
    if (T != 0) return;
    unsigned old;
    do {
        if (ok) asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(b) : "memory");
        else asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(b) : "memory");
    } while (old != 0);
    store(b + 1, load(b + 1) + 1);
    asm volatile("atom.release.gpu.global.exch.b32 %0, [%1], 0;" : "=r"(old) : "l"(b) : "memory");
}
PAIR(lock_acquire_release, 4, 32)

BODY(ticket_lock) {
    if (T != 0) return;
    unsigned mine = atomicAdd(b, 1);
    while (*(volatile unsigned *)(b + 1) != mine);
    __threadfence();
    store(b + 2, load(b + 2) + 1);
    if (ok) __threadfence();
    *(volatile unsigned *)(b + 1) = mine + 1;
}
PAIR(ticket_lock, 4, 32)

BODY(shared_lock) { // a lock in shared memory
    __shared__ unsigned lock, x;
    if (T == 0) lock = x = 0;
    __syncthreads();
    if (LANE == 0) {
        while (atomicCAS(&lock, 0, 1) != 0);
        __threadfence_block();
        store(&x, load(&x) + 1);
        if (ok) __threadfence_block();
        atomicExch(&lock, 0);
    }
    __syncthreads();
    b[T] = x;
}
PAIR(shared_lock, 1, 128)

BODY(named_pair) { // producers arrive, consumers wait
    __shared__ unsigned s[32];
    if (WARP == 0) { s[LANE] = a[T]; arrive(1, 64); }
    else { bar(ok ? 1 : 2, ok ? 64 : 32); b[T] = s[31 - LANE]; }
}
PAIR(named_pair, 1, 64)

BODY(named_ring) { // producer and consumer with two barriers
    __shared__ unsigned s[32];
    for (unsigned i = 0; i < 3; i++) {
        if (WARP == 0) {
            if (i > 0) bar(2, 64);
            s[LANE] = a[i * 32 + LANE];
            arrive(1, 64);
        } else {
            bar(1, 64);
            if (i < 2 && !ok) arrive(2, 64);
            b[i * 32 + LANE] = s[31 - LANE];
            if (i < 2 && ok) arrive(2, 64);
        }
    }
}
PAIR(named_ring, 1, 64)

BODY(named_groups) { // two groups of two warps
    __shared__ unsigned s[128];
    s[T] = a[T];
    bar(1 + T / 64, 64);
    b[T] = s[ok ? T ^ 32 : T ^ 64];
}
PAIR(named_groups, 1, 128)

BODY(arrive_is_no_wait) { // who only arrives is not ordered
    __shared__ unsigned s[64];
    s[T] = a[T];
    if (WARP == 0 && !ok) arrive(1, 64); else bar(1, 64);
    b[T] = s[T ^ 32];
}
PAIR(arrive_is_no_wait, 1, 64)

BODY(barrier_or) { // __syncthreads_or is a barrier, __any_sync is none
    __shared__ unsigned s[64];
    s[T] = a[T];
    unsigned x = ok ? __syncthreads_or(T == 3) : __any_sync(~0u, T == 3);
    b[T] = s[T ^ 32] + x;
}
PAIR(barrier_or, 1, 64)

BODY(mbarrier) { // arrive and wait of an mbarrier
    __shared__ unsigned s[64];
    __shared__ unsigned long long m;
    if (T == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(smem(&m)) : "memory");
    __syncthreads();
    s[T] = a[T];
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(smem(&m)) : "memory");
    if (ok) {
        unsigned done = 0;
        while (!done) asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(smem(&m)), "l"(state) : "memory");
    }
    b[T] = s[T ^ 33];
}
PAIR(mbarrier, 1, 64)

BODY(mbarrier_init) { // no barrier after init
    __shared__ unsigned long long m;
    if (T == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(smem(&m)) : "memory");
    if (ok) __syncthreads(); 
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(smem(&m)) : "memory");
    b[T] = T;
}
PAIR(mbarrier_init, 1, 64)

BODY(async_copy) { // cp.async and a barrier
    __shared__ unsigned s[64];
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(smem(s + T)), "l"(a + T) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (ok) __syncthreads();
    b[T] = s[63 - T];
}
PAIR(async_copy, 1, 64)

BODY(uninitialized) { // a word that nobody writes
    __shared__ unsigned s[65];
    s[T] = a[T];
    __syncthreads();
    b[T] = s[ok ? T : T + 1];
}
PAIR(uninitialized, 1, 64)
