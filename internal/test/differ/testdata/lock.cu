// Locks, flags and barriers with threads that spin. A lane never waits for a lane
// of its own warp, so targets before sm_70 would also work.
#include "differ.h"

// One thread per block takes tickets. The guarded data is not atomic.
KERNEL lock_ticket(u32 *lock, u32 *guarded, u32 turns) {
    if (threadIdx.x) return;
    for (u32 i = 0; i < turns; i++) {
        u32 mine = atomicAdd(lock, 1u);
        while (((volatile u32 *)lock)[1] != mine) {}
        __threadfence();
        volatile u32 *g = guarded;
        g[0] = g[0] + 1;
        g[1] = g[1] + blockIdx.x + 1;
        __threadfence();
        ((volatile u32 *)lock)[1] = mine + 1;
    }
}

KERNEL lock_cas(u32 *lock, i64 *guarded, const i32 *in, u32 turns) {
    for (u32 i = 0; i < turns; i++) {
        for (bool done = false; !done;) {
            if (atomicCAS(lock, 0u, 1u) == 0) {
                __threadfence();
                *(volatile i64 *)guarded += in[thread()] * (i64)(i + 1);
                __threadfence();
                atomicExch(lock, 0u);
                done = true;
            }
        }
    }
}

KERNEL lock_backoff(u32 *lock, u32 *count) {
    if (threadIdx.x & 31) return;
    u32 wait = 8;
    while (atomicCAS(lock, 0u, 1u)) {
        __nanosleep(wait);
        if (wait < 256) wait *= 2;
    }
    __threadfence();
    (*(volatile u32 *)count)++;
    __threadfence();
    atomicExch(lock, 0u);
}

// One warp produces data and another one consumes it, through a ring with flags.
KERNEL lock_ring(const u32 *in, u32 *out, u32 n) {
    __shared__ volatile u32 ring[4], full[4];
    if (threadIdx.x < 4) full[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 i = 0; i < n; i++) {
            while (full[i % 4]) {}
            ring[i % 4] = in[i] * 3;
            __threadfence_block();
            full[i % 4] = 1;
        }
    } else if (threadIdx.x == 32) {
        u32 sum = 0;
        for (u32 i = 0; i < n; i++) {
            while (!full[i % 4]) {}
            __threadfence_block();
            sum = sum * 17 + ring[i % 4];
            out[i] = sum;
            full[i % 4] = 0;
        }
    }
}

// A barrier of the whole grid, used a few times.
KERNEL lock_grid(u32 *arrived, u32 *a, u32 *b, u32 rounds) {
    u32 n = gridDim.x * blockDim.x, i = thread();
    for (u32 r = 0; r < rounds; r++) {
        volatile u32 *from = r & 1 ? b : a, *to = r & 1 ? a : b;
        to[i] = from[(i + 1) % n] + from[(i + n - 1) % n] * 3;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicAdd(arrived, 1u);
            while (*(volatile u32 *)arrived < (r + 1) * gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
    }
}

// Acquire and release, from one block to the next.
KERNEL lock_relay(u32 *flag, u32 *data) {
    if (threadIdx.x) return;
    u32 v;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (v != blockIdx.x);
    data[blockIdx.x + 1] = data[blockIdx.x] * 5 + blockIdx.x;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" :: "l"(flag), "r"(v + 1) : "memory");
}
