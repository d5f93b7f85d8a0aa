// Floats of 8 bits: __nv_fp8_e4m3 has 4 bits of exponent and no infinity, __nv_fp8_e5m2 has 5.
// Conversions round to the nearest even. The arithmetic is on integers, so that the file is for
// every GPU and for host code. NaN becomes 0x7f.
#ifndef FERRY_FP8_H
#define FERRY_FP8_H
#include "bfloat16.h"
#include "half.h"
#ifdef FERRY_CLANG
#define __CUDA_FP8_TYPES_EXIST__

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

FERRY_HD __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    const int bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15; // of the significand, of the exponent
    const unsigned most = kind == __NV_E4M3 ? 0x7e : 0x7b;
    unsigned long long u = __builtin_bit_cast(unsigned long long, v), a = u & 0x7fffffffffffffffull;
    unsigned sign = (unsigned)(u >> 63) << 7;
    if (a > 0x7ff0000000000000ull) return (__nv_fp8_storage_t)(sign | 0x7f);
    int e = (int)(a >> 52) - 1023, low = e < 1 - bias ? 1 - bias - e : 0, shift = 52 - bits + low;
    unsigned code = 0;
    if (shift <= 53) {
        // The significand in units of the last place, rounded. A carry goes into the exponent.
        unsigned long long s = (a & 0xfffffffffffffull) | 1ull << 52, rest = s & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        code = (unsigned)(s >> shift);
        code += rest > half || (rest == half && (code & 1));
        if (e + bias > 1) code = e + bias > 31 ? 0xff : code + ((unsigned)(e + bias - 1) << bits);
    }
    if (code > most) code = saturate == __NV_SATFINITE ? most : kind == __NV_E4M3 ? 0x7f : 0x7c;
    return (__nv_fp8_storage_t)(sign | code);
}
FERRY_HD __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return v != v ? (__nv_fp8_storage_t)0x7f : __nv_cvt_double_to_fp8(v, saturate, kind);
}
FERRY_HD __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t kind) {
    unsigned sign = (v & 0x80u) << 8, a = v & 0x7f, r;
    if (kind == __NV_E5M2) r = a > 0x7c ? 0x7fff : sign | a << 8;
    else if (a == 0x7f) r = 0x7fff;
    else if (a >= 8) r = sign | ((a << 7) + (8u << 10));
    else if (a == 0) r = sign;
    else {
        int top = 31 - __builtin_clz(a); // a denormal number is a normal one of half
        r = sign | (unsigned)(top + 6) << 10 | (a << (10 - top) & 0x3ff);
    }
    return {(unsigned short)r};
}

FERRY_HD float ferry_bfloat16_value(__nv_bfloat16_raw b) { return __builtin_bit_cast(float, (unsigned)b.x << 16); }
FERRY_HD float ferry_fp8_value(__nv_fp8_storage_t v, __nv_fp8_interpretation_t kind) { return ferry_half_value(__nv_cvt_fp8_to_halfraw(v, kind)); }

FERRY_HD __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) { return __nv_cvt_float_to_fp8(ferry_half_value(v), saturate, kind); }
FERRY_HD __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) { return __nv_cvt_float_to_fp8(ferry_bfloat16_value(v), saturate, kind); }

// Pairs: x is the lower byte.
#define FERRY_FP8_PAIR(NAME, T, ONE, X, Y)                                                 \
    FERRY_HD __nv_fp8x2_storage_t NAME(T v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) { \
        return (__nv_fp8x2_storage_t)(ONE(X, saturate, kind) | ONE(Y, saturate, kind) << 8); \
    }
FERRY_FP8_PAIR(__nv_cvt_double2_to_fp8x2, double2, __nv_cvt_double_to_fp8, v.x, v.y)
FERRY_FP8_PAIR(__nv_cvt_float2_to_fp8x2, float2, __nv_cvt_float_to_fp8, v.x, v.y)
FERRY_FP8_PAIR(__nv_cvt_halfraw2_to_fp8x2, __half2_raw, __nv_cvt_halfraw_to_fp8, __half_raw{v.x}, __half_raw{v.y})
FERRY_FP8_PAIR(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat162_raw, __nv_cvt_bfloat16raw_to_fp8, __nv_bfloat16_raw{v.x}, __nv_bfloat16_raw{v.y})
#undef FERRY_FP8_PAIR
FERRY_HD __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)v, kind).x, __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(v >> 8), kind).x};
}

// ferry_clamped cuts a float to an integer type; NaN is 0.
template <class T> FERRY_HD T ferry_clamped(float v) {
    const bool negative = (T)-1 < (T)0;
    const T most = negative ? (T)(((unsigned long long)1 << (8 * sizeof(T) - 1)) - 1) : (T)-1, least = negative ? (T)(-most - 1) : (T)0;
    if (v != v) return 0;
    return v <= (float)least ? least : v >= (float)most ? most : (T)v;
}

