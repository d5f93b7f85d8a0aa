// The types __half and __half2 and their functions. The instructions of sm_53 and newer do
// the arithmetic; below that it is done in float and rounded once.
//
// The file also compiles with NVRTC where CUDA's cuda_fp16.h is missing.
#ifndef FERRY_HALF_H
#define FERRY_HALF_H
#include "core.h"
#if defined(FERRY_CLANG) || defined(__CUDACC_RTC__)

struct __half_raw { unsigned short x; };
struct __half {
    unsigned short __x;
    __half() = default;
    FERRY_HM constexpr __half(__half_raw r) : __x(r.x) {}
    FERRY_HM __half(float v);
    FERRY_HM __half(double v);
    FERRY_HM __half(int v);
    FERRY_HM __half(unsigned v);
    FERRY_HM __half(long v);
    FERRY_HM __half(unsigned long v);
    FERRY_HM __half(long long v);
    FERRY_HM __half(unsigned long long v);
    FERRY_HM __half(short v);
    FERRY_HM __half(unsigned short v);
    FERRY_HM operator float() const;
    FERRY_HM operator __half_raw() const { return {__x}; }
};
struct __half2_raw { unsigned short x, y; };
struct __attribute__((aligned(4))) __half2 {
    __half x, y;
    __half2() = default;
    FERRY_HM constexpr __half2(const __half &x, const __half &y) : x(x), y(y) {}
    FERRY_HM constexpr __half2(__half2_raw r) : x(__half_raw{r.x}), y(__half_raw{r.y}) {}
    FERRY_HM operator __half2_raw() const { return {x.__x, y.__x}; }
};
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;

#ifdef FERRY_CLANG
// The value of half's bits, exactly, without an instruction of a GPU.
FERRY_HD float ferry_half_value(__half_raw h) {
    unsigned sign = (h.x & 0x8000u) << 16, a = h.x & 0x7fffu;
    if (a > 0x7c00) return __builtin_bit_cast(float, 0x7fffffffu);
    if (a == 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000u);
    if (a >= 0x400) return __builtin_bit_cast(float, sign | ((a << 13) + (112u << 23)));
    float small = (float)(int)a * 0x1p-24f;
    return sign ? -small : small;
}

// ferry_host_half rounds for host code. way is the second letter of PTX's rounding modes: n, z, p or m.
FERRY_HD __half ferry_host_half(double v, char way) {
    unsigned long long u = __builtin_bit_cast(unsigned long long, v), a = u & 0x7fffffffffffffffull;
    unsigned sign = (unsigned)(u >> 48) & 0x8000;
    if (a > 0x7ff0000000000000ull) return __half(__half_raw{0x7fff});
    bool up = way == 'p' ? !sign : way == 'm' && sign; // away from zero
    int e = (int)(a >> 52) - 1023, shift = 42 + (e < -14 ? -14 - e : 0);
    unsigned code;
    if (a == 0 || e > 15) code = a == 0 ? 0 : a == 0x7ff0000000000000ull || way == 'n' || up ? 0x7c00 : 0x7bff;
    else if (shift > 62) code = up;
    else {
        unsigned long long s = (a & 0xfffffffffffffull) | (e > -1023 ? 1ull << 52 : 0), rest = s & ((1ull << shift) - 1), half = 1ull << (shift - 1);
        code = (unsigned)(s >> shift) + (e < -14 ? 0 : (unsigned)(e + 14) << 10);
        code += way == 'n' ? rest > half || (rest == half && (code & 1)) : up && rest != 0;
    }
    return __half(__half_raw{(unsigned short)(sign | code)});
}
#endif
#if defined(__CUDA_ARCH__) || !defined(FERRY_CLANG)
FERRY_HD float __half2float(__half h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h.__x)); return r; }
#else
FERRY_HD float __half2float(__half h) { return ferry_half_value(h); }
#endif

