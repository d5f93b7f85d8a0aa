// Circular functions and their inverses.
#pragma once
#include "exp.h"

// __fm_angle is an angle of at most pi/4 or a little more, after quarters of a turn.
template <class T> struct __fm_angle { __fm_dd<T> r; int quarter; };

// __fm_reduce_huge reduces any finite x by multiplication with 192 bits of 2/pi (the
// method of Payne and Hanek).
__FM_SLOW __fm_angle<double> __fm_reduce_huge(double x)
{
    typedef unsigned long long u64;
    u64 bits = __fm_abits(x), m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    int from = (int)(bits >> 52) - 1075 + 62; // the first bit of 2/pi of weight 2 or less
    u64 w[4];
    for (int i = 0; i < 4; i++) w[i] = __fm_twoopi[from / 64 + i];
    int n = from % 64;
    for (int i = 0; i < 3 && n; i++) w[i] = w[i] << n | w[i + 1] >> (64 - n);
    // The product modulo 4. Its first two bits are quarters.
    u64 c = m * w[2], b = m * w[1], hi = __nvvm_mulhi_ull(m, w[2]), a = m * w[0] + __nvvm_mulhi_ull(m, w[1]);
    b += hi;
    a += b < hi;
    int quarter = (int)(a >> 62);
    a = a << 2 | b >> 62;
    b = b << 2 | c >> 62;
    c <<= 2;
    bool minus = (a >> 63) != 0;
    if (minus) {
        quarter++;
        c = ~c + 1;
        b = ~b + (c == 0);
        a = ~a + (c == 0 && b == 0);
    }
    int shift = 0;
    if (a == 0) {
        a = b;
        b = c;
        c = 0;
        shift = 64;
    }
    int zeros = __builtin_clzll(a);
    if (zeros) {
        a = a << zeros | b >> (64 - zeros);
        b = b << zeros | c >> (64 - zeros);
    }
    __fm_dd<double> f = {(double)(a >> 11), __fm_mul((double)(a << 53 | b >> 11), 0x1p-64)};
    __fm_dd<double> r = __fm_by(f, {__fm_k<double>::pio2_a, __fm_k<double>::pio2_b});
    double scale = __fm_pow2<double>(-53 - shift - zeros);
    r = __fm_fast2(__fm_mul(r.h, scale), __fm_mul(r.l, scale));
    if (minus != __fm_isneg(x)) r = {__fm_neg(r.h), __fm_neg(r.l)};
    return {r, __fm_isneg(x) ? -quarter : quarter};
}

__FM_FN __fm_angle<double> __fm_reduce_far(double x) { return __fm_reduce_huge(x); }

__FM_FN __fm_angle<float> __fm_reduce_far(float x)
{
    __fm_angle<double> a = __fm_reduce_huge(__fm_widen(x));
    float h = __fm_narrow(a.r.h);
    return {{h, __fm_narrow(__fm_sub(a.r.h, __fm_widen(h)))}, a.quarter};
}

// __fm_reduce reduces a finite x. Below the bound three parts of pi/2 are enough: the
// first subtraction is exact.
template <class T> __FM_FN __fm_angle<T> __fm_reduce(T x)
{
    if (!__fm_below(x, __fm_t<T>::huge)) return __fm_reduce_far(x);
    T k = __fm_nearest(x, __fm_k<T>::twoopi_a);
    T r = __fm_fma(__fm_neg(k), __fm_k<T>::pio2_a, x);
    __fm_dd<T> p = __fm_prod(k, __fm_k<T>::pio2_b), s = __fm_two(r, __fm_neg(p.h));
    T l = __fm_fma(__fm_neg(k), __fm_k<T>::pio2_c, __fm_sub(s.l, p.l));
    return {__fm_fast2(s.h, l), (int)k};
}

template <class T> __FM_FN __fm_dd<T> __fm_sin_near(__fm_dd<T> r)
{
    T z = __fm_mul(r.h, r.h);
    T l = __fm_fma(__fm_mul((T)-0.5, z), r.l, r.l);
    return {r.h, __fm_fma(__fm_mul(r.h, z), __fm_k<T>::sin(z), l)};
}

template <class T> __FM_FN __fm_dd<T> __fm_cos_near(__fm_dd<T> r)
{
    __fm_dd<T> z = __fm_prod(r.h, r.h);
    __fm_dd<T> c = __fm_fast2((T)1, __fm_mul((T)-0.5, z.h));
    T l = __fm_fma((T)-0.5, z.l, __fm_fma(__fm_neg(r.h), r.l, c.l));
    return {c.h, __fm_fma(__fm_mul(z.h, z.h), __fm_k<T>::cos(z.h), l)};
}

