// cuComplex.h: complex numbers as pairs, x the real part. cuComplex is cuFloatComplex.
#ifndef FERRY_COMPAT_CUCOMPLEX_H
#define FERRY_COMPAT_CUCOMPLEX_H
#define CU_COMPLEX_H_ // sources ask for it
#ifdef __CUDACC_RTC__
#error "NVRTC needs NVIDIA's own cuComplex.h: install the toolkit's headers, or use clang"
#endif
#include "../ferry/core.h"
#ifdef FERRY_API
typedef float2 cuFloatComplex;
typedef float2 cuComplex;
typedef double2 cuDoubleComplex;

// FERRY_COMPLEX defines the functions of a type C of elements E. S is the suffix of their names, and
// FABS and SQRT are functions of E. Quotients and lengths are scaled, so that they do not overflow.
#define FERRY_COMPLEX(C, E, S, FABS, SQRT, FMA)                                            \
    FERRY_HD C make_##C(E x, E y) { C c; c.x = x; c.y = y; return c; }                     \
    FERRY_HD E cuCreal##S(C a) { return a.x; }                                             \
    FERRY_HD E cuCimag##S(C a) { return a.y; }                                             \
    FERRY_HD C cuConj##S(C a) { return make_##C(a.x, -a.y); }                              \
    FERRY_HD C cuCadd##S(C a, C b) { return make_##C(a.x + b.x, a.y + b.y); }              \
    FERRY_HD C cuCsub##S(C a, C b) { return make_##C(a.x - b.x, a.y - b.y); }              \
    FERRY_HD C cuCmul##S(C a, C b) { return make_##C(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
    FERRY_HD C cuCdiv##S(C a, C b) {                                                       \
        E s = 1 / (FABS(b.x) + FABS(b.y)), ax = a.x * s, ay = a.y * s, bx = b.x * s, by = b.y * s; \
        E t = 1 / (bx * bx + by * by);                                                     \
        return make_##C((ax * bx + ay * by) * t, (ay * bx - ax * by) * t);                 \
    }                                                                                      \
    FERRY_HD E cuCabs##S(C a) {                                                            \
        E x = FABS(a.x), y = FABS(a.y), v = x > y ? x : y, w = x > y ? y : x;              \
        E t = w / v;                                                                       \
        if (v == 0 || v > (E)__builtin_inff() / 2 || w > (E)__builtin_inff() / 2) return v + w; \
        return v * SQRT(1 + t * t);                                                        \
    }                                                                                      \
    FERRY_HD C cuCfma##S(C a, C b, C c) { return make_##C(FMA(-a.y, b.y, FMA(a.x, b.x, c.x)), FMA(a.y, b.x, FMA(a.x, b.y, c.y))); }
FERRY_COMPLEX(cuFloatComplex, float, f, __builtin_fabsf, __builtin_sqrtf, __builtin_fmaf)
FERRY_COMPLEX(cuDoubleComplex, double, , __builtin_fabs, __builtin_sqrt, __builtin_fma)
#undef FERRY_COMPLEX
FERRY_HD cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }
FERRY_HD cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return make_cuDoubleComplex(a.x, a.y); }
FERRY_HD cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) { return make_cuFloatComplex((float)a.x, (float)a.y); }
#endif
#endif
