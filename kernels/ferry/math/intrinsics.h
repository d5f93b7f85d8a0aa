// CUDA's intrinsics of floating-point arithmetic: with a direction of rounding, and
// approximate ones. The latter are single instructions of a GPU, so that their bits differ
// between GPUs.
#pragma once
#include "base.h"

#define __FM_DIRECTIONS(NAME, T, C, OP, SUFFIX, N) \
    N(NAME##_rn, T, C, OP ".rn." SUFFIX) \
    N(NAME##_rz, T, C, OP ".rz." SUFFIX) \
    N(NAME##_ru, T, C, OP ".rp." SUFFIX) \
    N(NAME##_rd, T, C, OP ".rm." SUFFIX)

__FM_DIRECTIONS(__fadd, float, "f", "add", "f32", __FM_OP2)
__FM_DIRECTIONS(__fsub, float, "f", "sub", "f32", __FM_OP2)
__FM_DIRECTIONS(__fmul, float, "f", "mul", "f32", __FM_OP2)
__FM_DIRECTIONS(__fdiv, float, "f", "div", "f32", __FM_OP2)
__FM_DIRECTIONS(__fmaf, float, "f", "fma", "f32", __FM_OP3)
__FM_DIRECTIONS(__fmaf_ieee, float, "f", "fma", "f32", __FM_OP3)
__FM_DIRECTIONS(__frcp, float, "f", "rcp", "f32", __FM_OP1)
__FM_DIRECTIONS(__fsqrt, float, "f", "sqrt", "f32", __FM_OP1)
__FM_DIRECTIONS(__dadd, double, "d", "add", "f64", __FM_OP2)
__FM_DIRECTIONS(__dsub, double, "d", "sub", "f64", __FM_OP2)
__FM_DIRECTIONS(__dmul, double, "d", "mul", "f64", __FM_OP2)
__FM_DIRECTIONS(__ddiv, double, "d", "div", "f64", __FM_OP2)
__FM_DIRECTIONS(__fma, double, "d", "fma", "f64", __FM_OP3)
__FM_DIRECTIONS(__drcp, double, "d", "rcp", "f64", __FM_OP1)
__FM_DIRECTIONS(__dsqrt, double, "d", "sqrt", "f64", __FM_OP1)

// __frsqrt_rn rounds 1/sqrt(x) correctly: a test shows that no float is near a case where
// the two roundings in double matter.
__FM_FN float __frsqrt_rn(float x) { return __fm_narrow(__fm_div(1.0, __fm_sqrt(__fm_widen(x)))); }

__FM_OP1(__saturatef, float, "f", "cvt.sat.f32.f32")
__FM_OP2(__fdividef, float, "f", "div.approx.f32")
__FM_OP1(__sinf, float, "f", "sin.approx.f32")
__FM_OP1(__cosf, float, "f", "cos.approx.f32")
__FM_OP1(__log2f, float, "f", "lg2.approx.f32")
__FM_OP1(__fm_ex2, float, "f", "ex2.approx.f32")
__FM_OP1(__fm_sqrt_approx, float, "f", "sqrt.approx.f32")
__FM_OP1(__fm_rsqrt_approx, float, "f", "rsqrt.approx.f32")

__FM_FN float __tanf(float x) { return __fdividef(__sinf(x), __cosf(x)); }
__FM_FN float __expf(float x) { return __fm_ex2(__fm_mul(x, __fm_k<float>::log2e_a)); }
__FM_FN float __exp10f(float x) { return __fm_ex2(__fm_mul(x, __fm_k<float>::log2_10_a)); }
__FM_FN float __logf(float x) { return __fm_mul(__log2f(x), __fm_k<float>::ln2_a); }
__FM_FN float __log10f(float x) { return __fm_mul(__log2f(x), __fm_k<float>::log10_2_a); }
__FM_FN float __powf(float x, float y) { return __fm_ex2(__fm_mul(y, __log2f(x))); }
__FM_FN void __sincosf(float x, float *s, float *c) { *s = __sinf(x); *c = __cosf(x); }
