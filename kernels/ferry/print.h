// printf, malloc and new in kernels, and what assert calls. The driver writes the text of
// printf when the program waits for the kernel.
#ifndef FERRY_PRINT_H
#define FERRY_PRINT_H
#include "define.h"
#ifdef FERRY_CLANG
extern "C" {
FERRY_LIBC int printf(const char *, ...) __attribute__((format(printf, 1, 2)));
__device__ int vprintf(const char *, const void *);
__host__ __device__ __attribute__((noreturn)) void __assertfail(const char *what, const char *file, unsigned line, const char *function, size_t size);
FERRY_LIBC void *malloc(size_t);
FERRY_LIBC void free(void *);
}

#ifndef FERRY_SYSTEM // clang has these beside the header new
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
__device__ inline void *operator new(size_t n) { return malloc(n); }
__device__ inline void *operator new[](size_t n) { return malloc(n); }
__device__ inline void operator delete(void *p) noexcept { free(p); }
__device__ inline void operator delete[](void *p) noexcept { free(p); }
__device__ inline void operator delete(void *p, size_t) noexcept { free(p); }
__device__ inline void operator delete[](void *p, size_t) noexcept { free(p); }
#pragma clang diagnostic pop
#endif
#endif
#endif
