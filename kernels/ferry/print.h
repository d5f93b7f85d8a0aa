// printf, malloc, new and virtual functions in kernels, and what assert calls. The driver writes the text of
// printf when the program waits for the kernel.
#ifndef FERRY_PRINT_H
#define FERRY_PRINT_H
#include "define.h"
#ifdef FERRY_CLANG
// The system's headers declare these functions for the host, where they are used.
#ifdef FERRY_SYSTEM_HEADERS
#define FERRY_C_SIDE __device__
#else
#define FERRY_C_SIDE __host__ __device__
#endif
extern "C" {
FERRY_C_SIDE int printf(const char *, ...) __attribute__((format(printf, 1, 2)));
__device__ int vprintf(const char *, const void *);
FERRY_C_SIDE void *malloc(size_t);
FERRY_C_SIDE void free(void *);
__host__ __device__ __attribute__((noreturn)) void __assertfail(const char *what, const char *file, unsigned line, const char *function, size_t size);
}
#undef FERRY_C_SIDE

// What stands in a table of virtual functions where a class has none. A call ends the kernel. Clang
// writes these functions where a table names them.
extern "C" {
__device__ inline void __cxa_pure_virtual() { __builtin_trap(); }
__device__ inline void __cxa_deleted_virtual() { __builtin_trap(); }
}

#ifdef FERRY_SYSTEM_HEADERS
#include <new> // clang's own, with the functions for the device
// The C++ library has this word in attributes, where a macro is wrong.
#if __clang_major__ < 15
#pragma push_macro("__noinline__")
#undef __noinline__
#include <memory>
#pragma pop_macro("__noinline__")
#endif
// What the system's assert calls.
__device__ __attribute__((noreturn)) inline void __assert_fail(const char *what, const char *file, unsigned line, const char *function) { __assertfail(what, file, line, function, 1); }
#else
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
__device__ inline void *operator new(size_t n) { return malloc(n); }
__device__ inline void *operator new[](size_t n) { return malloc(n); }
__device__ inline void operator delete(void *p) noexcept { free(p); }
__device__ inline void operator delete[](void *p) noexcept { free(p); }
__device__ inline void operator delete(void *p, size_t) noexcept { free(p); }
__device__ inline void operator delete[](void *p, size_t) noexcept { free(p); }
__device__ inline void *operator new(size_t, void *p) noexcept { return p; }
__device__ inline void *operator new[](size_t, void *p) noexcept { return p; }
__device__ inline void operator delete(void *, void *) noexcept {}
__device__ inline void operator delete[](void *, void *) noexcept {}
#pragma clang diagnostic pop
#endif
#endif
#endif
