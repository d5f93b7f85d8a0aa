// Races that one order of blocks or warps hides: a lock, a flag or a counter orders the two
// accesses if one side comes first, and not if the other does. The fixed order of the
// software GPU begins with the lowest block and warp, and hides each racy kernel here.
#include "../races/pair.h"

__device__ __forceinline__ void lock(unsigned *l) { while (atomicCAS(l, 0, 1)); __threadfence(); }
__device__ __forceinline__ void unlock(unsigned *l) { __threadfence(); atomicExch(l, 0); }

BODY(behind_lock) { // block 1 holds the lock, but adds when it has given it back
    if (T) return;
    lock(b);
    if (B == 0 || ok) b[8] += 3;
    unlock(b);
    if (B == 1 && !ok) b[8] += 3;
}
PAIR(behind_lock, 2, 32)

BODY(glance) { // block 1 looks at the flag once and reads the message, whether it is there or not
    if (T) return;
    if (B == 0) {
        b[8] = 42;
        __threadfence();
        relax_gpu(b, 1);
    } else {
        unsigned there = relaxed_gpu(b);
        __threadfence();
        if (there || !ok) b[9] = b[8];
    }
}
PAIR(glance, 2, 32)

BODY(versions) { // a sequence lock whose data are plain: a reader may read while they are written
    if (T & 31) return;
    bool writer = B == 0 && T == 0;
    if (writer) {
        for (unsigned i = 1; i <= 20; i++) {
            relax_gpu(b, 2 * i - 1);
            __threadfence();
            if (ok) relax_gpu(b + 8, i); else b[8] = i;
            __threadfence();
            relax_gpu(b, 2 * i);
        }
        return;
    }
    unsigned before, after, sum = 0;
    do {
        before = relaxed_gpu(b);
        __threadfence();
        sum += ok ? relaxed_gpu(b + 8) : b[8];
        __threadfence();
        after = relaxed_gpu(b);
    } while (before != after || after < 40);
    b[16 + B] = sum;
}
PAIR(versions, 2, 32)
PAIR(versions, 1, 64)

BODY(warps_lock) { // the same as behind_lock with the warps of a block and shared memory
    __shared__ unsigned l, sum;
    if (T == 0) l = sum = 0;
    __syncthreads();
    if (LANE == 0) {
        lock(&l);
        if (WARP != 1 || ok) sum += 3;
        unlock(&l);
        if (WARP == 1 && !ok) sum += 3; // comes last in the fixed order
    }
    __syncthreads();
    if (T == 0) b[B] = sum;
}
PAIR(warps_lock, 1, 96)

BODY(counted_first) { // block 3 counts itself as done and then writes; the last block to come reads all
    if (T) return;
    if (B != 3 || ok) b[16 + B] = B;
    __threadfence();
    bool last = atomicAdd(b, 1) == 3;
    if (B == 3 && !ok) b[16 + B] = B;
    __threadfence();
    if (last) b[1] = b[16] + b[17] + b[18] + b[19];
}
PAIR(counted_first, 4, 32)

BODY(early_worker) { // workers take numbers; the first number is filled in by whom block 0 is
    if (T) return;
    unsigned mine = atomicAdd(b, 1);
    __threadfence();
    if (ok) {
        b[16 + mine] = B;
        return;
    }
    if (mine == 0) b[8] = B + 1;           // whoever comes first writes
    __threadfence();
    if (B == 0) atomicExch(b + 1, 1);      // but only block 0 says that it is done
    else {
        while (relaxed_gpu(b + 1) == 0);
        __threadfence();
        b[16 + B] = b[8];
    }
}
PAIR(early_worker, 3, 32)
