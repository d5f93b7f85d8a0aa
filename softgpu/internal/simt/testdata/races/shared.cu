// Shared memory and barriers of the block.
#include "pair.h"

BODY(neighbour) { // reads what the next thread wrote
    __shared__ unsigned s[64];
    s[T] = a[T];
    if (ok) __syncthreads();
    b[B * 64 + T] = s[(T + 33) & 63];
}
PAIR(neighbour, 2, 64)

BODY(reverse_warp) { // within one warp
    __shared__ unsigned s[32];
    s[T] = a[T];
    if (ok) __syncwarp();
    b[B * 32 + T] = s[31 - T];
}
PAIR(reverse_warp, 2, 32)

BODY(reduce) { // a tree
    __shared__ unsigned s[128];
    s[T] = a[T];
    __syncthreads();
    for (unsigned k = 64; k > 0; k >>= 1) {
        if (T < k) s[T] += s[T + k];
        if (ok) __syncthreads();
    }
    if (T == 0) b[B] = s[0];
}
PAIR(reduce, 2, 128)

BODY(reduce_last_barrier) { // the barrier after the last step is missing
    __shared__ unsigned s[128];
    s[T] = a[T];
    for (unsigned k = 64; k > 0; k >>= 1) {
        __syncthreads();
        if (T < k) s[T] += s[T + k];
    }
    if (ok) __syncthreads();
    b[B * 128 + T] = s[0];
}
PAIR(reduce_last_barrier, 1, 128)

BODY(reduce_warp_volatile) { // the last 32 lanes, as was usual before Volta
    __shared__ unsigned s[64];
    s[T] = a[T];
    __syncthreads();
    if (T < 32) {
        unsigned x = s[T] + s[T + 32];
        for (unsigned k = 16; k > 0; k >>= 1) {
            if (ok) { x += __shfl_down_sync(~0u, x, k); continue; }
            s[T] = x;
            x += s[(T + k) & 31];
        }
        if (T == 0) b[B] = x;
    }
}
PAIR(reduce_warp_volatile, 1, 64)

BODY(reduce_interleaved) { // strided threads
    __shared__ unsigned s[64];
    s[T] = a[T];
    __syncthreads();
    for (unsigned k = 1; k < 64; k *= 2) {
        if (T % (2 * k) == 0) s[T] += s[T + k];
        if (ok || k < 8) __syncthreads();
    }
    if (T == 0) b[B] = s[0];
}
PAIR(reduce_interleaved, 1, 64)

BODY(scan) { // Hillis and Steele in place
    __shared__ unsigned s[64];
    s[T] = a[T];
    __syncthreads();
    for (unsigned k = 1; k < 64; k *= 2) {
        unsigned x = T >= k ? s[T - k] : 0;
        if (ok) __syncthreads();
        s[T] += x;
        __syncthreads();
    }
    b[B * 64 + T] = s[T];
}
PAIR(scan, 1, 64)

BODY(scan_double) { // two buffers in turn
    __shared__ unsigned s[2][64];
    unsigned in = 0;
    s[0][T] = a[T];
    __syncthreads();
    for (unsigned k = 1; k < 64; k *= 2) {
        s[in ^ 1][T] = s[in][T] + (T >= k ? s[in][T - k] : 0);
        in ^= 1;
        if (ok) __syncthreads();
    }
    b[B * 64 + T] = s[in][T];
}
PAIR(scan_double, 1, 64)

BODY(scan_blelloch) {
    __shared__ unsigned s[128];
    s[T] = a[T];
    s[T + 64] = a[T + 64];
    unsigned off = 1;
    for (unsigned d = 64; d > 0; d >>= 1) {
        __syncthreads();
        if (T < d) s[off * (2 * T + 2) - 1] += s[off * (2 * T + 1) - 1];
        off *= 2;
    }
    if (ok) __syncthreads();
    if (T == 0) s[127] = 0;
    for (unsigned d = 1; d < 128; d *= 2) {
        off >>= 1;
        if (ok || d != 2) __syncthreads();
        if (T < d) {
            unsigned x = s[off * (2 * T + 1) - 1];
            s[off * (2 * T + 1) - 1] = s[off * (2 * T + 2) - 1];
            s[off * (2 * T + 2) - 1] += x;
        }
    }
    __syncthreads();
    b[T] = s[T];
}
PAIR(scan_blelloch, 1, 64)

BODY(loop_carried) { // the buffer is written again before all have read it
    __shared__ unsigned s[64];
    unsigned x = 0;
    for (unsigned i = 0; i < 4; i++) {
        s[T] = a[i * 64 + T];
        __syncthreads();
        x += s[63 - T];
        if (ok) __syncthreads();
    }
    b[T] = x;
}
PAIR(loop_carried, 1, 64)

