// The functions of math.h, and those that CUDA adds, for device code without libdevice.
// docs/notes/math.md has their largest errors. Their bits are the same on every GPU and on
// the software GPU, except those of approximate intrinsics such as __sinf. With -ffast-math
// the functions for which CUDA documents it become these intrinsics. Denormal numbers are
// kept, unless the compiler is told to flush them.
//
// math/base.h has the arithmetic, math/coefficients.h the polynomials. The functions
// __fm_NAME of the other parts are templates over float and double.
#pragma once

#if defined(__FAST_MATH__) || defined(__CLANG_GPU_APPROX_TRANSCENDENTALS__) || defined(__CLANG_CUDA_APPROX_TRANSCENDENTALS__)
#define __FM_FAST
#endif

#include "math/base.h"
#include "math/exp.h"
#include "math/circular.h"
#include "math/special.h"
#include "math/exact.h"
#include "math/intrinsics.h"
#include "math/integers.h"

// __fm_int has a member for integer types only, __fm_mixed for two arithmetic types.
template <class T> struct __fm_int {};
template <class T> struct __fm_arithmetic {};
#define __FM_ARITHMETIC(T) template <> struct __fm_arithmetic<T> { typedef double type; };
#define __FM_INTEGER(T) template <> struct __fm_int<T> { typedef double type; }; __FM_ARITHMETIC(T)
__FM_INTEGER(bool)
__FM_INTEGER(char)
__FM_INTEGER(signed char)
__FM_INTEGER(unsigned char)
__FM_INTEGER(short)
__FM_INTEGER(unsigned short)
__FM_INTEGER(int)
__FM_INTEGER(unsigned)
__FM_INTEGER(long)
__FM_INTEGER(unsigned long)
__FM_INTEGER(long long)
__FM_INTEGER(unsigned long long)
__FM_ARITHMETIC(float)
__FM_ARITHMETIC(double)
template <class A, class B, class = typename __fm_arithmetic<A>::type, class = typename __fm_arithmetic<B>::type> struct __fm_mixed { typedef double type; };