#define FERRY_FP8_FROM(NAME, T) explicit FERRY_HM NAME(T v) : __x(__nv_cvt_double_to_fp8((double)v, __NV_SATFINITE, kind)) {}
#define FERRY_FP8_TO(T) explicit FERRY_HM operator T() const { return ferry_clamped<T>(ferry_fp8_value(__x, kind)); }
// FERRY_FP8 defines the types of one, two and four numbers.
#define FERRY_FP8(NAME, NAME2, NAME4, KIND)                                                \
    struct NAME {                                                                          \
        static constexpr __nv_fp8_interpretation_t kind = KIND;                            \
        __nv_fp8_storage_t __x;                                                            \
        NAME() = default;                                                                  \
        explicit FERRY_HM NAME(float v) : __x(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, kind)) {} \
        explicit FERRY_HM NAME(__half v) : __x(__nv_cvt_halfraw_to_fp8(v, __NV_SATFINITE, kind)) {} \
        explicit FERRY_HM NAME(__nv_bfloat16 v) : __x(__nv_cvt_bfloat16raw_to_fp8(v, __NV_SATFINITE, kind)) {} \
        FERRY_FP8_FROM(NAME, double) FERRY_FP8_FROM(NAME, short) FERRY_FP8_FROM(NAME, unsigned short) FERRY_FP8_FROM(NAME, int) FERRY_FP8_FROM(NAME, unsigned) \
        FERRY_FP8_FROM(NAME, long) FERRY_FP8_FROM(NAME, unsigned long) FERRY_FP8_FROM(NAME, long long) FERRY_FP8_FROM(NAME, unsigned long long) \
        FERRY_FP8_TO(char) FERRY_FP8_TO(signed char) FERRY_FP8_TO(unsigned char) FERRY_FP8_TO(short) FERRY_FP8_TO(unsigned short) FERRY_FP8_TO(int) FERRY_FP8_TO(unsigned) \
        FERRY_FP8_TO(long) FERRY_FP8_TO(unsigned long) FERRY_FP8_TO(long long) FERRY_FP8_TO(unsigned long long) \
        explicit FERRY_HM operator __half() const { return __half(__nv_cvt_fp8_to_halfraw(__x, kind)); } \
        explicit FERRY_HM operator float() const { return ferry_fp8_value(__x, kind); }    \
        explicit FERRY_HM operator double() const { return ferry_fp8_value(__x, kind); }   \
        explicit FERRY_HM operator __nv_bfloat16() const {                                 \
            float v = ferry_fp8_value(__x, kind); /* exact */                              \
            return __nv_bfloat16(__nv_bfloat16_raw{(unsigned short)(__builtin_bit_cast(unsigned, v) >> 16)}); \
        }                                                                                  \
        explicit FERRY_HM operator bool() const { return (__x & 0x7f) != 0; }              \
    };                                                                                     \
    struct __attribute__((aligned(2))) NAME2 {                                             \
        static constexpr __nv_fp8_interpretation_t kind = KIND;                            \
        __nv_fp8x2_storage_t __x;                                                          \
        NAME2() = default;                                                                 \
        explicit FERRY_HM NAME2(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, kind)) {} \
        explicit FERRY_HM NAME2(double2 v) : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, kind)) {} \
        explicit FERRY_HM NAME2(__half2 v) : __x(__nv_cvt_halfraw2_to_fp8x2(v, __NV_SATFINITE, kind)) {} \
        explicit FERRY_HM NAME2(__nv_bfloat162 v) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(v, __NV_SATFINITE, kind)) {} \
        explicit FERRY_HM operator __half2() const { return __half2(__nv_cvt_fp8x2_to_halfraw2(__x, kind)); } \
        explicit FERRY_HM operator float2() const { return {ferry_fp8_value((__nv_fp8_storage_t)__x, kind), ferry_fp8_value((__nv_fp8_storage_t)(__x >> 8), kind)}; } \
    };                                                                                     \
    struct __attribute__((aligned(4))) NAME4 {                                             \
        __nv_fp8x4_storage_t __x;                                                          \
        NAME4() = default;                                                                 \
        explicit FERRY_HM NAME4(float4 v) : __x(NAME2(make_float2(v.x, v.y)).__x | (unsigned)NAME2(make_float2(v.z, v.w)).__x << 16) {} \
        explicit FERRY_HM NAME4(double4 v) : __x(NAME2(make_double2(v.x, v.y)).__x | (unsigned)NAME2(make_double2(v.z, v.w)).__x << 16) {} \
        explicit FERRY_HM NAME4(__half2 a, __half2 b) : __x(NAME2(a).__x | (unsigned)NAME2(b).__x << 16) {} \
        explicit FERRY_HM NAME4(__nv_bfloat162 a, __nv_bfloat162 b) : __x(NAME2(a).__x | (unsigned)NAME2(b).__x << 16) {} \
        explicit FERRY_HM operator float4() const {                                        \
            NAME2 a, b;                                                                    \
            a.__x = (__nv_fp8x2_storage_t)__x, b.__x = (__nv_fp8x2_storage_t)(__x >> 16);  \
            float2 x = (float2)a, y = (float2)b;                                           \
            return {x.x, x.y, y.x, y.y};                                                   \
        }                                                                                  \
    };
FERRY_FP8(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __NV_E4M3)
FERRY_FP8(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __NV_E5M2)
#undef FERRY_FP8
#undef FERRY_FP8_FROM
#undef FERRY_FP8_TO
#endif
#endif