// __fm_sin_at returns the sine of an angle in parts.
template <class T> __FM_FN __fm_dd<T> __fm_sin_at(__fm_dd<T> r, int quarter)
{
    __fm_dd<T> y = quarter & 1 ? __fm_cos_near(r) : __fm_sin_near(r);
    if (quarter & 2) y = {__fm_neg(y.h), __fm_neg(y.l)};
    return y;
}

template <class T> __FM_FN T __fm_join(__fm_dd<T> a) { return __fm_add(a.h, a.l); }

// __fm_circle_edge returns the NaN for infinite x or NaN.
template <class T> __FM_FN T __fm_circle_edge(T x) { return __fm_isnan(x) ? __fm_add(x, x) : __fm_nan<T>(); }

template <class T> __FM_FN bool __fm_small(T x) { return __fm_below(x, __fm_pow2<T>(-__fm_t<T>::p / 2 - 1)); }

template <class T> __FM_FN T __fm_sin(T x)
{
    if (__fm_small(x)) return x;
    if (!__fm_isfinite(x)) return __fm_circle_edge(x);
    __fm_angle<T> a = __fm_reduce(x);
    return __fm_join(__fm_sin_at(a.r, a.quarter));
}

template <class T> __FM_FN T __fm_cos(T x)
{
    if (!__fm_isfinite(x)) return __fm_circle_edge(x);
    __fm_angle<T> a = __fm_reduce(x);
    return __fm_join(__fm_sin_at(a.r, a.quarter + 1));
}

// __fm_sincos has the same bits as __fm_sin and __fm_cos.
template <class T> __FM_FN void __fm_sincos(T x, T *s, T *c)
{
    if (!__fm_isfinite(x)) {
        *s = *c = __fm_circle_edge(x);
        return;
    }
    __fm_angle<T> a = __fm_reduce(x);
    T y[2] = {__fm_join(__fm_sin_near(a.r)), __fm_join(__fm_cos_near(a.r))};
    bool odd = a.quarter & 1;
    T sine = odd ? y[1] : y[0], cosine = odd ? y[0] : y[1];
    if (a.quarter & 2) sine = __fm_neg(sine);
    if ((a.quarter + 1) & 2) cosine = __fm_neg(cosine);
    *s = __fm_small(x) ? x : sine;
    *c = cosine;
}

template <class T> __FM_FN T __fm_tan(T x)
{
    if (__fm_small(x)) return x;
    if (!__fm_isfinite(x)) return __fm_circle_edge(x);
    __fm_angle<T> a = __fm_reduce(x);
    __fm_dd<T> s = __fm_sin_near(a.r), c = __fm_cos_near(a.r);
    s = __fm_fast2(s.h, s.l);
    c = __fm_fast2(c.h, c.l);
    if (a.quarter & 1) return __fm_neg(__fm_join(__fm_ratio(c, s)));
    return __fm_join(__fm_ratio(s, c));
}

// __fm_reduce_pi returns the angle pi*x.
template <class T> __FM_FN __fm_angle<T> __fm_reduce_pi(T x)
{
    if (__fm_abs(x) >= __fm_pow2<T>(__fm_t<T>::p)) return {{0, 0}, 0};
    T k = __fm_rint(__fm_add(x, x)), r = __fm_fma((T)-0.5, k, x);
    return {__fm_by<T>({__fm_k<T>::pi_a, __fm_k<T>::pi_b}, r), (int)((long long)k & 3)};
}

template <class T> __FM_FN T __fm_sinpi(T x)
{
    if (!__fm_isfinite(x)) return __fm_circle_edge(x);
    __fm_angle<T> a = __fm_reduce_pi(x);
    if (__fm_iszero(a.r.h) && !(a.quarter & 1)) return __fm_signed((T)0, x);
    return __fm_join(__fm_sin_at(a.r, a.quarter));
}

template <class T> __FM_FN T __fm_cospi(T x)
{
    if (!__fm_isfinite(x)) return __fm_circle_edge(x);
    __fm_angle<T> a = __fm_reduce_pi(x);
    if (__fm_iszero(a.r.h) && (a.quarter & 1)) return 0;
    return __fm_join(__fm_sin_at(a.r, a.quarter + 1));
}

