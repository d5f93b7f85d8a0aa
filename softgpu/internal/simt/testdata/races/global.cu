// Global memory: atomics, scopes, blocks that are not ordered.
#include "pair.h"

BODY(count) {
    if (ok) atomicAdd(b, 1); else b[0]++;
}
PAIR(count, 4, 32)

BODY(own_parts) { // each thread its own word, or the same for two blocks
    b[ok ? B * 64 + T : T] = a[T] + B;
}
PAIR(own_parts, 2, 64)

BODY(off_by_one) { // the last thread writes into the part of the next block
    for (unsigned i = T; i < (ok ? 64 : 65); i += 32) b[B * 64 + i] = B + 1;
}
PAIR(off_by_one, 3, 32)

BODY(in_place_shift) { // reads what a neighbour writes
    unsigned i = B * 64 + T, x = a[i + 1];
    if (ok) b[i] = x; else a[i] = x;
}
PAIR(in_place_shift, 2, 64)

BODY(block_results) { // block 0 reads what other blocks write
    if (T == 0) b[B] = a[B] + 7;
    if (!ok && B == 3 && T == 0) b[100] = b[0] + b[1];
}
PAIR(block_results, 4, 32)

BODY(barrier_is_not_grid) { // a barrier of the block orders no other block
    b[B * 64 + T] = a[T];
    __syncthreads();
    b[1000 + B * 64 + T] = b[(ok ? B : B ^ 1) * 64 + 63 - T];
}
PAIR(barrier_is_not_grid, 2, 64)

BODY(atomic_and_plain_write) {
    atomicAdd(b, 1);
    if (B == 1 && T == 0) { if (ok) atomicExch(b, 0); else b[0] = 0; }
}
PAIR(atomic_and_plain_write, 2, 32)

BODY(atomic_and_plain_read) {
    atomicMax(b, T);
    if (T == 5) b[1 + B] = ok ? atomicOr(b, 0) : b[0];
}
PAIR(atomic_and_plain_read, 2, 32)

BODY(atomic_scope) { // .cta does not include the other block
    if (ok) asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(b) : "memory");
    else asm volatile("red.relaxed.cta.global.add.u32 [%0], 1;" :: "l"(b) : "memory");
}
PAIR(atomic_scope, 2, 32)

BODY(atomic_block_scope) { // in one block .cta is enough
    unsigned *p = b + (ok ? B : 0);
    asm volatile("red.relaxed.cta.global.add.u32 [%0], 1;" :: "l"(p) : "memory");
}
PAIR(atomic_block_scope, 2, 32)

BODY(volatile_and_plain) { // a volatile read beside a plain write
    if (B == 0 && T == 0) { if (ok) *(volatile unsigned *)b = 1; else store(b, 1); }
    if (B == 1 && T == 0) b[1] = *(volatile unsigned *)b;
}
PAIR(volatile_and_plain, 2, 32)

BODY(max_by_hand) {
    unsigned x = a[B * 32 + T];
    if (ok) { atomicMax(b, x); return; }
    if (x > b[0]) b[0] = x;
}
PAIR(max_by_hand, 2, 32)

BODY(found_flag) { // everyone writes 1; or the place
    if (a[T] % 7 == 3) b[0] = ok ? 1 : T;
}
PAIR(found_flag, 2, 64)

BODY(histogram_global) {
    unsigned *h = b + (a[T] & 7);
    if (ok) atomicAdd(h, 1); else *h += 1;
}
PAIR(histogram_global, 2, 64)

BODY(cas_max) { // a loop of compare and swap
    unsigned x = a[T] + B * 64, old = ok ? atomicAdd(b, 0) : b[0];
    while (old < x) {
        unsigned seen = atomicCAS(b, old, x);
        if (seen == old) break;
        old = seen;
    }
}
PAIR(cas_max, 2, 32)

BODY(bytes_global) { // bytes of one word by two blocks
    ((unsigned char *)b)[ok ? 2 * T + B : T] = T + B;
}
PAIR(bytes_global, 2, 64)

BODY(byte_and_word) { // a word of one block, a byte in it of another
    if (B == 0) b[T] = T;
    else ((unsigned char *)b)[(ok ? 256 : 0) + 4 * T + 2] = 1;
}
PAIR(byte_and_word, 2, 64)

BODY(double_word) { // 8 bytes overlap with 4
    if (B == 0) ((unsigned long long *)b)[T] = T;
    else b[ok ? 128 + T : 2 * T + 1] = 99;
}
PAIR(double_word, 2, 64)

BODY(many_readers) { // a word that all threads read, and one writes
    unsigned x = b[0];
    b[100 + B * 64 + T] = x;
    if (B == 3 && T == 63) b[ok ? 1 : 0] = 9;
}
PAIR(many_readers, 4, 64)

BODY(first_reader) { // only the first of many readers is not ordered before the write
    __shared__ unsigned s[96];
    unsigned x = b[0];
    s[T] = x;
    if (ok) __syncthreads(); else if (T >= 32) bar(1, 64);
    if (T == 95) b[0] = 9;
}
PAIR(first_reader, 1, 96)

BODY(linked_list) { // push to a list
    unsigned *node = b + 16 + (B * 32 + T);
    if (ok) { *node = atomicExch(b, B * 32 + T + 1); return; }
    *node = b[0];
    b[0] = B * 32 + T + 1;
}
PAIR(linked_list, 2, 32)
