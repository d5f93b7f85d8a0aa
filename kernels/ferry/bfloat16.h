// The types __nv_bfloat16 and __nv_bfloat162 and their functions. sm_80 has instructions
// for fused products, sm_90 for sums and products; below sm_80 arithmetic is done in float
// and rounded once. As half.h, the file compiles with NVRTC.
#ifndef FERRY_BFLOAT16_H
#define FERRY_BFLOAT16_H
#include "core.h"
#if defined(FERRY_CLANG) || defined(__CUDACC_RTC__)

struct __nv_bfloat16_raw { unsigned short x; };
struct __nv_bfloat16 {
    unsigned short __x;
    __nv_bfloat16() = default;
    FERRY_HM constexpr __nv_bfloat16(__nv_bfloat16_raw r) : __x(r.x) {}
    FERRY_HM __nv_bfloat16(float v);
    FERRY_HM __nv_bfloat16(double v);
    FERRY_HM __nv_bfloat16(int v);
    FERRY_HM __nv_bfloat16(unsigned v);
    FERRY_HM __nv_bfloat16(long v);
    FERRY_HM __nv_bfloat16(unsigned long v);
    FERRY_HM __nv_bfloat16(long long v);
    FERRY_HM __nv_bfloat16(unsigned long long v);
    FERRY_HM __nv_bfloat16(short v);
    FERRY_HM __nv_bfloat16(unsigned short v);
    FERRY_HM operator float() const;
    FERRY_HM operator __nv_bfloat16_raw() const { return {__x}; }
};
struct __nv_bfloat162_raw { unsigned short x, y; };
struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    FERRY_HM constexpr __nv_bfloat162(const __nv_bfloat16 &x, const __nv_bfloat16 &y) : x(x), y(y) {}
    FERRY_HM constexpr __nv_bfloat162(__nv_bfloat162_raw r) : x(__nv_bfloat16_raw{r.x}), y(__nv_bfloat16_raw{r.y}) {}
    FERRY_HM operator __nv_bfloat162_raw() const { return {x.__x, y.__x}; }
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

FERRY_HD __nv_bfloat16 ferry_bfloat16(unsigned bits) { return __nv_bfloat16(__nv_bfloat16_raw{(unsigned short)bits}); }
FERRY_HD float __bfloat162float(__nv_bfloat16 b) { return __uint_as_float((unsigned)b.__x << 16); }

// ferry_bfloat16_up returns the upper half of a float, plus one in the last place if up and
// bits are cut off. NaN becomes the NaN 0x7fff.
FERRY_HD __nv_bfloat16 ferry_bfloat16_up(float v, bool up) {
    unsigned u = __float_as_uint(v);
    if (v != v) return ferry_bfloat16(0x7fff);
    return ferry_bfloat16((u >> 16) + (up && (u & 0xffff) != 0));
}
FERRY_HD __nv_bfloat16 __float2bfloat16_rz(float v) { return ferry_bfloat16_up(v, false); }
FERRY_HD __nv_bfloat16 __float2bfloat16_ru(float v) { return ferry_bfloat16_up(v, v > 0); }
FERRY_HD __nv_bfloat16 __float2bfloat16_rd(float v) { return ferry_bfloat16_up(v, v < 0); }
FERRY_HD __nv_bfloat16 __float2bfloat16_rn(float v) {
#if __CUDA_ARCH__ >= 800
    __nv_bfloat16 r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.__x) : "f"(v));
    return r;
