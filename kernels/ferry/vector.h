// Vector types: char1 to double4, dim3, and make_*. Sizes and alignments are CUDA's.
#ifndef FERRY_VECTOR_H
#define FERRY_VECTOR_H
#include "define.h"
#ifdef FERRY_API

// FERRY_VECTOR defines T1 to T4 of elements E. A1, A2 and A4 are alignments in bytes; the
// type of three elements has that of one.
#define FERRY_VECTOR(T, E, A1, A2, A4)                                                     \
    typedef struct __attribute__((aligned(A1))) T##1 { E x; } T##1;                        \
    typedef struct __attribute__((aligned(A2))) T##2 { E x, y; } T##2;                     \
    typedef struct __attribute__((aligned(A1))) T##3 { E x, y, z; } T##3;                  \
    typedef struct __attribute__((aligned(A4))) T##4 { E x, y, z, w; } T##4;               \
    FERRY_HD T##1 make_##T##1(E x) { T##1 v = {x}; return v; }                             \
    FERRY_HD T##2 make_##T##2(E x, E y) { T##2 v = {x, y}; return v; }                     \
    FERRY_HD T##3 make_##T##3(E x, E y, E z) { T##3 v = {x, y, z}; return v; }             \
    FERRY_HD T##4 make_##T##4(E x, E y, E z, E w) { T##4 v = {x, y, z, w}; return v; }

FERRY_VECTOR(char, signed char, 1, 2, 4)
FERRY_VECTOR(uchar, unsigned char, 1, 2, 4)
FERRY_VECTOR(short, short, 2, 4, 8)
FERRY_VECTOR(ushort, unsigned short, 2, 4, 8)
FERRY_VECTOR(int, int, 4, 8, 16)
FERRY_VECTOR(uint, unsigned, 4, 8, 16)
FERRY_VECTOR(long, long, sizeof(long), 2 * sizeof(long), 16)
FERRY_VECTOR(ulong, unsigned long, sizeof(long), 2 * sizeof(long), 16)
FERRY_VECTOR(longlong, long long, 8, 16, 16)
FERRY_VECTOR(ulonglong, unsigned long long, 8, 16, 16)
FERRY_VECTOR(float, float, 4, 8, 16)
FERRY_VECTOR(double, double, 8, 16, 16)

typedef struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    FERRY_HM constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    FERRY_HM constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    FERRY_HM constexpr operator uint3() const { return {x, y, z}; }
#endif
} dim3;
#endif
#endif