BODY(double_buffer) { // one barrier a round is enough for two buffers, not for one
    __shared__ unsigned s[2][64];
    unsigned x = 0;
    for (unsigned i = 0; i < 6; i++) {
        unsigned *p = s[ok ? i & 1 : 0];
        p[T] = a[i * 64 + T];
        __syncthreads();
        x += p[63 - T];
    }
    b[T] = x;
}
PAIR(double_buffer, 1, 64)

BODY(transpose) { // a tile
    __shared__ unsigned s[8][9];
    unsigned x = T & 7, y = T >> 3;
    s[y][x] = a[T];
    if (ok) __syncthreads();
    b[B * 64 + T] = s[x][y];
}
PAIR(transpose, 2, 64)

BODY(sgemm) { // tiles of 8 by 8
    __shared__ unsigned p[8][8], q[8][8];
    unsigned x = T & 7, y = T >> 3, sum = 0;
    for (unsigned t = 0; t < 2; t++) {
        p[y][x] = a[y * 16 + t * 8 + x];
        q[y][x] = a[(t * 8 + y) * 16 + x];
        __syncthreads();
        for (unsigned k = 0; k < 8; k++) sum += p[y][k] * q[k][x];
        if (ok) __syncthreads();
    }
    b[B * 64 + T] = sum;
}
PAIR(sgemm, 2, 64)

BODY(stencil) { // halo by the first threads
    __shared__ unsigned s[66];
    s[T + 1] = a[T + 1];
    if (T == 0) s[0] = a[0];
    if (T == 1) s[65] = a[65];
    if (ok) __syncthreads();
    b[B * 64 + T] = s[T] + s[T + 1] + s[T + 2];
}
PAIR(stencil, 1, 64)

BODY(stencil_in_place) {
    __shared__ unsigned s[66];
    s[T + 1] = a[T + 1];
    if (T == 0) s[0] = s[65] = 0;
    __syncthreads();
    unsigned x = s[T] + s[T + 2];
    if (ok) __syncthreads();
    s[T + 1] = x;
    __syncthreads();
    b[T] = s[T + 1];
}
PAIR(stencil_in_place, 1, 64)

BODY(broadcast) { // thread 0 writes, all read
    __shared__ unsigned s;
    if (T == 0) s = a[5];
    if (ok) __syncthreads();
    b[B * 64 + T] = s;
}
PAIR(broadcast, 1, 64)

BODY(same_word) { // every thread writes its number to one word
    __shared__ unsigned s;
    if (ok ? T == 7 : true) s = T;
    __syncthreads();
    b[B * 64 + T] = s;
}
PAIR(same_word, 1, 64)

BODY(same_word_lanes) { // in one instruction of one warp
    if (ok ? T == 3 : T < 4) b[0] = T;
}
PAIR(same_word_lanes, 1, 32)

BODY(same_value) { // everyone writes one value: no race; else the value differs by warp
    __shared__ unsigned s;
    s = ok ? 9 : 9 + WARP;
    __syncthreads();
    b[T] = s;
}
PAIR(same_value, 1, 64)

BODY(histogram) { // bins in shared memory
    __shared__ unsigned h[16];
    if (T < 16) h[T] = 0;
    __syncthreads();
    if (ok) atomicAdd(&h[a[T] & 15], 1); else h[a[T] & 15]++;
    __syncthreads();
    if (T < 16) atomicAdd(&b[T], h[T]);
}
PAIR(histogram, 2, 64)

BODY(histogram_clear) { // no barrier between clearing and counting
    __shared__ unsigned h[16];
    if (T < 16) h[T] = 0;
    if (ok) __syncthreads();
    atomicAdd(&h[a[63 - T] & 15], 1);
    __syncthreads();
    if (T < 16) atomicAdd(&b[T], h[T]);
}
PAIR(histogram_clear, 2, 64)

BODY(histogram_read) { // no barrier between counting and reading
    __shared__ unsigned h[16];
    if (T < 16) h[T] = 0;
    __syncthreads();
    atomicAdd(&h[a[T] & 15], 1);
    if (ok) __syncthreads();
    if (T < 16) atomicAdd(&b[T], h[T]);
}
PAIR(histogram_read, 2, 64)

BODY(counter_read) { // a plain read beside atomics
    __shared__ unsigned c;
    if (T == 0) c = 0;
    __syncthreads();
    atomicAdd(&c, 1);
    if (ok) b[T] = atomicAdd(&c, 0); else b[T] = c;
}
PAIR(counter_read, 1, 64)