#else
    unsigned u = __float_as_uint(v);
    if (v != v) return ferry_bfloat16(0x7fff);
    return ferry_bfloat16((u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}
FERRY_HD __nv_bfloat16 __float2bfloat16(float v) { return __float2bfloat16_rn(v); }

FERRY_HD __nv_bfloat16 __double2bfloat16(double v) { return __float2bfloat16_rn(ferry_odd(v)); }
#define FERRY_TO_BFLOAT16(NAME, FROM, WIDE)                                                \
    FERRY_HD __nv_bfloat16 NAME##_rn(FROM v) { return __float2bfloat16_rn(ferry_odd((WIDE)v)); } \
    FERRY_HD __nv_bfloat16 NAME##_rz(FROM v) { return __float2bfloat16_rz(ferry_odd((WIDE)v)); } \
    FERRY_HD __nv_bfloat16 NAME##_ru(FROM v) { return __float2bfloat16_ru(ferry_odd((WIDE)v)); } \
    FERRY_HD __nv_bfloat16 NAME##_rd(FROM v) { return __float2bfloat16_rd(ferry_odd((WIDE)v)); }
FERRY_TO_BFLOAT16(__int2bfloat16, int, long long)
FERRY_TO_BFLOAT16(__uint2bfloat16, unsigned, long long)
FERRY_TO_BFLOAT16(__ll2bfloat16, long long, long long)
FERRY_TO_BFLOAT16(__ull2bfloat16, unsigned long long, unsigned long long)
FERRY_TO_BFLOAT16(__short2bfloat16, short, long long)
FERRY_TO_BFLOAT16(__ushort2bfloat16, unsigned short, long long)
#undef FERRY_TO_BFLOAT16

FERRY_HD unsigned ferry_bits(__nv_bfloat162 v) { return v.x.__x | (unsigned)v.y.__x << 16; }
FERRY_HD __nv_bfloat162 ferry_bfloat162(unsigned r) { return __nv_bfloat162(__nv_bfloat162_raw{(unsigned short)r, (unsigned short)(r >> 16)}); }
#if __CUDA_ARCH__ >= 800
FERRY_HD __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { __nv_bfloat16 r; asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r.__x) : "h"(a.__x), "h"(b.__x), "h"(c.__x)); return r; }
FERRY_HD __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { unsigned r; asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(ferry_bits(a)), "r"(ferry_bits(b)), "r"(ferry_bits(c))); return ferry_bfloat162(r); }
#else
FERRY_HD __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return __double2bfloat16((double)__bfloat162float(a) * (double)__bfloat162float(b) + (double)__bfloat162float(c)); }
FERRY_HD __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
#endif

// Sums and products are fused products with 1, -1 and -0, as nvcc makes them for sm_80.
// Below sm_80 a float holds a sum or product well enough for one rounding.
#if __CUDA_ARCH__ >= 800
FERRY_HD __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return __hfma(a, ferry_bfloat16(0x3f80), b); }
FERRY_HD __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return __hfma(b, ferry_bfloat16(0xbf80), a); }
FERRY_HD __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return __hfma(a, b, ferry_bfloat16(0x8000)); }
FERRY_HD __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hfma2(a, ferry_bfloat162(0x3f803f80), b); }
FERRY_HD __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hfma2(b, ferry_bfloat162(0xbf80bf80), a); }
FERRY_HD __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return __hfma2(a, b, ferry_bfloat162(0x80008000)); }
#else
FERRY_HD __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) + __bfloat162float(b)); }
FERRY_HD __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) - __bfloat162float(b)); }
FERRY_HD __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return __float2bfloat16(__bfloat162float(a) * __bfloat162float(b)); }
FERRY_HD __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hadd(a.x, b.x), __hadd(a.y, b.y)}; }
FERRY_HD __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hsub(a.x, b.x), __hsub(a.y, b.y)}; }
FERRY_HD __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmul(a.x, b.x), __hmul(a.y, b.y)}; }
#endif

#define FERRY_T __nv_bfloat16
#define FERRY_T2 __nv_bfloat162
#define FERRY_RAW __nv_bfloat16_raw
#define FERRY_H bfloat16
#define FERRY_H2 bfloat162
#define FERRY_ONE 0x3f80
#define FERRY_INF 0x7f80
#define FERRY_NAN 0x7fff
#define FERRY_PTX "bf16"
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

// Atomic sums are loops of compare and swap, which work on every GPU.
#if __CUDA_ARCH__ >= 800
FERRY_D __nv_bfloat16 atomicAdd(__nv_bfloat16 *p, __nv_bfloat16 v) {
    unsigned short *w = (unsigned short *)p, old = *(volatile unsigned short *)w, seen;
    for (;; old = seen) {
        seen = atomicCAS(w, old, __hadd(ferry_bfloat16(old), v).__x);
        if (seen == old) return ferry_bfloat16(old);
    }
}
FERRY_D __nv_bfloat162 atomicAdd(__nv_bfloat162 *p, __nv_bfloat162 v) {
    unsigned *w = (unsigned *)p, old = *(volatile unsigned *)w, seen;
    for (;; old = seen) {
        seen = atomicCAS(w, old, ferry_bits(__hadd2(ferry_bfloat162(old), v)));
        if (seen == old) return ferry_bfloat162(old);
    }
}
#endif
#endif
#endif