// __fm_atan_near returns atan(t), 0 <= t <= 1.
template <class T> __FM_FN __fm_dd<T> __fm_atan_near(__fm_dd<T> t)
{
    T z = __fm_mul(t.h, t.h);
    T l = __fm_fma(__fm_mul((T)-0.5, z), t.l, t.l);
    return {t.h, __fm_fma(__fm_mul(t.h, z), __fm_k<T>::atan(z), l)};
}

// __fm_from_angle returns n * pi/2 - a, for n = 1 or 2.
template <class T> __FM_FN T __fm_from_angle(int n, __fm_dd<T> a)
{
    __fm_dd<T> s = __fm_fast2(__fm_mul((T)n, __fm_k<T>::pio2_a), __fm_neg(a.h));
    return __fm_add(s.h, __fm_add(s.l, __fm_fma((T)n, __fm_k<T>::pio2_b, __fm_neg(a.l))));
}

// __fm_quotient returns a/b for 0 <= a <= b, b > 0. b may be infinite.
template <class T> __FM_FN __fm_dd<T> __fm_quotient(T a, T b)
{
    if (__fm_isinf(b)) return {a == b ? (T)1 : (T)0, 0};
    T q = __fm_div(a, b);
    return {q, __fm_div(__fm_fma(__fm_neg(q), b, a), b)};
}

// __fm_inverse returns 1/b for b > 1.
template <class T> __FM_FN __fm_dd<T> __fm_inverse(T b)
{
    if (__fm_isinf(b)) return {0, 0};
    T q = __fm_div((T)1, b);
    return {q, __fm_mul(__fm_fma(__fm_neg(q), b, (T)1), q)};
}

template <class T> __FM_FN T __fm_atan(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_small(x)) return x;
    T a = __fm_abs(x);
    T y = a > 1 ? __fm_from_angle(1, __fm_atan_near(__fm_inverse(a))) : __fm_join(__fm_atan_near<T>({a, 0}));
    return __fm_signed(y, x);
}

template <class T> __FM_FN T __fm_atan2(T y, T x)
{
    if (__fm_isnan(x) || __fm_isnan(y)) return __fm_nan_of(x, y);
    T ay = __fm_abs(y), ax = __fm_abs(x);
    bool steep = ay > ax;
    __fm_dd<T> a = {0, 0};
    if (ay != 0) a = __fm_atan_near(__fm_quotient(steep ? ax : ay, steep ? ay : ax));
    T r;
    if (steep) {
        if (__fm_isneg(x)) a = {__fm_neg(a.h), __fm_neg(a.l)};
        r = __fm_from_angle(1, a);
    } else if (__fm_isneg(x)) {
        r = __fm_from_angle(2, a);
    } else {
        r = __fm_join(a);
    }
    return __fm_signed(r, y);
}

// __fm_asin_near returns asin(s), 0 <= s <= 1/2, with z = s^2.
template <class T> __FM_FN __fm_dd<T> __fm_asin_near(__fm_dd<T> s, T z)
{
    return {s.h, __fm_fma(__fm_mul(s.h, z), __fm_k<T>::asin(z), s.l)};
}

// __fm_asin_rest returns acos(a), 1/2 <= a <= 1.
template <class T> __FM_FN __fm_dd<T> __fm_asin_rest(T a)
{
    T z = __fm_mul((T)0.5, __fm_sub((T)1, a)); // exact
    if (z == 0) return {0, 0};
    __fm_dd<T> y = __fm_asin_near(__fm_root<T>({z, 0}), z);
    return {__fm_add(y.h, y.h), __fm_add(y.l, y.l)};
}

template <class T> __FM_FN T __fm_asin(T x)
{
    if (__fm_small(x)) return x;
    if (!(__fm_abs(x) <= 1)) return __fm_isnan(x) ? __fm_add(x, x) : __fm_nan<T>();
    T a = __fm_abs(x);
    T y = a < (T)0.5 ? __fm_join(__fm_asin_near<T>({a, 0}, __fm_mul(a, a))) : __fm_from_angle(1, __fm_asin_rest(a));
    return __fm_signed(y, x);
}

template <class T> __FM_FN T __fm_acos(T x)
{
    if (!(__fm_abs(x) <= 1)) return __fm_isnan(x) ? __fm_add(x, x) : __fm_nan<T>();
    T a = __fm_abs(x);
    if (a < (T)0.5) return __fm_from_angle(1, __fm_asin_near<T>({x, 0}, __fm_mul(x, x)));
    return __fm_isneg(x) ? __fm_from_angle(2, __fm_asin_rest(a)) : __fm_join(__fm_asin_rest(a));
}
