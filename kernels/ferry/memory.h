// Loads and stores with cache hints, address spaces, memcpy and memset.
#ifndef FERRY_MEMORY_H
#define FERRY_MEMORY_H
#include "vector.h"
#ifdef FERRY_CLANG

// FERRY_LOAD defines a load of any type of 1, 2, 4, 8 or 16 bytes by the instruction OP.
#define FERRY_LOAD(NAME, VOLATILE, OP, ...)                                                  \
    template <class T> FERRY_D T NAME(const T *p) {                                        \
        static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "a load of 1, 2, 4, 8 or 16 bytes"); \
        if constexpr (sizeof(T) == 1) {                                                    \
            unsigned v; asm VOLATILE("ld." OP ".u8 %0, [%1];" : "=r"(v) : "l"(p) __VA_ARGS__); return __builtin_bit_cast(T, (unsigned char)v); \
        } else if constexpr (sizeof(T) == 2) {                                             \
            unsigned short v; asm VOLATILE("ld." OP ".u16 %0, [%1];" : "=h"(v) : "l"(p) __VA_ARGS__); return __builtin_bit_cast(T, v); \
        } else if constexpr (sizeof(T) == 4) {                                             \
            unsigned v; asm VOLATILE("ld." OP ".u32 %0, [%1];" : "=r"(v) : "l"(p) __VA_ARGS__); return __builtin_bit_cast(T, v); \
        } else if constexpr (sizeof(T) == 8) {                                             \
            unsigned long long v; asm VOLATILE("ld." OP ".u64 %0, [%1];" : "=l"(v) : "l"(p) __VA_ARGS__); return __builtin_bit_cast(T, v); \
        } else {                                                                           \
            ulonglong2 v; asm VOLATILE("ld." OP ".v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) __VA_ARGS__); return __builtin_bit_cast(T, v); \
        }                                                                                  \
    }
// FERRY_STORE defines the stores in the same way. The pointer alone gives the type, so that an
// int can be stored as a float.
template <class T> struct ferry_value { typedef T type; };
#define FERRY_STORE(NAME, OP)                                                              \
    template <class T> FERRY_D void NAME(T *p, typename ferry_value<T>::type v) {                                      \
        static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16, "a store of 1, 2, 4, 8 or 16 bytes"); \
        if constexpr (sizeof(T) == 1)                                                      \
            asm volatile("st." OP ".u8 [%0], %1;" ::"l"(p), "r"((unsigned)__builtin_bit_cast(unsigned char, v)) : "memory"); \
        else if constexpr (sizeof(T) == 2)                                                 \
            asm volatile("st." OP ".u16 [%0], %1;" ::"l"(p), "h"(__builtin_bit_cast(unsigned short, v)) : "memory"); \
        else if constexpr (sizeof(T) == 4)                                                 \
            asm volatile("st." OP ".u32 [%0], %1;" ::"l"(p), "r"(__builtin_bit_cast(unsigned, v)) : "memory"); \
        else if constexpr (sizeof(T) == 8)                                                 \
            asm volatile("st." OP ".u64 [%0], %1;" ::"l"(p), "l"(__builtin_bit_cast(unsigned long long, v)) : "memory"); \
        else {                                                                             \
            ulonglong2 w = __builtin_bit_cast(ulonglong2, v);                              \
            asm volatile("st." OP ".v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(w.x), "l"(w.y) : "memory"); \
        }                                                                                  \
    }
// __ldg is for memory that no thread writes while the kernel runs.
FERRY_LOAD(__ldg, , "global.nc", )
FERRY_LOAD(__ldca, volatile, "global.ca", : "memory")
FERRY_LOAD(__ldcg, volatile, "global.cg", : "memory")
FERRY_LOAD(__ldcs, volatile, "global.cs", : "memory")
FERRY_LOAD(__ldlu, volatile, "global.lu", : "memory")
FERRY_LOAD(__ldcv, volatile, "global.cv", : "memory")
FERRY_STORE(__stwb, "global.wb")
FERRY_STORE(__stcg, "global.cg")
FERRY_STORE(__stcs, "global.cs")
FERRY_STORE(__stwt, "global.wt")
#undef FERRY_LOAD
#undef FERRY_STORE

#define FERRY_SPACE(NAME, SPACE)                                                           \
    FERRY_D unsigned __is##NAME(const void *p) { unsigned r; asm("{ .reg .pred q; isspacep." #SPACE " q, %1; selp.u32 %0, 1, 0, q; }" : "=r"(r) : "l"(p)); return r; } \
    FERRY_D size_t __cvta_generic_to_##SPACE(const void *p) { size_t r; asm("cvta.to." #SPACE ".u64 %0, %1;" : "=l"(r) : "l"(p)); return r; } \
    FERRY_D void *__cvta_##SPACE##_to_generic(size_t p) { void *r; asm("cvta." #SPACE ".u64 %0, %1;" : "=l"(r) : "l"(p)); return r; }
FERRY_SPACE(Global, global)
FERRY_SPACE(Shared, shared)
FERRY_SPACE(Local, local)
FERRY_SPACE(Constant, const)
#undef FERRY_SPACE
FERRY_D size_t __cvta_generic_to_constant(const void *p) { return __cvta_generic_to_const(p); }
FERRY_D void *__cvta_constant_to_generic(size_t p) { return __cvta_const_to_generic(p); }

#ifdef FERRY_SYSTEM_HEADERS
FERRY_D void *memcpy(void *to, const void *from, size_t n) { return __builtin_memcpy(to, from, n); }
FERRY_D void *memset(void *to, int value, size_t n) { return __builtin_memset(to, value, n); }
#else
extern "C" {
FERRY_HD void *memcpy(void *to, const void *from, size_t n) { return __builtin_memcpy(to, from, n); }
FERRY_HD void *memset(void *to, int value, size_t n) { return __builtin_memset(to, value, n); }
}
#endif
#endif
#endif
