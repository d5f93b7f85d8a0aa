// Bit casts, and conversions between integers and floats with a rounding mode: _rn to the
// nearest even, _rz towards zero, _ru up, _rd down.
#ifndef FERRY_CONVERT_H
#define FERRY_CONVERT_H
#include "define.h"
#ifdef FERRY_CLANG

FERRY_HD int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
FERRY_HD unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
FERRY_HD float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
FERRY_HD float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
FERRY_HD long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
FERRY_HD double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
FERRY_HD int __double2hiint(double x) { return (int)(__builtin_bit_cast(unsigned long long, x) >> 32); }
FERRY_HD int __double2loint(double x) { return (int)__builtin_bit_cast(unsigned long long, x); }
FERRY_HD double __hiloint2double(int hi, int lo) { return __builtin_bit_cast(double, (unsigned long long)(unsigned)hi << 32 | (unsigned)lo); }

// FERRY_CONVERT defines a conversion in its four rounding modes. I is "i" for a result that
// is an integer. The instructions are written out: clang takes its builtins for conversions
// in C, which round integers to nearest and leave floats out of range undefined.
#define FERRY_CONVERT(NAME, FROM, A, TO, R, I, TYPES)                                      \
    FERRY_CONVERT1(NAME##_rn, FROM, A, TO, R, "rn" I TYPES)                                \
    FERRY_CONVERT1(NAME##_rz, FROM, A, TO, R, "rz" I TYPES)                                \
    FERRY_CONVERT1(NAME##_ru, FROM, A, TO, R, "rp" I TYPES)                                \
    FERRY_CONVERT1(NAME##_rd, FROM, A, TO, R, "rm" I TYPES)
#define FERRY_CONVERT1(NAME, FROM, A, TO, R, OP)                                           \
    FERRY_D TO NAME(FROM x) { TO r; asm("cvt." OP " %0, %1;" : "=" R(r) : A(x)); return r; }
FERRY_CONVERT(__float2int, float, "f", int, "r", "i", ".s32.f32")
FERRY_CONVERT(__float2uint, float, "f", unsigned, "r", "i", ".u32.f32")
FERRY_CONVERT(__float2ll, float, "f", long long, "l", "i", ".s64.f32")
FERRY_CONVERT(__float2ull, float, "f", unsigned long long, "l", "i", ".u64.f32")
FERRY_CONVERT(__double2int, double, "d", int, "r", "i", ".s32.f64")
FERRY_CONVERT(__double2uint, double, "d", unsigned, "r", "i", ".u32.f64")
FERRY_CONVERT(__double2ll, double, "d", long long, "l", "i", ".s64.f64")
FERRY_CONVERT(__double2ull, double, "d", unsigned long long, "l", "i", ".u64.f64")
FERRY_CONVERT(__int2float, int, "r", float, "f", "", ".f32.s32")
FERRY_CONVERT(__uint2float, unsigned, "r", float, "f", "", ".f32.u32")
FERRY_CONVERT(__ll2float, long long, "l", float, "f", "", ".f32.s64")
FERRY_CONVERT(__ull2float, unsigned long long, "l", float, "f", "", ".f32.u64")
FERRY_CONVERT(__ll2double, long long, "l", double, "d", "", ".f64.s64")
FERRY_CONVERT(__ull2double, unsigned long long, "l", double, "d", "", ".f64.u64")
FERRY_CONVERT(__double2float, double, "d", float, "f", "", ".f32.f64")
#undef FERRY_CONVERT
#undef FERRY_CONVERT1
FERRY_HD double __int2double_rn(int x) { return x; }
FERRY_HD double __uint2double_rn(unsigned x) { return x; }
#endif

#if defined(FERRY_CLANG) || defined(__CUDACC_RTC__)
// ferry_odd rounds to odd: towards zero, with the last bit set if anything was cut off. A
// second rounding, to half or bfloat16, is then right in every mode.
FERRY_HD float ferry_odd(double v) {
#if defined(__CUDA_ARCH__) || !defined(FERRY_CLANG)
    float f = __double2float_rz(v);
#else
    float f = (float)v;
    if (f - v > 0 ? f > 0 : f - v < 0 && f < 0) f = __uint_as_float(__float_as_uint(f) - 1);
#endif
    return (double)f == v || v != v ? f : __uint_as_float(__float_as_uint(f) | 1);
}
FERRY_HD float ferry_odd(long long v) {
#if !defined(__CUDA_ARCH__) && defined(FERRY_CLANG)
    return ferry_odd((double)v); // rounds twice above 2^53
#else
    float f = __ll2float_rz(v);
    return __float2ll_rz(f) == v ? f : __uint_as_float(__float_as_uint(f) | 1);
#endif
}
FERRY_HD float ferry_odd(unsigned long long v) {
#if !defined(__CUDA_ARCH__) && defined(FERRY_CLANG)
    return ferry_odd((double)v);
#else
    float f = __ull2float_rz(v);
    return __float2ull_rz(f) == v ? f : __uint_as_float(__float_as_uint(f) | 1);
#endif
}
#endif
#endif
