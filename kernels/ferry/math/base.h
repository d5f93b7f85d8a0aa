// The arithmetic that the functions of math.h are made of. Each operation rounds once, to
// nearest. It is inline assembly with .rn, because compilers may contract or reorder the
// operators of C, and ptxas may contract "add" and "mul" without .rn. So results have the
// same bits at every optimisation level, on every GPU, and on the software GPU.
#pragma once

// Where the system's headers follow, host code has their functions, and these are for the
// device alone. __FM_HD starts a function that no header of C has.
#ifdef FERRY_SYSTEM_HEADERS
#define __FM_SIDE __device__
#else
#define __FM_SIDE __host__ __device__
#endif
#define __FM_FN static inline __FM_SIDE __attribute__((always_inline, nodebug))
#define __FM_BIG static inline __FM_SIDE __attribute__((nodebug))
#define __FM_SLOW static __FM_SIDE __attribute__((noinline, nodebug))
#define __FM_HD static inline __host__ __device__ __attribute__((always_inline, nodebug))

#define __FM_OP1(NAME, T, C, OP) \
    __FM_FN T NAME(T a) { T r; __asm__(OP " %0, %1;" : "=" C(r) : C(a)); return r; }
#define __FM_OP2(NAME, T, C, OP) \
    __FM_FN T NAME(T a, T b) { T r; __asm__(OP " %0, %1, %2;" : "=" C(r) : C(a), C(b)); return r; }
#define __FM_OP3(NAME, T, C, OP) \
    __FM_FN T NAME(T a, T b, T c) { T r; __asm__(OP " %0, %1, %2, %3;" : "=" C(r) : C(a), C(b), C(c)); return r; }

__FM_OP2(__fm_add, float, "f", "add.rn.f32")
__FM_OP2(__fm_add, double, "d", "add.rn.f64")
__FM_OP2(__fm_sub, float, "f", "sub.rn.f32")
__FM_OP2(__fm_sub, double, "d", "sub.rn.f64")
__FM_OP2(__fm_mul, float, "f", "mul.rn.f32")
__FM_OP2(__fm_mul, double, "d", "mul.rn.f64")
__FM_OP2(__fm_div, float, "f", "div.rn.f32")
__FM_OP2(__fm_div, double, "d", "div.rn.f64")
__FM_OP3(__fm_fma, float, "f", "fma.rn.f32")
__FM_OP3(__fm_fma, double, "d", "fma.rn.f64")
__FM_OP1(__fm_sqrt, float, "f", "sqrt.rn.f32")
__FM_OP1(__fm_sqrt, double, "d", "sqrt.rn.f64")
__FM_OP1(__fm_rint, float, "f", "cvt.rni.f32.f32")
__FM_OP1(__fm_rint, double, "d", "cvt.rni.f64.f64")
__FM_OP1(__fm_floor, float, "f", "cvt.rmi.f32.f32")
__FM_OP1(__fm_floor, double, "d", "cvt.rmi.f64.f64")
__FM_OP1(__fm_ceil, float, "f", "cvt.rpi.f32.f32")
__FM_OP1(__fm_ceil, double, "d", "cvt.rpi.f64.f64")
__FM_OP1(__fm_trunc, float, "f", "cvt.rzi.f32.f32")
__FM_OP1(__fm_trunc, double, "d", "cvt.rzi.f64.f64")

__FM_FN float __fm_narrow(double a) { float r; __asm__("cvt.rn.f32.f64 %0, %1;" : "=f"(r) : "d"(a)); return r; }
__FM_FN double __fm_widen(float a) { double r; __asm__("cvt.f64.f32 %0, %1;" : "=d"(r) : "f"(a)); return r; }

#include "coefficients.h"

__FM_FN unsigned __fm_bits(float x) { return __builtin_bit_cast(unsigned, x); }
__FM_FN unsigned long long __fm_bits(double x) { return __builtin_bit_cast(unsigned long long, x); }

// __fm_t describes a type: unsigned and signed integers of its size, bits of the
// significand, bias of the exponent.
template <class T> struct __fm_t;
template <> struct __fm_t<float> {
    typedef unsigned U;
    typedef int I;
    static constexpr int p = 24, bias = 127;
    static constexpr U inf = 0x7f800000u, nan = 0x7fffffffu, sign = 0x80000000u, roothalf = 0x3f3504f3u;
    static constexpr float magic = 0x1.8p23f, huge = 0x1p16f;
};
template <> struct __fm_t<double> {
    typedef unsigned long long U;
    typedef long long I;
    static constexpr int p = 53, bias = 1023;
    static constexpr U inf = 0x7ff0000000000000u, nan = 0xfff8000000000000u, sign = 0x8000000000000000u, roothalf = 0x3fe6a09e667f3bcdu;
    static constexpr double magic = 0x1.8p52, huge = 0x1p30;
};
#define __FM_U typename __fm_t<T>::U

