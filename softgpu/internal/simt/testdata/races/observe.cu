// Observation: what is behind a thread's own strong read comes after the strong write that it found.
// Compiled by ferry compile --arch sm_90 --compiler clang-19.
#include "ferry.h"
#include "pair.h"

#define V(p) (*(volatile unsigned *)(p))

BODY(observe_last_resets) { // the last block of a counter resets it
    if (T != 0) return;
    unsigned t = atomicAdd(b, 1u);
    if (t == (ok ? gridDim.x - 1 : 1)) b[0] = 0;
}
PAIR(observe_last_resets, 4, 32)

BODY(observe_last_reads) { // and one that reads the counter
    if (T != 0) return;
    unsigned t = atomicAdd(b, 1u);
    if (t == (ok ? gridDim.x - 1 : 0)) b[1] = b[0];
}
PAIR(observe_last_reads, 3, 32)

BODY(observe_shared_counter) { // within a block
    __shared__ unsigned count;
    if (T == 0) count = 0;
    __syncthreads();
    unsigned t = atomicAdd(&count, 1u);
    if (t == (ok ? 95 : 40)) count = 7;
}
PAIR(observe_shared_counter, 1, 96)

BODY(observe_flag) { // a flag that is reset by the thread that waits for it
    if (T != 0) return;
    if (B == 0) V(b) = 1;
    if (B == 1) {
        if (ok) while (V(b) == 0);
        else b[1] = V(b); // whatever it is, the reset follows
        b[0] = 0;
    }
}
PAIR(observe_flag, 2, 32)

BODY(observe_blind_add) { // an addition whose result nobody looks at
    if (T != 0) return;
    unsigned t = atomicAdd(b, 1u);
    if (B == 1 && (!ok || t == 1)) b[1] = b[0];
}
PAIR(observe_blind_add, 2, 32)

BODY(observe_other_read) { // the other thread reads the word by strong reads as well
    if (T != 0) return;
    if (B == 0) {
        V(b) = 1;
        while (V(b + (ok ? 8 : 0)) == 1 && V(b + 9) == 0);
    }
    if (B == 1) {
        while (V(b) == 0);
        b[0] = 0;
        V(b + 9) = 1;
    }
}
PAIR(observe_other_read, 2, 32)

BODY(observe_for_neighbour) { // one thread observes, one behind a barrier resets
    if (B == 0 && T == 0) V(b) = 1;
    if (B == 1) {
        if (T == 0) while (V(b) == 0);
        if (ok) __syncthreads();
        if (T == 40) b[0] = 0;
    }
}
PAIR(observe_for_neighbour, 2, 64)

// finds waits for a value, but not for ever: in some orders of the blocks it is overwritten first.
__device__ __forceinline__ bool finds(unsigned *p, unsigned value) {
    for (int i = 0; i < 1000; i++)
        if (V(p) == value) return true;
    return false;
}

BODY(observe_chain) { // an addition goes on with what others wrote, a store does not
    if (T != 0) return;
    if (B == 0) V(b) = 1;
    if (B == 1) {
        while (V(b + 8) != 0);
        if (ok) atomicAdd(b, 1u); else V(b) = 2;
    }
    if (B == 2 && finds(b, 2)) b[0] = 0;
}
PAIR(observe_chain, 3, 32)

BODY(observe_known_store) { // a store by a thread that has looked goes on, too
    if (T != 0) return;
    if (B == 0) V(b) = 1;
    if (B == 1) {
        if (ok) while (V(b) != 1);
        V(b) = 2;
    }
    if (B == 2 && finds(b, 2)) b[0] = 0;
}
PAIR(observe_known_store, 3, 32)

BODY(observe_plain_before) { // the plain write before the strong one is not observed
    if (T != 0) return;
    if (B == 0) {
        if (!ok) store(b, 5);
        V(b) = 1;
    }
    if (B == 1) {
        while (V(b) != 1);
        b[0] = 0;
    }
}
PAIR(observe_plain_before, 2, 32)

BODY(observe_other_word) { // nor is what was written to another word
    if (T != 0) return;
    if (B == 0) {
        V(b + 1) = 9;
        V(b) = 1;
    }
    if (B == 1) {
        while (V(b) != 1);
        b[ok ? 0 : 1] = 0;
    }
}
PAIR(observe_other_word, 2, 32)

BODY(observe_bytes) { // each byte of a word has its own flag
    volatile unsigned char *f = (unsigned char *)b;
    if (T != 0) return;
    if (B < 4) f[B] = 1;
    if (B == 4) {
        while (f[2] == 0);
        ((unsigned char *)b)[ok ? 2 : 1] = 0;
    }
}
PAIR(observe_bytes, 5, 32)

BODY(observe_wide) { // a counter of 64 bits
    if (T != 0) return;
    unsigned long long t = atomicAdd((unsigned long long *)b, 1ull);
    if (t == (ok ? gridDim.x - 1 : 1)) b[1] = 0;
}
PAIR(observe_wide, 4, 32)

BODY(observe_taken) { // compare and swap, until it has taken what another thread gave
    if (T != 0) return;
    if (B == 0) atomicExch(b, 1u);
    if (B == 1) {
        if (ok) while (atomicCAS(b, 1u, 2u) != 1u);
        else atomicCAS(b, 1u, 2u);
        b[0] = 0;
    }
}
PAIR(observe_taken, 2, 32)

BODY(observe_many) { // each of many blocks adds twice, and the last one resets
    if (T >= 8) return;
    atomicAdd(b, 1u);
    unsigned t = atomicAdd(b, 1u);
    if (t == (ok ? 16 * gridDim.x - 1 : 8 * gridDim.x + 8)) b[0] = 0;
}
PAIR(observe_many, 24, 32)

BODY(observe_scope) { // a strong write of the block is not observed by another block
    if (T != 0) return;
    if (B == 0) {
        if (ok) relax_gpu(b, 1);
        else asm volatile("st.relaxed.cta.u32 [%0], 1;" :: "l"(b) : "memory");
    }
    if (B == 1) {
        while (relaxed_gpu(b) == 0);
        b[0] = 0;
    }
}
PAIR(observe_scope, 2, 32)

BODY(observe_through_shared) { // a ticket that another thread looks at
    __shared__ unsigned ticket;
    if (T == 0) ticket = atomicAdd(b, 1u);
    __syncthreads();
    if (T == 33 && ticket == (ok ? gridDim.x - 1 : 2)) b[0] = 0;
}
PAIR(observe_through_shared, 4, 64)
