// Halves, pairs of halves and bfloat16.
#include "differ.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

KERNEL half_arithmetic(const __half *a, const __half *b, __half *out) {
    u32 i = thread();
    __half x = a[i], y = b[i], *o = out + 10 * i;
    o[0] = x + y;
    o[1] = x - y;
    o[2] = x * y;
    o[3] = __hfma(x, y, x);
    o[4] = __hmin(x, y);
    o[5] = __hmax(x, y);
    o[6] = __hneg(x);
    o[7] = __habs(y);
    o[8] = __hadd_sat(x, y);
    o[9] = __hlt(x, y) ? x : y;
}

KERNEL half_divide(const __half *a, const __half *b, __half *out) {
    u32 i = thread();
    out[2 * i] = a[i] / b[i];
    out[2 * i + 1] = hsqrt(__habs(a[i]));
}

KERNEL half_pairs(const __half2 *a, const __half2 *b, __half2 *out) {
    u32 i = thread();
    __half2 x = a[i], y = b[i], *o = out + 8 * i;
    o[0] = __hadd2(x, y);
    o[1] = __hmul2(x, y);
    o[2] = __hfma2(x, y, y);
    o[3] = __hsub2_sat(x, y);
    o[4] = __hmax2(x, y);
    o[5] = __lowhigh2highlow(x);
    o[6] = __hgt2(x, y);
    o[7] = __hfma2_relu(x, y, x);
}

KERNEL half_convert(const float *in, __half *out, float *back, i32 *whole) {
    u32 i = thread();
    float f = in[i];
    out[4 * i] = __float2half_rn(f);
    out[4 * i + 1] = __float2half_rz(f);
    out[4 * i + 2] = __float2half_ru(f);
    out[4 * i + 3] = __double2half((double)f * 1.0000001);
    back[i] = __half2float(out[4 * i]);
    whole[2 * i] = __half2int_rn(out[4 * i]);
    whole[2 * i + 1] = __half2ushort_rz(out[4 * i + 1]);
}

KERNEL half_integers(const i32 *in, __half *out) {
    u32 i = thread();
    out[2 * i] = __int2half_rn(in[i]);
    out[2 * i + 1] = __ushort2half_rd((u16)in[i]);
}

KERNEL half_reduce(const __half2 *in, __half *out) {
    __half2 v = in[thread()];
    for (int k = 16; k > 0; k >>= 1) v = __hadd2(v, __shfl_xor_sync(FULL, v, k));
    if (lane() == 0) out[thread() / 32] = __low2half(v) + __high2half(v);
}

KERNEL bf16_arithmetic(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *out) {
    u32 i = thread();
    __nv_bfloat16 x = a[i], y = b[i], *o = out + 7 * i;
    o[0] = x + y;
    o[1] = x - y;
    o[2] = x * y;
    o[3] = __hfma(x, y, x);
    o[4] = __hmin(x, y);
    o[5] = __hmax_nan(x, y);
    o[6] = __habs(x);
}

KERNEL bf16_convert(const float *in, __nv_bfloat16 *out, float *back) {
    u32 i = thread();
    out[3 * i] = __float2bfloat16_rn(in[i]);
    out[3 * i + 1] = __float2bfloat16_rz(in[i]);
    __nv_bfloat162 p = __floats2bfloat162_rn(in[i], in[i ^ 1]);
    out[3 * i + 2] = __high2bfloat16(p);
    back[i] = __bfloat162float(out[3 * i]);
}

KERNEL half_functions(const __half *in, __half *out) {
    u32 i = thread();
    out[4 * i] = hexp2(in[i]);
    out[4 * i + 1] = hlog2(__habs(in[i]));
    out[4 * i + 2] = hrcp(in[i]);
    out[4 * i + 3] = hrsqrt(__habs(in[i]));
}