// __FM_1 declares NAMEf(float), NAME(float), NAME(double) and NAME(integer). FAST is the
// function of floats with -ffast-math.
#define __FM_NAMES1(NAME, FLOAT, DOUBLE) \
    __FM_FN float NAME##f(float x) { return FLOAT; } \
    __FM_FN float NAME(float x) { return NAME##f(x); } \
    __FM_FN double NAME(double x) { return DOUBLE; } \
    template <class T> __FM_FN typename __fm_int<T>::type NAME(T x) { return NAME((double)x); }
#define __FM_1(NAME) __FM_NAMES1(NAME, __fm_##NAME(x), __fm_##NAME(x))
#ifdef __FM_FAST
#define __FM_1FAST(NAME, FAST) __FM_NAMES1(NAME, FAST(x), __fm_##NAME(x))
#else
#define __FM_1FAST(NAME, FAST) __FM_1(NAME)
#endif
// __FM_1WIDE is for functions that are in double only.
#define __FM_1WIDE(NAME) __FM_NAMES1(NAME, __fm_narrow(__fm_##NAME(__fm_widen(x))), __fm_##NAME(x))

#define __FM_NAMES2(NAME, FLOAT, DOUBLE) \
    __FM_FN float NAME##f(float x, float y) { return FLOAT; } \
    __FM_FN float NAME(float x, float y) { return NAME##f(x, y); } \
    __FM_FN double NAME(double x, double y) { return DOUBLE; } \
    template <class A, class B> __FM_FN typename __fm_mixed<A, B>::type NAME(A x, B y) { return NAME((double)x, (double)y); }
#define __FM_2(NAME) __FM_NAMES2(NAME, __fm_##NAME(x, y), __fm_##NAME(x, y))

__FM_1FAST(sin, __sinf)
__FM_1FAST(cos, __cosf)
__FM_1FAST(tan, __tanf)
__FM_1FAST(exp, __expf)
__FM_1(exp2)
__FM_1FAST(exp10, __exp10f)
__FM_1FAST(log, __logf)
__FM_1FAST(log2, __log2f)
__FM_1FAST(log10, __log10f)
__FM_1FAST(sqrt, __fm_sqrt_approx)
__FM_1FAST(rsqrt, __fm_rsqrt_approx)
__FM_1(sinpi)
__FM_1(cospi)
__FM_1(asin)
__FM_1(acos)
__FM_1(atan)
__FM_1(sinh)
__FM_1(cosh)
__FM_1(tanh)
__FM_1(asinh)
__FM_1(acosh)
__FM_1(atanh)
__FM_1(expm1)
__FM_1(log1p)
__FM_1(logb)
__FM_1(cbrt)
__FM_1(rcbrt)
__FM_1(erf)
__FM_1WIDE(erfc)
__FM_1WIDE(erfcx)
__FM_1WIDE(erfinv)
__FM_1WIDE(erfcinv)
__FM_1WIDE(normcdf)
__FM_1WIDE(normcdfinv)
__FM_1WIDE(tgamma)
__FM_1WIDE(lgamma)
__FM_1(floor)
__FM_1(ceil)
__FM_1(trunc)
__FM_1(round)
__FM_1(rint)
__FM_NAMES1(nearbyint, __fm_rint(x), __fm_rint(x))
__FM_NAMES1(fabs, __builtin_fabsf(x), __builtin_fabs(x))

__FM_2(atan2)
#ifdef __FM_FAST
__FM_NAMES2(pow, __powf(x, y), __fm_pow(x, y))
#else
__FM_2(pow)
#endif
__FM_2(fmod)
__FM_2(remainder)
__FM_2(fdim)
__FM_2(nextafter)
__FM_NAMES2(fmin, __nvvm_fmin_f(x, y), __nvvm_fmin_d(x, y))
__FM_NAMES2(fmax, __nvvm_fmax_f(x, y), __nvvm_fmax_d(x, y))
__FM_NAMES2(copysign, __fm_signed(x, y), __fm_signed(x, y))
__FM_NAMES2(hypot, __fm_hypot(x, y, 0.0f, 0.0f, false), __fm_hypot(x, y, 0.0, 0.0, false))
__FM_NAMES2(rhypot, __fm_hypot(x, y, 0.0f, 0.0f, true), __fm_hypot(x, y, 0.0, 0.0, true))
__FM_FN float fdividef(float x, float y) { return __fm_div(x, y); }

__FM_FN float abs(float x) { return __builtin_fabsf(x); }
__FM_FN double abs(double x) { return __builtin_fabs(x); }
__FM_FN float min(float x, float y) { return fminf(x, y); }
__FM_FN float max(float x, float y) { return fmaxf(x, y); }
__FM_FN double min(double x, double y) { return fmin(x, y); }
__FM_FN double max(double x, double y) { return fmax(x, y); }
__FM_FN double min(float x, double y) { return fmin((double)x, y); }
__FM_FN double max(float x, double y) { return fmax((double)x, y); }
__FM_FN double min(double x, float y) { return fmin(x, (double)y); }
__FM_FN double max(double x, float y) { return fmax(x, (double)y); }

// __FM_T declares a function of each floating-point type by its text, in which T is the
// type. The first form has the suffix f.
#define __FM_EACH(F) F(float, f) F(double, )

#define __FM_SINCOS(T, S) \
    __FM_FN void sincospi##S(T x, T *s, T *c) { *s = __fm_sinpi(x); *c = __fm_cospi(x); }
__FM_EACH(__FM_SINCOS)
#ifdef __FM_FAST
__FM_FN void sincosf(float x, float *s, float *c) { __sincosf(x, s, c); }
#else
__FM_FN void sincosf(float x, float *s, float *c) { __fm_sincos(x, s, c); }
#endif
__FM_FN void sincos(double x, double *s, double *c) { __fm_sincos(x, s, c); }
__FM_FN void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
__FM_FN void sincospi(float x, float *s, float *c) { sincospif(x, s, c); }

#define __FM_LENGTHS(T, S) \
    __FM_FN T norm3d##S(T a, T b, T c) { return __fm_hypot(a, b, c, (T)0, false); } \
    __FM_FN T rnorm3d##S(T a, T b, T c) { return __fm_hypot(a, b, c, (T)0, true); } \
    __FM_FN T norm4d##S(T a, T b, T c, T d) { return __fm_hypot(a, b, c, d, false); } \
    __FM_FN T rnorm4d##S(T a, T b, T c, T d) { return __fm_hypot(a, b, c, d, true); } \
    __FM_FN T norm##S(int n, const T *v) { return __fm_norm(n, v, false); } \
    __FM_FN T rnorm##S(int n, const T *v) { return __fm_norm(n, v, true); }
__FM_EACH(__FM_LENGTHS)

#define __FM_PARTS(T, S) \
    __FM_FN T fma##S(T x, T y, T z) { return __fm_fma(x, y, z); } \
    __FM_FN T frexp##S(T x, int *n) { return __fm_frexp(x, n); } \
    __FM_FN T ldexp##S(T x, int n) { return __fm_ldexp(x, n); } \
    __FM_FN T scalbn##S(T x, int n) { return __fm_ldexp(x, n); } \
    __FM_FN T scalbln##S(T x, long n) { return __fm_ldexp(x, n > 10000 ? 10000 : n < -10000 ? -10000 : (int)n); } \
    __FM_FN T modf##S(T x, T *whole) { return __fm_modf(x, whole); } \
    __FM_FN T remquo##S(T x, T y, int *quotient) { return __fm_remquo(x, y, quotient); } \
    __FM_FN int ilogb##S(T x) \
    { \
        if (!__fm_isfinite(x)) return __fm_isnan(x) ? (int)0x80000000 : 0x7fffffff; \
        return __fm_iszero(x) ? (int)0x80000000 : __fm_ilogb(x); \
    } \
    __FM_FN T nan##S(const char *) { return __fm_from<T>(__fm_t<T>::inf | __fm_t<T>::inf >> 1); }
__FM_EACH(__FM_PARTS)
__FM_FN float fma(float x, float y, float z) { return fmaf(x, y, z); }
__FM_FN float frexp(float x, int *n) { return frexpf(x, n); }
__FM_FN float ldexp(float x, int n) { return ldexpf(x, n); }
__FM_FN float scalbn(float x, int n) { return scalbnf(x, n); }
__FM_FN float scalbln(float x, long n) { return scalblnf(x, n); }
__FM_FN float modf(float x, float *whole) { return modff(x, whole); }
__FM_FN float remquo(float x, float y, int *quotient) { return remquof(x, y, quotient); }
__FM_FN int ilogb(float x) { return ilogbf(x); }

#define __FM_CLASSES(T, S) \
    __FM_FN bool isnan(T x) { return __fm_isnan(x); } \
    __FM_FN bool isinf(T x) { return __fm_isinf(x); } \
    __FM_FN bool isfinite(T x) { return __fm_isfinite(x); } \
    __FM_FN bool signbit(T x) { return __fm_isneg(x); } \
    __FM_FN bool isnormal(T x) { return __fm_isfinite(x) && __fm_abits(x) >> (__fm_t<T>::p - 1) != 0; }
__FM_EACH(__FM_CLASSES)

// Comparisons that are false for NaN.
template <class A, class B> __FM_FN bool isunordered(A x, B y) { return isnan(x) || isnan(y); }
template <class A, class B> __FM_FN bool isgreater(A x, B y) { return !isunordered(x, y) && x > y; }
template <class A, class B> __FM_FN bool isgreaterequal(A x, B y) { return !isunordered(x, y) && x >= y; }
template <class A, class B> __FM_FN bool isless(A x, B y) { return !isunordered(x, y) && x < y; }
template <class A, class B> __FM_FN bool islessequal(A x, B y) { return !isunordered(x, y) && x <= y; }
template <class A, class B> __FM_FN bool islessgreater(A x, B y) { return !isunordered(x, y) && x != y; }

#define __FM_TO_INTEGER(S, T, C, SUFFIX) \
    __FM_FN long long llrint##S(T x) { long long r; __asm__("cvt.rni.s64." SUFFIX " %0, %1;" : "=l"(r) : C(x)); return r; } \
    __FM_FN long long llround##S(T x) { return llrint##S(__fm_round(x)); } \
    __FM_FN long lrint##S(T x) { return (long)llrint##S(x); } \
    __FM_FN long lround##S(T x) { return (long)llround##S(x); }
__FM_TO_INTEGER(f, float, "f", "f32")
__FM_TO_INTEGER(, double, "d", "f64")
__FM_FN long long llrint(float x) { return llrintf(x); }
__FM_FN long long llround(float x) { return llroundf(x); }
__FM_FN long lrint(float x) { return lrintf(x); }
__FM_FN long lround(float x) { return lroundf(x); }

// The same of integers. Like those above, they compute in double.
#define __FM_OF_INTEGER(R, NAME, MORE, ARGS) \
    template <class T, class = typename __fm_int<T>::type> __FM_FN R NAME MORE { return NAME ARGS; }
__FM_OF_INTEGER(double, frexp, (T x, int *n), ((double)x, n))
__FM_OF_INTEGER(double, ldexp, (T x, int n), ((double)x, n))
__FM_OF_INTEGER(double, scalbn, (T x, int n), ((double)x, n))
__FM_OF_INTEGER(double, scalbln, (T x, long n), ((double)x, n))
__FM_OF_INTEGER(int, ilogb, (T x), ((double)x))
__FM_OF_INTEGER(long, lround, (T x), ((double)x))
__FM_OF_INTEGER(long, lrint, (T x), ((double)x))
__FM_OF_INTEGER(long long, llround, (T x), ((double)x))
__FM_OF_INTEGER(long long, llrint, (T x), ((double)x))
__FM_OF_INTEGER(bool, isnan, (T x), ((double)x))
__FM_OF_INTEGER(bool, isinf, (T x), ((double)x))
__FM_OF_INTEGER(bool, isfinite, (T x), ((double)x))
__FM_OF_INTEGER(bool, signbit, (T x), ((double)x))
__FM_OF_INTEGER(bool, isnormal, (T x), ((double)x))
template <class A, class B, class C, class = typename __fm_arithmetic<C>::type>
__FM_FN typename __fm_mixed<A, B>::type fma(A x, B y, C z) { return fma((double)x, (double)y, (double)z); }