template <class T> __FM_FN T __fm_from(__FM_U u) { return __builtin_bit_cast(T, u); }
template <class T> __FM_FN T __fm_inf() { return __fm_from<T>(__fm_t<T>::inf); }
template <class T> __FM_FN T __fm_nan() { return __fm_from<T>(__fm_t<T>::nan); }
template <class T> __FM_FN __FM_U __fm_abits(T x) { return __fm_bits(x) & ~__fm_t<T>::sign; }
template <class T> __FM_FN T __fm_abs(T x) { return __fm_from<T>(__fm_abits(x)); }
template <class T> __FM_FN T __fm_neg(T x) { return __fm_from<T>(__fm_bits(x) ^ __fm_t<T>::sign); }
template <class T> __FM_FN bool __fm_isneg(T x) { return (__fm_bits(x) & __fm_t<T>::sign) != 0; }
template <class T> __FM_FN bool __fm_isnan(T x) { return __fm_abits(x) > __fm_t<T>::inf; }
// __fm_nan_of returns the NaN among two arguments. A sum of both would depend on their order,
// which ptxas may change.
template <class T> __FM_FN T __fm_nan_of(T x, T y) { return __fm_isnan(x) ? __fm_add(x, x) : __fm_add(y, y); }
template <class T> __FM_FN bool __fm_isinf(T x) { return __fm_abits(x) == __fm_t<T>::inf; }
template <class T> __FM_FN bool __fm_isfinite(T x) { return __fm_abits(x) < __fm_t<T>::inf; }
template <class T> __FM_FN bool __fm_iszero(T x) { return __fm_abits(x) == 0; }
// __fm_signed returns x >= 0 with the sign of s.
template <class T> __FM_FN T __fm_signed(T x, T s) { return __fm_from<T>(__fm_abits(x) | (__fm_bits(s) & __fm_t<T>::sign)); }

// __fm_below compares |x| with a number > 0; a NaN is not below.
template <class T> __FM_FN bool __fm_below(T x, T bound) { return __fm_abits(x) < __fm_bits(bound); }

// __fm_pow2 returns 2^k, a normal number.
template <class T> __FM_FN T __fm_pow2(int k) { return __fm_from<T>((__FM_U)(k + __fm_t<T>::bias) << (__fm_t<T>::p - 1)); }

// __fm_scale returns x * 2^k, rounded once, for x near 1 and a result in or near the range
// of the type.
template <class T> __FM_FN T __fm_scale(T x, int k)
{
    int half = k >> 1;
    return __fm_mul(__fm_mul(x, __fm_pow2<T>(half)), __fm_pow2<T>(k - half));
}

// __fm_dd is the sum of two numbers, |l| at most half an ulp of h, or near it.
template <class T> struct __fm_dd { T h, l; };

// __fm_fast2 adds numbers exactly, |a| >= |b| or a = 0.
template <class T> __FM_FN __fm_dd<T> __fm_fast2(T a, T b)
{
    T s = __fm_add(a, b);
    return {s, __fm_add(__fm_sub(a, s), b)};
}

// __fm_two adds any numbers exactly.
template <class T> __FM_FN __fm_dd<T> __fm_two(T a, T b)
{
    T s = __fm_add(a, b);
    T t = __fm_sub(s, a);
    return {s, __fm_add(__fm_sub(a, __fm_sub(s, t)), __fm_sub(b, t))};
}

// __fm_prod multiplies exactly.
template <class T> __FM_FN __fm_dd<T> __fm_prod(T a, T b)
{
    T p = __fm_mul(a, b);
    return {p, __fm_fma(a, b, __fm_neg(p))};
}

// __fm_by multiplies a sum by a number.
template <class T> __FM_FN __fm_dd<T> __fm_by(__fm_dd<T> a, T b)
{
    __fm_dd<T> p = __fm_prod(a.h, b);
    return {p.h, __fm_fma(a.l, b, p.l)};
}

// __fm_by multiplies two sums.
template <class T> __FM_FN __fm_dd<T> __fm_by(__fm_dd<T> a, __fm_dd<T> b)
{
    __fm_dd<T> p = __fm_by(a, b.h);
    return {p.h, __fm_fma(a.h, b.l, p.l)};
}

// __fm_plus adds two sums.
template <class T> __FM_FN __fm_dd<T> __fm_plus(__fm_dd<T> a, __fm_dd<T> b)
{
    __fm_dd<T> s = __fm_two(a.h, b.h);
    return __fm_fast2(s.h, __fm_add(s.l, __fm_add(a.l, b.l)));
}

// __fm_root returns the square root of a sum > 0.
template <class T> __FM_FN __fm_dd<T> __fm_root(__fm_dd<T> a)
{
    T r = __fm_sqrt(a.h);
    T rest = __fm_add(__fm_fma(__fm_neg(r), r, a.h), a.l);
    return {r, __fm_mul(rest, __fm_div((T)0.5, r))};
}

// __fm_ratio returns the quotient of two sums.
template <class T> __FM_FN __fm_dd<T> __fm_ratio(__fm_dd<T> a, __fm_dd<T> b)
{
    T r = __fm_div((T)1, b.h), q = __fm_mul(a.h, r);
    T rest = __fm_add(__fm_fma(__fm_neg(q), b.h, a.h), __fm_fma(__fm_neg(q), b.l, a.l));
    return {q, __fm_mul(rest, r)};
}
