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

// FERRY_CONVERT defines a conversion in its four rounding modes.
#define FERRY_CONVERT(NAME, FROM, TO, BUILTIN)                                             \
    FERRY_D TO NAME##_rn(FROM x) { return BUILTIN##_rn(x); }                               \
    FERRY_D TO NAME##_rz(FROM x) { return BUILTIN##_rz(x); }                               \
    FERRY_D TO NAME##_ru(FROM x) { return BUILTIN##_rp(x); }                               \
    FERRY_D TO NAME##_rd(FROM x) { return BUILTIN##_rm(x); }
FERRY_CONVERT(__float2int, float, int, __nvvm_f2i)
FERRY_CONVERT(__float2uint, float, unsigned, __nvvm_f2ui)
FERRY_CONVERT(__float2ll, float, long long, __nvvm_f2ll)
FERRY_CONVERT(__float2ull, float, unsigned long long, __nvvm_f2ull)
FERRY_CONVERT(__double2int, double, int, __nvvm_d2i)
FERRY_CONVERT(__double2uint, double, unsigned, __nvvm_d2ui)
FERRY_CONVERT(__double2ll, double, long long, __nvvm_d2ll)
FERRY_CONVERT(__double2ull, double, unsigned long long, __nvvm_d2ull)
FERRY_CONVERT(__int2float, int, float, __nvvm_i2f)
FERRY_CONVERT(__uint2float, unsigned, float, __nvvm_ui2f)
FERRY_CONVERT(__ll2float, long long, float, __nvvm_ll2f)
FERRY_CONVERT(__ull2float, unsigned long long, float, __nvvm_ull2f)
FERRY_CONVERT(__ll2double, long long, double, __nvvm_ll2d)
FERRY_CONVERT(__ull2double, unsigned long long, double, __nvvm_ull2d)
FERRY_CONVERT(__double2float, double, float, __nvvm_d2f)
#undef FERRY_CONVERT
FERRY_HD double __int2double_rn(int x) { return x; }
FERRY_HD double __uint2double_rn(unsigned x) { return x; }
#endif
#endif
