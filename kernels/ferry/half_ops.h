// The functions that half.h and bfloat16.h share: the file is included once for each. FERRY_T
// and FERRY_T2 are the types, FERRY_H and FERRY_H2 their names in functions, as half in
// __float2half. The rest of the arithmetic goes through float, which holds every value.
#define FERRY_PASTE(a, b, c) a##b##c
#define FERRY_JOIN(a, b, c) FERRY_PASTE(a, b, c)
#define FERRY_FLOAT FERRY_JOIN(__, FERRY_H, 2float)
#define FERRY_ROUND FERRY_JOIN(__float2, FERRY_H, _rn)
#define FERRY_WORD(bits) FERRY_T(FERRY_RAW{(unsigned short)(bits)})

FERRY_HM FERRY_T::FERRY_T(float v) : __x(FERRY_JOIN(__float2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(double v) : __x(FERRY_JOIN(__double2, FERRY_H, )(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(int v) : __x(FERRY_JOIN(__int2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(unsigned v) : __x(FERRY_JOIN(__uint2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(long v) : __x(FERRY_JOIN(__ll2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(unsigned long v) : __x(FERRY_JOIN(__ull2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(long long v) : __x(FERRY_JOIN(__ll2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(unsigned long long v) : __x(FERRY_JOIN(__ull2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(short v) : __x(FERRY_JOIN(__short2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::FERRY_T(unsigned short v) : __x(FERRY_JOIN(__ushort2, FERRY_H, _rn)(v).__x) {}
FERRY_HM FERRY_T::operator float() const { return FERRY_FLOAT(*this); }

FERRY_HD int FERRY_JOIN(__, FERRY_H, 2int_rn)(FERRY_T v) { return __float2int_rn(FERRY_FLOAT(v)); }
FERRY_HD int FERRY_JOIN(__, FERRY_H, 2int_rz)(FERRY_T v) { return __float2int_rz(FERRY_FLOAT(v)); }
FERRY_HD int FERRY_JOIN(__, FERRY_H, 2int_ru)(FERRY_T v) { return __float2int_ru(FERRY_FLOAT(v)); }
FERRY_HD int FERRY_JOIN(__, FERRY_H, 2int_rd)(FERRY_T v) { return __float2int_rd(FERRY_FLOAT(v)); }
FERRY_HD unsigned FERRY_JOIN(__, FERRY_H, 2uint_rn)(FERRY_T v) { return __float2uint_rn(FERRY_FLOAT(v)); }
FERRY_HD unsigned FERRY_JOIN(__, FERRY_H, 2uint_rz)(FERRY_T v) { return __float2uint_rz(FERRY_FLOAT(v)); }
FERRY_HD unsigned FERRY_JOIN(__, FERRY_H, 2uint_ru)(FERRY_T v) { return __float2uint_ru(FERRY_FLOAT(v)); }
FERRY_HD unsigned FERRY_JOIN(__, FERRY_H, 2uint_rd)(FERRY_T v) { return __float2uint_rd(FERRY_FLOAT(v)); }
FERRY_HD long long FERRY_JOIN(__, FERRY_H, 2ll_rn)(FERRY_T v) { return __float2ll_rn(FERRY_FLOAT(v)); }
FERRY_HD long long FERRY_JOIN(__, FERRY_H, 2ll_rz)(FERRY_T v) { return __float2ll_rz(FERRY_FLOAT(v)); }
FERRY_HD long long FERRY_JOIN(__, FERRY_H, 2ll_ru)(FERRY_T v) { return __float2ll_ru(FERRY_FLOAT(v)); }
FERRY_HD long long FERRY_JOIN(__, FERRY_H, 2ll_rd)(FERRY_T v) { return __float2ll_rd(FERRY_FLOAT(v)); }
FERRY_HD unsigned long long FERRY_JOIN(__, FERRY_H, 2ull_rn)(FERRY_T v) { return __float2ull_rn(FERRY_FLOAT(v)); }
FERRY_HD unsigned long long FERRY_JOIN(__, FERRY_H, 2ull_rz)(FERRY_T v) { return __float2ull_rz(FERRY_FLOAT(v)); }
FERRY_HD unsigned long long FERRY_JOIN(__, FERRY_H, 2ull_ru)(FERRY_T v) { return __float2ull_ru(FERRY_FLOAT(v)); }
FERRY_HD unsigned long long FERRY_JOIN(__, FERRY_H, 2ull_rd)(FERRY_T v) { return __float2ull_rd(FERRY_FLOAT(v)); }
FERRY_HD short FERRY_JOIN(__, FERRY_H, 2short_rn)(FERRY_T v) { int i = __float2int_rn(FERRY_FLOAT(v)); return (short)(i < -32768 ? -32768 : i > 32767 ? 32767 : i); }
FERRY_HD short FERRY_JOIN(__, FERRY_H, 2short_rz)(FERRY_T v) { int i = __float2int_rz(FERRY_FLOAT(v)); return (short)(i < -32768 ? -32768 : i > 32767 ? 32767 : i); }
FERRY_HD short FERRY_JOIN(__, FERRY_H, 2short_ru)(FERRY_T v) { int i = __float2int_ru(FERRY_FLOAT(v)); return (short)(i < -32768 ? -32768 : i > 32767 ? 32767 : i); }
FERRY_HD short FERRY_JOIN(__, FERRY_H, 2short_rd)(FERRY_T v) { int i = __float2int_rd(FERRY_FLOAT(v)); return (short)(i < -32768 ? -32768 : i > 32767 ? 32767 : i); }
FERRY_HD unsigned short FERRY_JOIN(__, FERRY_H, 2ushort_rn)(FERRY_T v) { int i = __float2int_rn(FERRY_FLOAT(v)); return (unsigned short)(i < 0 ? 0 : i > 65535 ? 65535 : i); }
FERRY_HD unsigned short FERRY_JOIN(__, FERRY_H, 2ushort_rz)(FERRY_T v) { int i = __float2int_rz(FERRY_FLOAT(v)); return (unsigned short)(i < 0 ? 0 : i > 65535 ? 65535 : i); }
FERRY_HD unsigned short FERRY_JOIN(__, FERRY_H, 2ushort_ru)(FERRY_T v) { int i = __float2int_ru(FERRY_FLOAT(v)); return (unsigned short)(i < 0 ? 0 : i > 65535 ? 65535 : i); }
FERRY_HD unsigned short FERRY_JOIN(__, FERRY_H, 2ushort_rd)(FERRY_T v) { int i = __float2int_rd(FERRY_FLOAT(v)); return (unsigned short)(i < 0 ? 0 : i > 65535 ? 65535 : i); }

FERRY_HD short FERRY_JOIN(__, FERRY_H, _as_short)(FERRY_T v) { return (short)v.__x; }
FERRY_HD unsigned short FERRY_JOIN(__, FERRY_H, _as_ushort)(FERRY_T v) { return v.__x; }
FERRY_HD FERRY_T FERRY_JOIN(__short_as_, FERRY_H, )(short v) { return FERRY_WORD(v); }
FERRY_HD FERRY_T FERRY_JOIN(__ushort_as_, FERRY_H, )(unsigned short v) { return FERRY_WORD(v); }

// Pairs: x is the lower half of the word, y the upper.
FERRY_HD FERRY_T2 FERRY_JOIN(make_, FERRY_H2, )(FERRY_T x, FERRY_T y) { return {x, y}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__halves2, FERRY_H2, )(FERRY_T x, FERRY_T y) { return {x, y}; }
FERRY_HD FERRY_T2 FERRY_JOIN(FERRY_JOIN(__, FERRY_H, 2), FERRY_H2, )(FERRY_T v) { return {v, v}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__floats2, FERRY_H2, _rn)(float x, float y) { return {FERRY_ROUND(x), FERRY_ROUND(y)}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__float2, FERRY_H2, _rn)(float v) { return {FERRY_ROUND(v), FERRY_ROUND(v)}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__float22, FERRY_H2, _rn)(float2 v) { return {FERRY_ROUND(v.x), FERRY_ROUND(v.y)}; }
FERRY_HD float2 FERRY_JOIN(__, FERRY_H2, 2float2)(FERRY_T2 v) { return make_float2(FERRY_FLOAT(v.x), FERRY_FLOAT(v.y)); }
FERRY_HD float __low2float(FERRY_T2 v) { return FERRY_FLOAT(v.x); }
FERRY_HD float __high2float(FERRY_T2 v) { return FERRY_FLOAT(v.y); }
FERRY_HD FERRY_T FERRY_JOIN(__low2, FERRY_H, )(FERRY_T2 v) { return v.x; }
FERRY_HD FERRY_T FERRY_JOIN(__high2, FERRY_H, )(FERRY_T2 v) { return v.y; }
FERRY_HD FERRY_T2 FERRY_JOIN(__low2, FERRY_H2, )(FERRY_T2 v) { return {v.x, v.x}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__high2, FERRY_H2, )(FERRY_T2 v) { return {v.y, v.y}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__lows2, FERRY_H2, )(FERRY_T2 a, FERRY_T2 b) { return {a.x, b.x}; }
FERRY_HD FERRY_T2 FERRY_JOIN(__highs2, FERRY_H2, )(FERRY_T2 a, FERRY_T2 b) { return {a.y, b.y}; }
FERRY_HD FERRY_T2 __lowhigh2highlow(FERRY_T2 v) { return {v.y, v.x}; }

FERRY_HD bool __hisnan(FERRY_T v) { return (v.__x & 0x7fff) > FERRY_INF; }
FERRY_HD int __hisinf(FERRY_T v) { return v.__x == FERRY_INF ? 1 : v.__x == (FERRY_INF | 0x8000) ? -1 : 0; }
#if __CUDA_ARCH__ >= 800
FERRY_HD FERRY_T __hneg(FERRY_T v) { FERRY_T r; asm("neg." FERRY_PTX " %0, %1;" : "=h"(r.__x) : "h"(v.__x)); return r; }
FERRY_HD FERRY_T __habs(FERRY_T v) { FERRY_T r; asm("abs." FERRY_PTX " %0, %1;" : "=h"(r.__x) : "h"(v.__x)); return r; }
#else
FERRY_HD FERRY_T __hneg(FERRY_T v) { return __hisnan(v) ? FERRY_WORD(FERRY_NAN) : FERRY_WORD(v.__x ^ 0x8000); }
FERRY_HD FERRY_T __habs(FERRY_T v) { return __hisnan(v) ? FERRY_WORD(FERRY_NAN) : FERRY_WORD(v.__x & 0x7fff); }
#endif
FERRY_HD FERRY_T __hdiv(FERRY_T a, FERRY_T b) { return FERRY_ROUND(FERRY_FLOAT(a) / FERRY_FLOAT(b)); }
FERRY_HD FERRY_T2 __hneg2(FERRY_T2 v) { return {__hneg(v.x), __hneg(v.y)}; }
FERRY_HD FERRY_T2 __habs2(FERRY_T2 v) { return {__habs(v.x), __habs(v.y)}; }
FERRY_HD FERRY_T2 __h2div(FERRY_T2 a, FERRY_T2 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }
FERRY_HD FERRY_T2 __hisnan2(FERRY_T2 v) { return {FERRY_WORD(__hisnan(v.x) ? FERRY_ONE : 0), FERRY_WORD(__hisnan(v.y) ? FERRY_ONE : 0)}; }
FERRY_HD FERRY_T __hadd_rn(FERRY_T a, FERRY_T b) { return __hadd(a, b); }
FERRY_HD FERRY_T __hsub_rn(FERRY_T a, FERRY_T b) { return __hsub(a, b); }
FERRY_HD FERRY_T __hmul_rn(FERRY_T a, FERRY_T b) { return __hmul(a, b); }
FERRY_HD FERRY_T2 __hadd2_rn(FERRY_T2 a, FERRY_T2 b) { return __hadd2(a, b); }
FERRY_HD FERRY_T2 __hsub2_rn(FERRY_T2 a, FERRY_T2 b) { return __hsub2(a, b); }
FERRY_HD FERRY_T2 __hmul2_rn(FERRY_T2 a, FERRY_T2 b) { return __hmul2(a, b); }

// Comparisons. With NaN those whose name ends in u are true, the others false. The forms for
// pairs give 1 or 0 for each element; those with b say whether both are true.
#define FERRY_COMPARE(NAME, ORDERED, UNORDERED)                                            \
    FERRY_HD bool __h##NAME(FERRY_T a, FERRY_T b) { float x = FERRY_FLOAT(a), y = FERRY_FLOAT(b); return ORDERED; } \
    FERRY_HD bool __h##NAME##u(FERRY_T a, FERRY_T b) { float x = FERRY_FLOAT(a), y = FERRY_FLOAT(b); return UNORDERED; } \
    FERRY_HD FERRY_T2 __h##NAME##2(FERRY_T2 a, FERRY_T2 b) { return {FERRY_WORD(__h##NAME(a.x, b.x) ? FERRY_ONE : 0), FERRY_WORD(__h##NAME(a.y, b.y) ? FERRY_ONE : 0)}; } \
    FERRY_HD FERRY_T2 __h##NAME##u2(FERRY_T2 a, FERRY_T2 b) { return {FERRY_WORD(__h##NAME##u(a.x, b.x) ? FERRY_ONE : 0), FERRY_WORD(__h##NAME##u(a.y, b.y) ? FERRY_ONE : 0)}; } \
    FERRY_HD bool __hb##NAME##2(FERRY_T2 a, FERRY_T2 b) { return __h##NAME(a.x, b.x) && __h##NAME(a.y, b.y); } \
    FERRY_HD bool __hb##NAME##u2(FERRY_T2 a, FERRY_T2 b) { return __h##NAME##u(a.x, b.x) && __h##NAME##u(a.y, b.y); }
FERRY_COMPARE(eq, x == y, !(x < y) && !(x > y))
FERRY_COMPARE(ne, x < y || x > y, x != y)
FERRY_COMPARE(lt, x < y, !(x >= y))
FERRY_COMPARE(le, x <= y, !(x > y))
FERRY_COMPARE(gt, x > y, !(x <= y))
FERRY_COMPARE(ge, x >= y, !(x < y))
#undef FERRY_COMPARE

// __hmin and __hmax return the number if one operand is NaN; those with _nan return NaN. -0 is
// less than 0.
#if __CUDA_ARCH__ >= 800
#define FERRY_MINMAX(NAME, OP)                                                             \
    FERRY_HD FERRY_T NAME(FERRY_T a, FERRY_T b) { FERRY_T r; asm(OP "." FERRY_PTX " %0, %1, %2;" : "=h"(r.__x) : "h"(a.__x), "h"(b.__x)); return r; }
FERRY_MINMAX(__hmin, "min")
FERRY_MINMAX(__hmax, "max")
FERRY_MINMAX(__hmin_nan, "min.NaN")
FERRY_MINMAX(__hmax_nan, "max.NaN")
#undef FERRY_MINMAX
#else
FERRY_HD FERRY_T __hmin(FERRY_T a, FERRY_T b) {
    if (__hisnan(a)) return __hisnan(b) ? FERRY_WORD(FERRY_NAN) : b;
    if (__hisnan(b)) return a;
    return FERRY_FLOAT(a) < FERRY_FLOAT(b) || (FERRY_FLOAT(a) == FERRY_FLOAT(b) && a.__x >> 15) ? a : b;
}
FERRY_HD FERRY_T __hmax(FERRY_T a, FERRY_T b) {
    if (__hisnan(a)) return __hisnan(b) ? FERRY_WORD(FERRY_NAN) : b;
    if (__hisnan(b)) return a;
    return FERRY_FLOAT(a) > FERRY_FLOAT(b) || (FERRY_FLOAT(a) == FERRY_FLOAT(b) && !(a.__x >> 15)) ? a : b;
}
FERRY_HD FERRY_T __hmin_nan(FERRY_T a, FERRY_T b) { return __hisnan(a) || __hisnan(b) ? FERRY_WORD(FERRY_NAN) : __hmin(a, b); }
FERRY_HD FERRY_T __hmax_nan(FERRY_T a, FERRY_T b) { return __hisnan(a) || __hisnan(b) ? FERRY_WORD(FERRY_NAN) : __hmax(a, b); }
#endif
FERRY_HD FERRY_T2 __hmin2(FERRY_T2 a, FERRY_T2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
FERRY_HD FERRY_T2 __hmax2(FERRY_T2 a, FERRY_T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
FERRY_HD FERRY_T2 __hmin2_nan(FERRY_T2 a, FERRY_T2 b) { return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }
FERRY_HD FERRY_T2 __hmax2_nan(FERRY_T2 a, FERRY_T2 b) { return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }
FERRY_HD FERRY_T __hfma_relu(FERRY_T a, FERRY_T b, FERRY_T c) { return __hmax_nan(__hfma(a, b, c), FERRY_WORD(0)); }
FERRY_HD FERRY_T2 __hfma2_relu(FERRY_T2 a, FERRY_T2 b, FERRY_T2 c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; }

// Functions of a half through those of float, and of each element of a pair.
#define FERRY_FUNCTION(NAME, EXPR)                                                         \
    FERRY_HD FERRY_T h##NAME(FERRY_T v) { float x = FERRY_FLOAT(v); return FERRY_ROUND(EXPR); } \
    FERRY_HD FERRY_T2 h2##NAME(FERRY_T2 v) { return {h##NAME(v.x), h##NAME(v.y)}; }
FERRY_FUNCTION(sqrt, sqrtf(x))
FERRY_FUNCTION(rsqrt, rsqrtf(x))
FERRY_FUNCTION(rcp, 1 / x)
FERRY_FUNCTION(exp, expf(x))
FERRY_FUNCTION(exp2, exp2f(x))
FERRY_FUNCTION(exp10, exp10f(x))
FERRY_FUNCTION(log, logf(x))
FERRY_FUNCTION(log2, log2f(x))
FERRY_FUNCTION(log10, log10f(x))
FERRY_FUNCTION(sin, sinf(x))
FERRY_FUNCTION(cos, cosf(x))
FERRY_FUNCTION(floor, floorf(x))
FERRY_FUNCTION(ceil, ceilf(x))
FERRY_FUNCTION(trunc, truncf(x))
FERRY_FUNCTION(rint, rintf(x))
#undef FERRY_FUNCTION
FERRY_HD FERRY_T htanh(FERRY_T v) { return FERRY_ROUND(tanhf(FERRY_FLOAT(v))); }
FERRY_HD FERRY_T2 h2tanh(FERRY_T2 v) { return {htanh(v.x), htanh(v.y)}; }

#define FERRY_OPERATOR(OP, NAME)                                                           \
    FERRY_HD FERRY_T operator OP(const FERRY_T &a, const FERRY_T &b) { return NAME(a, b); } \
    FERRY_HD FERRY_T &operator OP##=(FERRY_T &a, const FERRY_T &b) { return a = NAME(a, b); }
#define FERRY_OPERATOR2(OP, NAME)                                                          \
    FERRY_HD FERRY_T2 operator OP(const FERRY_T2 &a, const FERRY_T2 &b) { return NAME(a, b); } \
    FERRY_HD FERRY_T2 &operator OP##=(FERRY_T2 &a, const FERRY_T2 &b) { return a = NAME(a, b); }
FERRY_OPERATOR(+, __hadd)
FERRY_OPERATOR(-, __hsub)
FERRY_OPERATOR(*, __hmul)
FERRY_OPERATOR(/, __hdiv)
FERRY_OPERATOR2(+, __hadd2)
FERRY_OPERATOR2(-, __hsub2)
FERRY_OPERATOR2(*, __hmul2)
FERRY_OPERATOR2(/, __h2div)
FERRY_HD FERRY_T operator+(const FERRY_T &a) { return a; }
FERRY_HD FERRY_T operator-(const FERRY_T &a) { return __hneg(a); }
FERRY_HD FERRY_T &operator++(FERRY_T &a) { return a = __hadd(a, FERRY_WORD(FERRY_ONE)); }
FERRY_HD FERRY_T &operator--(FERRY_T &a) { return a = __hsub(a, FERRY_WORD(FERRY_ONE)); }
FERRY_HD FERRY_T operator++(FERRY_T &a, int) { FERRY_T old = a; ++a; return old; }
FERRY_HD FERRY_T operator--(FERRY_T &a, int) { FERRY_T old = a; --a; return old; }
FERRY_HD FERRY_T2 operator+(const FERRY_T2 &a) { return a; }
FERRY_HD FERRY_T2 operator-(const FERRY_T2 &a) { return __hneg2(a); }
FERRY_HD bool operator==(const FERRY_T &a, const FERRY_T &b) { return __heq(a, b); }
FERRY_HD bool operator==(const FERRY_T2 &a, const FERRY_T2 &b) { return __hbeq2(a, b); }
FERRY_HD bool operator!=(const FERRY_T &a, const FERRY_T &b) { return __hneu(a, b); }
FERRY_HD bool operator!=(const FERRY_T2 &a, const FERRY_T2 &b) { return __hbneu2(a, b); }
FERRY_HD bool operator<(const FERRY_T &a, const FERRY_T &b) { return __hlt(a, b); }
FERRY_HD bool operator<(const FERRY_T2 &a, const FERRY_T2 &b) { return __hblt2(a, b); }
FERRY_HD bool operator<=(const FERRY_T &a, const FERRY_T &b) { return __hle(a, b); }
FERRY_HD bool operator<=(const FERRY_T2 &a, const FERRY_T2 &b) { return __hble2(a, b); }
FERRY_HD bool operator>(const FERRY_T &a, const FERRY_T &b) { return __hgt(a, b); }
FERRY_HD bool operator>(const FERRY_T2 &a, const FERRY_T2 &b) { return __hbgt2(a, b); }
FERRY_HD bool operator>=(const FERRY_T &a, const FERRY_T &b) { return __hge(a, b); }
FERRY_HD bool operator>=(const FERRY_T2 &a, const FERRY_T2 &b) { return __hbge2(a, b); }
#undef FERRY_OPERATOR
#undef FERRY_OPERATOR2

#define FERRY_SHUFFLE(NAME, LANE)                                                          \
    FERRY_D FERRY_T NAME(unsigned mask, FERRY_T v, LANE k, int width = 32) { return FERRY_WORD(NAME(mask, (unsigned)v.__x, k, width)); } \
    FERRY_D FERRY_T2 NAME(unsigned mask, FERRY_T2 v, LANE k, int width = 32) { \
        unsigned w = NAME(mask, ferry_bits(v), k, width);                                  \
        return {FERRY_WORD(w), FERRY_WORD(w >> 16)};                                       \
    }
FERRY_SHUFFLE(__shfl_sync, int)
FERRY_SHUFFLE(__shfl_up_sync, unsigned)
FERRY_SHUFFLE(__shfl_down_sync, unsigned)
FERRY_SHUFFLE(__shfl_xor_sync, int)
#undef FERRY_SHUFFLE
#undef FERRY_PASTE
#undef FERRY_JOIN
#undef FERRY_FLOAT
#undef FERRY_ROUND
#undef FERRY_WORD
