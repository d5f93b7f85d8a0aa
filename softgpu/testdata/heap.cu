// Uses of malloc in kernels that are wrong, each with its correct twin.
// Compiled by ferry compile --arch sm_80 --compiler clang-19.
#include "ferry.h"

#define T threadIdx.x
#define TWINS(name)                                                                 \
    template <bool ok> __device__ __forceinline__ void name(unsigned *out);         \
    extern "C" __global__ void racy_##name(unsigned *out) { name<false>(out); }      \
    extern "C" __global__ void ok_##name(unsigned *out) { name<true>(out); }         \
    template <bool ok> __device__ __forceinline__ void name(unsigned *out)

// hidden returns an address of which the compiler knows nothing.
__device__ __forceinline__ unsigned *hidden(void *p) {
    asm volatile("" : "+l"(p) :: "memory");
    return (unsigned *)p;
}

__device__ __forceinline__ unsigned *words(unsigned from) {
    unsigned *p = hidden(malloc(256));
    for (unsigned i = 0; i < 64; i++) p[i] = from + i;
    return p;
}

TWINS(free_while_read) {
    __shared__ unsigned *p;
    if (T == 0) p = words(5);
    __syncthreads();
    out[T] = p[T];
    if (ok) __syncthreads();
    if (T == 0) free(hidden(p));
}

TWINS(free_by_last) { // the mirror image: the reader comes first in the order of warps
    __shared__ unsigned *p;
    if (T == 40) p = words(5);
    __syncthreads();
    if (T == 0) out[T] = p[3];
    if (ok) __syncthreads();
    if (T == 40) free(hidden(p));
}

TWINS(used_again) {
    __shared__ unsigned *p;
    if (T == 0) p = words(5);
    __syncthreads();
    unsigned x = p[T];
    if (ok) __syncthreads();
    if (T == 0) {
        free(hidden(p));
        unsigned *q = words(9);
        out[100] = q[3];
        free(hidden(q));
    }
    out[T] = x;
}

TWINS(stale_pointer) { // the pointer is to memory that another thread has got since
    __shared__ unsigned *p;
    __shared__ unsigned *q;
    if (T == 0) { p = words(5); q = p; }
    __syncthreads();
    if (T == 0) { free(hidden(p)); p = hidden(malloc(256)); out[100] = p != q; p[3] = 1; }
    if (ok) __syncthreads();
    if (T == 33) out[T] = q[3];
    __syncthreads();
    if (T == 0) free(hidden(p));
}

TWINS(read_behind_free) {
    __shared__ unsigned *p;
    if (T == 0) p = words(5);
    __syncthreads();
    if (T == 0 && !ok) free(hidden(p));
    __syncthreads();
    if (T == 32) out[T] = p[3];
    __syncthreads();
    if (T == 0 && ok) free(hidden(p));
}

TWINS(write_behind_free) { // by the thread itself
    unsigned *p = words(T);
    if (!ok) free(hidden(p));
    p = hidden(p);
    p[7] = 1;
    if (ok) { out[T] = p[7]; free(hidden(p)); }
}

TWINS(past_the_end) {
    if (T != 0) return;
    unsigned *p = words(5);
    p[ok ? 63 : 64] = 1;
    out[T] = p[ok ? 63 : 64];
    free(hidden(p));
}

TWINS(own_memory) { // each thread frees, and gets what another one has freed
    unsigned sum = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned *p = words(i);
        sum += p[9];
        if (!ok && T == 3) sum += p[64 * 40];
        free(hidden(p));
    }
    out[T] = sum;
}

extern "C" __global__ void twice(unsigned *out) {
    if (T != 0) return;
    unsigned *p = words(5);
    free(hidden(p));
    free(hidden(p));
}

extern "C" __global__ void inside(unsigned *out) {
    if (T != 0) return;
    free(hidden(words(5) + 4));
}