BODY(compact) { // a stack index by atomics, or without
    __shared__ unsigned top;
    if (T == 0) top = 0;
    __syncthreads();
    if (a[T] & 1) {
        unsigned i = ok ? atomicAdd(&top, 1) : top++;
        b[i] = T;
    }
}
PAIR(compact, 1, 64)

BODY(bytes) { // four threads write one word, by bytes or by masks
    __shared__ unsigned s[16];
    if (ok) ((unsigned char *)s)[T] = a[T];
    else { if (T < 16) s[T] = 0; __syncthreads(); s[T / 4] |= (a[T] & 255) << (8 * (T & 3)); }
    __syncthreads();
    if (T < 16) b[T] = s[T];
}
PAIR(bytes, 1, 64)

BODY(bytes_and_word) { // a byte of the word is written while the word is read
    __shared__ unsigned s[65];
    s[T] = a[T];
    if (T == 0) s[64] = 0;
    __syncthreads();
    if (T == 0) ((volatile unsigned char *)s)[ok ? 256 : 40] = 1;
    if (T == 40) b[0] = s[10];
}
PAIR(bytes_and_word, 1, 64)

BODY(halves_overlap) { // 16 bits beside each other, or the same
    __shared__ unsigned short s[128];
    s[ok ? 2 * T : T / 2] = T;
    s[ok ? 2 * T + 1 : 64 + T] = T;
    __syncthreads();
    b[T] = s[T];
}
PAIR(halves_overlap, 1, 64)

BODY(vector_store) { // 16 bytes of one thread overlap with the next
    __shared__ uint4 s[66];
    unsigned *p = (unsigned *)s;
    s[T] = make_uint4(T, T, T, T);
    if (ok) __syncthreads();
    p[4 * ((T + 1) & 63) + 3] = 5;
    __syncthreads();
    b[T] = p[4 * T];
}
PAIR(vector_store, 1, 64)

BODY(dynamic) { // two arrays in dynamic shared memory, laid out with or without overlap
    extern __shared__ unsigned d[];
    unsigned *x = d, *y = d + (ok ? 64 : 60);
    x[T] = a[T];
    y[T] = a[T] + 100;
    __syncthreads();
    b[T] = x[T] + y[T];
}
PAIR(dynamic, 1, 64)

BODY(early_exit) { // threads that exit are not ordered by the barrier
    __shared__ unsigned s[64];
    s[T] = a[T];
    if (ok) __syncthreads();
    if (T >= 32) return;
    __syncthreads();
    b[T] = s[T + 32];
}
PAIR(early_exit, 1, 64)

BODY(one_warp_waits) { // a barrier that only some of the warps reach
    __shared__ unsigned s[96];
    s[T] = a[T];
    if (ok) bar(1, 96); else if (WARP < 2) bar(1, 64);
    b[T] = s[(T + 32) % 96];
}
PAIR(one_warp_waits, 1, 96)

BODY(loop_bound) { // rounds by thread
    __shared__ unsigned s[64];
    s[T] = 0;
    __syncthreads();
    for (unsigned i = 0; i < 8; i++) {
        if (ok ? (i & 63) == T : i <= T) s[i] = T + i;
        __syncthreads();
    }
    b[T] = s[T];
}
PAIR(loop_bound, 1, 64)

BODY(bubble) { // odd-even sort
    __shared__ unsigned s[64];
    s[T] = a[63 - T];
    __syncthreads();
    for (unsigned i = 0; i < 64; i++) {
        unsigned k = 2 * T + (ok ? i & 1 : 0);
        if (!ok && T < 63 && (i & 1)) k = T;
        if (T < 32 && k + 1 < 64 && s[k] > s[k + 1]) {
            unsigned x = s[k];
            s[k] = s[k + 1];
            s[k + 1] = x;
        }
        __syncthreads();
    }
    b[T] = s[T];
}
PAIR(bubble, 1, 64)

BODY(bitonic) {
    __shared__ unsigned s[64];
    s[T] = a[63 - T];
    __syncthreads();
    for (unsigned k = 2; k <= 64; k *= 2)
        for (unsigned j = k / 2; j > 0; j /= 2) {
            unsigned o = T ^ j;
            if (o > T && (s[T] > s[o]) == ((T & k) == 0)) {
                unsigned x = s[T];
                s[T] = s[o];
                s[o] = x;
            }
            if (ok || j > 32) __syncthreads();
        }
    __syncthreads();
    b[T] = s[T];
}
PAIR(bitonic, 1, 64)

BODY(rotate) { // each moves its value to the next
    __shared__ unsigned s[64];
    s[T] = a[T];
    __syncthreads();
    unsigned x = s[T];
    if (ok) __syncthreads();
    s[(T + 1) & 63] = x;
    __syncthreads();
    b[T] = s[T];
}
PAIR(rotate, 1, 64)