// FERRY_TO_HALF defines conversions to half in the four rounding modes.
#define FERRY_TO_HALF(NAME, FROM, C, TYPE)                                                 \
    FERRY_TO_HALF1(NAME##_rn, FROM, C, "rn.f16." TYPE)                                     \
    FERRY_TO_HALF1(NAME##_rz, FROM, C, "rz.f16." TYPE)                                     \
    FERRY_TO_HALF1(NAME##_ru, FROM, C, "rp.f16." TYPE)                                     \
    FERRY_TO_HALF1(NAME##_rd, FROM, C, "rm.f16." TYPE)
#if defined(__CUDA_ARCH__) || !defined(FERRY_CLANG)
#define FERRY_TO_HALF1(NAME, FROM, C, OP)                                                  \
    FERRY_HD __half NAME(FROM v) { __half r; asm("cvt." OP " %0, %1;" : "=h"(r.__x) : C(v)); return r; }
#else
#define FERRY_TO_HALF1(NAME, FROM, C, OP)                                                  \
    FERRY_HD __half NAME(FROM v) { return ferry_host_half((double)v, OP[1]); }
#endif
FERRY_TO_HALF(__float2half, float, "f", "f32")
FERRY_TO_HALF1(__float2half, float, "f", "rn.f16.f32")
FERRY_TO_HALF1(__double2half, double, "d", "rn.f16.f64")
FERRY_TO_HALF(__int2half, int, "r", "s32")
FERRY_TO_HALF(__uint2half, unsigned, "r", "u32")
FERRY_TO_HALF(__ll2half, long long, "l", "s64")
FERRY_TO_HALF(__ull2half, unsigned long long, "l", "u64")
FERRY_TO_HALF(__short2half, short, "h", "s16")
FERRY_TO_HALF(__ushort2half, unsigned short, "h", "u16")
#undef FERRY_TO_HALF
#undef FERRY_TO_HALF1

FERRY_HD unsigned ferry_bits(__half2 v) { return v.x.__x | (unsigned)v.y.__x << 16; }
FERRY_HD __half2 ferry_half2(unsigned r) { return __half2(__half2_raw{(unsigned short)r, (unsigned short)(r >> 16)}); }

// The arithmetic of one half and of a pair. half_ops.h builds the rest on it.
#if __CUDA_ARCH__ >= 530
#define FERRY_HALF1(NAME, OP)                                                              \
    FERRY_HD __half NAME(__half a, __half b) { __half r; asm(OP ".f16 %0, %1, %2;" : "=h"(r.__x) : "h"(a.__x), "h"(b.__x)); return r; }
#define FERRY_HALF2(NAME, OP)                                                              \
    FERRY_HD __half2 NAME(__half2 a, __half2 b) { unsigned r; asm(OP ".f16x2 %0, %1, %2;" : "=r"(r) : "r"(ferry_bits(a)), "r"(ferry_bits(b))); return ferry_half2(r); }
FERRY_HALF1(__hadd, "add.rn")
FERRY_HALF1(__hsub, "sub.rn")
FERRY_HALF1(__hmul, "mul.rn")
FERRY_HALF1(__hadd_sat, "add.rn.sat")
FERRY_HALF1(__hsub_sat, "sub.rn.sat")
FERRY_HALF1(__hmul_sat, "mul.rn.sat")
FERRY_HALF2(__hadd2, "add.rn")
FERRY_HALF2(__hsub2, "sub.rn")
FERRY_HALF2(__hmul2, "mul.rn")
FERRY_HD __half __hfma(__half a, __half b, __half c) { __half r; asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.__x) : "h"(a.__x), "h"(b.__x), "h"(c.__x)); return r; }
FERRY_HD __half __hfma_sat(__half a, __half b, __half c) { __half r; asm("fma.rn.sat.f16 %0, %1, %2, %3;" : "=h"(r.__x) : "h"(a.__x), "h"(b.__x), "h"(c.__x)); return r; }
FERRY_HD __half2 __hfma2(__half2 a, __half2 b, __half2 c) { unsigned r; asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(ferry_bits(a)), "r"(ferry_bits(b)), "r"(ferry_bits(c))); return ferry_half2(r); }
#undef FERRY_HALF1
#undef FERRY_HALF2
#else
FERRY_HD float ferry_half_clamp(float v) { return v > 0 ? (v < 1 ? v : 1) : 0; }
FERRY_HD __half __hadd(__half a, __half b) { return __float2half(__half2float(a) + __half2float(b)); }
FERRY_HD __half __hsub(__half a, __half b) { return __float2half(__half2float(a) - __half2float(b)); }
FERRY_HD __half __hmul(__half a, __half b) { return __float2half(__half2float(a) * __half2float(b)); }
FERRY_HD __half __hadd_sat(__half a, __half b) { return __float2half(ferry_half_clamp(__half2float(a) + __half2float(b))); }
FERRY_HD __half __hsub_sat(__half a, __half b) { return __float2half(ferry_half_clamp(__half2float(a) - __half2float(b))); }
FERRY_HD __half __hmul_sat(__half a, __half b) { return __float2half(ferry_half_clamp(__half2float(a) * __half2float(b))); }
FERRY_HD __half2 __hadd2(__half2 a, __half2 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
FERRY_HD __half2 __hsub2(__half2 a, __half2 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
FERRY_HD __half2 __hmul2(__half2 a, __half2 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
FERRY_HD __half __hfma(__half a, __half b, __half c) { return __float2half(ferry_odd((double)__half2float(a) * (double)__half2float(b) + (double)__half2float(c))); }
FERRY_HD __half __hfma_sat(__half a, __half b, __half c) { return __float2half(ferry_half_clamp(__half2float(__hfma(a, b, c)))); }
FERRY_HD __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
#endif
FERRY_HD __half2 __hadd2_sat(__half2 a, __half2 b) { return {__hadd_sat(a.x, b.x), __hadd_sat(a.y, b.y)}; }
FERRY_HD __half2 __hsub2_sat(__half2 a, __half2 b) { return {__hsub_sat(a.x, b.x), __hsub_sat(a.y, b.y)}; }
FERRY_HD __half2 __hmul2_sat(__half2 a, __half2 b) { return {__hmul_sat(a.x, b.x), __hmul_sat(a.y, b.y)}; }
FERRY_HD __half2 __hfma2_sat(__half2 a, __half2 b, __half2 c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }

#define FERRY_T __half
#define FERRY_T2 __half2
#define FERRY_RAW __half_raw
#define FERRY_H half
#define FERRY_H2 half2
#define FERRY_ONE 0x3c00
#define FERRY_INF 0x7c00
#define FERRY_NAN 0x7fff
#define FERRY_PTX "f16"
#include "half_ops.h"
#undef FERRY_T
#undef FERRY_T2
#undef FERRY_RAW
#undef FERRY_H
#undef FERRY_H2
#undef FERRY_ONE
#undef FERRY_INF
#undef FERRY_NAN
#undef FERRY_PTX

#if FERRY_SM >= 600
FERRY_D __half2 atomicAdd(__half2 *p, __half2 v) { unsigned r; asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(ferry_bits(v)) : "memory"); return ferry_half2(r); }
#endif
#if FERRY_SM >= 700
FERRY_D __half atomicAdd(__half *p, __half v) { __half r; asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(r.__x) : "l"(p), "h"(v.__x) : "memory"); return r; }
#endif
#endif
#endif
