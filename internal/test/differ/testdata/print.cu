// Output of a kernel: printf, whose result is the number of arguments, and assert.
#include "differ.h"
#ifdef __clang__
extern "C" __device__ int vprintf(const char *, const void *);
extern "C" __device__ [[noreturn]] void __assertfail(const char *, const char *, unsigned, const char *, unsigned long);
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))
DEVICE int say(u32 i, float f) { struct { u32 i; double f; } a = {i, f}; return vprintf("thread %u has %g\n", &a); }
#else
#include <assert.h>
#include <stdio.h>
DEVICE int say(u32 i, float f) { return printf("thread %u has %g\n", i, f); }
#endif

KERNEL print_printf(const float *in, i32 *out) {
    u32 i = thread();
    out[i] = i % 16 == 3 ? say(i, in[i]) : -1;
}

KERNEL print_assert(const u32 *in, u32 *out, u32 limit) {
    u32 v = in[thread()] & 0xffff;
    assert(v < limit);
    out[thread()] = v;
}
