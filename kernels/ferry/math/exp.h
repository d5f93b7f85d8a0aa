// Exponentials, logarithms, powers and hyperbolic functions.
#pragma once
#include "base.h"

// __fm_e is exp of something: 2^k * (1 + h + l).
template <class T> struct __fm_e { T h, l; int k; };

// __fm_exp_rest returns 1 + h + l = exp(r.h + r.l) for small r.
template <class T> __FM_FN __fm_e<T> __fm_exp_rest(__fm_dd<T> r, T k)
{
    return {r.h, __fm_fma(__fm_mul(r.h, r.h), __fm_k<T>::exp(r.h), r.l), (int)k};
}

// __fm_nearest returns the nearest integer of a * b, |a * b| < 2^(p-2).
template <class T> __FM_FN T __fm_nearest(T a, T b) { return __fm_sub(__fm_fma(a, b, __fm_t<T>::magic), __fm_t<T>::magic); }

// __fm_exp_reduce returns x - k * log(2) for k = the nearest integer, |x| < 2^11.
template <class T> __FM_FN __fm_dd<T> __fm_exp_reduce(T x, T *k)
{
    *k = __fm_nearest(x, __fm_k<T>::log2e_a);
    T minus = __fm_neg(*k), r = __fm_fma(minus, __fm_k<T>::ln2_a, x); // exact
    T h = __fm_fma(minus, __fm_k<T>::ln2_b, r);
    return {h, __fm_fma(minus, __fm_k<T>::ln2_b, __fm_sub(r, h))};
}

// __fm_exp_parts computes exp(x) in parts.
template <class T> __FM_FN __fm_e<T> __fm_exp_parts(T x)
{
    T k;
    __fm_dd<T> r = __fm_exp_reduce(x, &k);
    return __fm_exp_rest(r, k);
}

// __fm_exp_sum computes exp(x.h + x.l) in parts. x.l may be large against the reduced x.h.
template <class T> __FM_FN __fm_e<T> __fm_exp_sum(__fm_dd<T> x)
{
    T k;
    __fm_dd<T> r = __fm_exp_reduce(x.h, &k);
    return __fm_exp_rest(__fm_fast2(r.h, __fm_add(r.l, x.l)), k);
}

// __fm_exp_all puts the parts together.
template <class T> __FM_FN T __fm_exp_all(__fm_e<T> e)
{
    return __fm_scale(__fm_add((T)1, __fm_add(e.h, e.l)), e.k);
}

// __fm_exp_edge returns e^x for x that is NaN or far out.
template <class T> __FM_FN T __fm_exp_edge(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    return __fm_isneg(x) ? (T)0 : __fm_inf<T>();
}

template <class T> __FM_FN T __fm_far(float f, double d) { return sizeof(T) == 4 ? (T)f : (T)d; }

template <class T> __FM_FN T __fm_exp(T x)
{
    if (!__fm_below(x, __fm_far<T>(105, 747))) return __fm_exp_edge(x);
    return __fm_exp_all(__fm_exp_parts(x));
}

template <class T> __FM_FN T __fm_exp2(T x)
{
    if (!__fm_below(x, __fm_far<T>(152, 1078))) return __fm_exp_edge(x);
    T k = __fm_rint(x);
    __fm_dd<T> ln2 = {__fm_k<T>::ln2_a, __fm_k<T>::ln2_b};
    return __fm_exp_all(__fm_exp_rest(__fm_by(ln2, __fm_sub(x, k)), k));
}

template <class T> __FM_FN T __fm_exp10(T x)
{
    if (!__fm_below(x, __fm_far<T>(46, 326))) return __fm_exp_edge(x);
    T k = __fm_nearest(x, __fm_k<T>::log2_10_a), minus = __fm_neg(k);
    T r = __fm_fma(minus, __fm_k<T>::log10_2x_a, x);
    T h = __fm_fma(minus, __fm_k<T>::log10_2x_b, r);
    T l = __fm_fma(minus, __fm_k<T>::log10_2x_b, __fm_sub(r, h));
    __fm_dd<T> ln10 = {__fm_k<T>::ln10_a, __fm_k<T>::ln10_b};
    return __fm_exp_all(__fm_exp_rest(__fm_by<T>(ln10, {h, l}), k));
}

template <class T> __FM_FN T __fm_expm1(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_below(x, __fm_pow2<T>(-__fm_t<T>::p - 1))) return x;
    if (x > __fm_far<T>(89, 710)) return __fm_inf<T>();
    if (x < __fm_far<T>(-20, -40)) return -1;
    __fm_e<T> e = __fm_exp_parts(x);
    if (e.k > __fm_t<T>::p + 3) return __fm_exp_all(e);
    T s = __fm_pow2<T>(e.k);
    __fm_dd<T> y = __fm_two(__fm_mul(s, e.h), __fm_sub(s, (T)1));
    return __fm_add(y.h, __fm_fma(s, e.l, y.l));
}

// __fm_split returns m with x = m * 2^k, sqrt(1/2) <= m < sqrt(2), for finite x > 0.
template <class T> __FM_FN T __fm_split(T x, int &k)
{
    typedef typename __fm_t<T>::I I;
    k = 0;
    if (__fm_bits(x) < ((__FM_U)1 << (__fm_t<T>::p - 1))) {
        x = __fm_mul(x, __fm_pow2<T>(__fm_t<T>::p));
        k = -__fm_t<T>::p;
    }
    int n = (int)((I)(__fm_bits(x) - __fm_t<T>::roothalf) >> (__fm_t<T>::p - 1));
    k += n;
    return __fm_from<T>(__fm_bits(x) - ((__FM_U)(I)n << (__fm_t<T>::p - 1)));
}

// __fm_log_q returns q = f/(2+f) for f = f.h + f.l.
template <class T> __FM_FN __fm_dd<T> __fm_log_q(__fm_dd<T> f)
{
    T r = __fm_div((T)1, __fm_add((T)2, f.h)), q = __fm_mul(f.h, r), minus = __fm_neg(q);
    T rest = __fm_fma(minus, f.h, __fm_fma((T)-2, q, f.h));
    rest = __fm_add(rest, __fm_fma(minus, f.l, f.l));
    return {q, __fm_mul(rest, r)};
}

// __fm_log_near returns log(1+f), -0.3 < f < 0.42. The sum has about 7 bits more than
// double.
__FM_FN __fm_dd<double> __fm_log_near(__fm_dd<double> f)
{
    __fm_dd<double> q = __fm_log_q(f);
    double z = __fm_mul(q.h, q.h);
    return {__fm_add(q.h, q.h), __fm_fma(__fm_mul(q.h, z), __fm_k<double>::log(z), __fm_add(q.l, q.l))};
}

// The form for float has no division. It has about 4 bits more than float.
__FM_FN __fm_dd<float> __fm_log_near(__fm_dd<float> f)
{
    __fm_dd<float> z = __fm_prod(f.h, f.h), s = __fm_fast2(f.h, __fm_mul(-0.5f, z.h));
    float slope = __fm_sub(__fm_add(1.0f, z.h), f.h); // near 1/(1+f)
    float l = __fm_fma(f.l, slope, __fm_fma(-0.5f, z.l, s.l));
    return {s.h, __fm_fma(__fm_mul(f.h, z.h), __fm_k<float>::log1(f.h), l)};
}

// __fm_log_fine is like __fm_log_near with about 12 bits more than double.
__FM_FN __fm_dd<double> __fm_log_fine(__fm_dd<double> f)
{
    __fm_dd<double> q = __fm_log_q(f), z = __fm_by(q, q);
    __fm_dd<double> c = {__fm_k<double>::twothirds_a, __fm_k<double>::twothirds_b};
    __fm_dd<double> cube = __fm_by(__fm_by(z, c), q);
    double fifth = __fm_mul(__fm_mul(q.h, __fm_mul(z.h, z.h)), __fm_k<double>::log5(z.h));
    __fm_dd<double> s = __fm_fast2(__fm_add(q.h, q.h), cube.h);
    return {s.h, __fm_add(s.l, __fm_add(cube.l, __fm_fma(2.0, q.l, fifth)))};
}

// __fm_log_sum returns k * log(2) + a.
template <class T> __FM_FN __fm_dd<T> __fm_log_sum(T k, __fm_dd<T> a)
{
    __fm_dd<T> s = __fm_fast2(__fm_mul(k, __fm_k<T>::ln2x_a), a.h);
    return {s.h, __fm_add(s.l, __fm_fma(k, __fm_k<T>::ln2x_b, a.l))};
}

// __fm_log_edge returns log(x) for x that is NaN, infinite, negative or zero.
template <class T> __FM_FN T __fm_log_edge(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_iszero(x)) return __fm_neg(__fm_inf<T>());
    return __fm_isneg(x) ? __fm_nan<T>() : x;
}

// __fm_isusual tells if x is finite and > 0.
template <class T> __FM_FN bool __fm_isusual(T x) { return __fm_bits(x) - 1 < __fm_t<T>::inf - 1; }

// __fm_log_of returns log(x.h + x.l) for finite x > 0.
template <class T> __FM_FN __fm_dd<T> __fm_log_of(__fm_dd<T> x)
{
    int k;
    T m = __fm_split(x.h, k);
    T l = x.l == 0 ? (T)0 : __fm_mul(x.l, __fm_div(m, x.h));
    return __fm_log_sum((T)k, __fm_log_near(__fm_dd<T>{__fm_sub(m, (T)1), l}));
}

template <class T> __FM_FN T __fm_log(T x)
{
    if (!__fm_isusual(x)) return __fm_log_edge(x);
    int k;
    T m = __fm_split(x, k);
    __fm_dd<T> s = __fm_log_sum((T)k, __fm_log_near(__fm_dd<T>{__fm_sub(m, (T)1), 0}));
    return __fm_add(s.h, s.l);
}

// __fm_log_base returns k * (ah + al) + log(m) * c; k * ah is exact.
template <class T> __FM_FN T __fm_log_base(T x, T ah, T al, __fm_dd<T> c)
{
    if (!__fm_isusual(x)) return __fm_log_edge(x);
    int k;
    T m = __fm_split(x, k);
    __fm_dd<T> r = __fm_by(c, __fm_log_near(__fm_dd<T>{__fm_sub(m, (T)1), 0}));
    __fm_dd<T> s = __fm_fast2(__fm_mul((T)k, ah), r.h);
    return __fm_add(s.h, __fm_add(s.l, __fm_fma((T)k, al, r.l)));
}

template <class T> __FM_FN T __fm_log2(T x)
{
    return __fm_log_base<T>(x, 1, 0, {__fm_k<T>::log2e_a, __fm_k<T>::log2e_b});
}

template <class T> __FM_FN T __fm_log10(T x)
{
    return __fm_log_base<T>(x, __fm_k<T>::log10_2x_a, __fm_k<T>::log10_2x_b, {__fm_k<T>::log10e_a, __fm_k<T>::log10e_b});
}

// __fm_log1p_of returns log(1 + x) for -1 < x < 2^(p+2).
template <class T> __FM_FN __fm_dd<T> __fm_log1p_of(__fm_dd<T> x)
{
    int k;
    __fm_split(__fm_add((T)1, x.h), k);
    T s = __fm_pow2<T>(-k);
    __fm_dd<T> f = __fm_two(__fm_mul(x.h, s), __fm_sub(s, (T)1));
    return __fm_log_sum((T)k, __fm_log_near(__fm_dd<T>{f.h, __fm_fma(x.l, s, f.l)}));
}

template <class T> __FM_FN T __fm_log1p(T x)
{
    if (__fm_below(x, __fm_pow2<T>(-__fm_t<T>::p - 1))) return x;
    if (!(x > -1)) return x == -1 ? __fm_neg(__fm_inf<T>()) : __fm_isnan(x) ? __fm_add(x, x) : __fm_nan<T>();
    if (x >= __fm_pow2<T>(__fm_t<T>::p + 2)) return __fm_log(x);
    __fm_dd<T> s = __fm_log1p_of<T>({x, 0});
    return __fm_add(s.h, s.l);
}

// __fm_half_exp returns exp(x)/2 for 0 <= x.
template <class T> __FM_FN __fm_dd<T> __fm_half_exp(T x)
{
    __fm_e<T> e = __fm_exp_parts(x);
    __fm_dd<T> r = __fm_fast2(e.h, e.l), s = __fm_fast2((T)1, r.h);
    return {__fm_scale(s.h, e.k - 1), __fm_scale(__fm_add(s.l, r.l), e.k - 1)};
}

template <class T> __FM_FN T __fm_sinh(T x)
{
    T a = __fm_abs(x);
    if (!__fm_below(x, __fm_far<T>(90, 711))) return __fm_isnan(x) ? __fm_add(x, x) : __fm_signed(__fm_inf<T>(), x);
    if (a < 1) {
        T z = __fm_mul(x, x);
        return __fm_iszero(x) ? x : __fm_fma(__fm_mul(x, z), __fm_k<T>::sinh(z), x);
    }
    __fm_dd<T> e = __fm_half_exp(a);
    T y = __fm_add(e.h, __fm_sub(e.l, __fm_div((T)0.25, e.h)));
    return __fm_signed(y, x);
}

template <class T> __FM_FN T __fm_cosh(T x)
{
    if (!__fm_below(x, __fm_far<T>(90, 711))) return __fm_isnan(x) ? __fm_add(x, x) : __fm_inf<T>();
    __fm_dd<T> e = __fm_half_exp(__fm_abs(x));
    return __fm_add(e.h, __fm_add(e.l, __fm_div((T)0.25, e.h)));
}

template <class T> __FM_FN T __fm_tanh(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    T a = __fm_abs(x);
    if (a < (T)0.55) {
        T z = __fm_mul(x, x);
        return __fm_iszero(x) ? x : __fm_fma(__fm_mul(x, z), __fm_k<T>::tanh(z), x);
    }
    if (a > __fm_far<T>(10, 20)) return __fm_signed((T)1, x);
    T e = __fm_exp_all(__fm_exp_parts(__fm_add(a, a)));
    return __fm_signed(__fm_sub((T)1, __fm_div((T)2, __fm_add(e, (T)1))), x);
}

template <class T> __FM_FN T __fm_asinh(T x)
{
    if (!__fm_isfinite(x)) return __fm_add(x, x);
    T a = __fm_abs(x);
    __fm_dd<T> y;
    if (a < (T)0.5) {
        T z = __fm_mul(x, x);
        return __fm_iszero(x) ? x : __fm_fma(__fm_mul(x, z), __fm_k<T>::asinh(z), x);
    } else if (a < __fm_pow2<T>(30)) {
        __fm_dd<T> s = __fm_root(__fm_plus<T>(__fm_prod(a, a), {1, 0})), sum = __fm_two(a, s.h);
        y = __fm_log_of<T>({sum.h, __fm_add(sum.l, s.l)});
    } else {
        y = __fm_plus<T>(__fm_log_of<T>({a, 0}), {__fm_k<T>::ln2_a, __fm_k<T>::ln2_b});
    }
    return __fm_signed(__fm_add(y.h, y.l), x);
}

template <class T> __FM_FN T __fm_acosh(T x)
{
    if (!(x >= 1)) return __fm_isnan(x) ? __fm_add(x, x) : __fm_nan<T>();
    if (x == 1) return 0;
    if (__fm_isinf(x)) return x;
    __fm_dd<T> y;
    if (x < __fm_pow2<T>(__fm_t<T>::p / 2 + 2)) {
        __fm_dd<T> t = __fm_two(x, (T)-1);
        __fm_dd<T> s = __fm_root(__fm_by(t, __fm_plus<T>(t, {2, 0}))), sum = __fm_two(t.h, s.h);
        y = __fm_log1p_of<T>({sum.h, __fm_add(sum.l, __fm_add(t.l, s.l))});
    } else {
        y = __fm_plus<T>(__fm_log_of<T>({x, 0}), {__fm_k<T>::ln2_a, __fm_k<T>::ln2_b});
    }
    return __fm_add(y.h, y.l);
}

template <class T> __FM_FN T __fm_atanh(T x)
{
    T a = __fm_abs(x);
    if (!__fm_below(x, (T)1)) return __fm_isnan(x) ? __fm_add(x, x) : a == 1 ? __fm_signed(__fm_inf<T>(), x) : __fm_nan<T>();
    if (__fm_below(x, __fm_pow2<T>(-__fm_t<T>::p / 2 - 1))) return x;
    __fm_dd<T> u = __fm_ratio<T>({__fm_add(a, a), 0}, __fm_two((T)1, __fm_neg(a)));
    __fm_dd<T> y = __fm_log1p_of(u);
    return __fm_signed(__fm_mul((T)0.5, __fm_add(y.h, y.l)), x);
}

// __fm_log_full returns log(x) for pow: about 65 bits.
__FM_FN __fm_dd<double> __fm_log_full(double x)
{
    int k;
    double m = __fm_split(x, k);
    __fm_dd<double> s = __fm_log_sum((double)k, __fm_log_fine({__fm_sub(m, 1.0), 0}));
    return __fm_fast2(s.h, s.l);
}

// __fm_parity returns 0 for an even integer, 1 for an odd one, 2 for others. y is finite.
template <class T> __FM_FN int __fm_parity(T y)
{
    T a = __fm_abs(y);
    if (a >= __fm_pow2<T>(__fm_t<T>::p)) return 0;
    if (__fm_trunc(a) != a) return 2;
    return (int)((long long)a & 1);
}

// __fm_pow_edge has the cases of pow where an argument is NaN, infinite or zero.
template <class T> __FM_FN T __fm_pow_edge(T x, T y)
{
    if (__fm_iszero(y) || x == 1) return 1;
    if (__fm_isnan(x) || __fm_isnan(y)) return __fm_nan_of(x, y);
    T a = __fm_abs(x);
    if (__fm_isinf(y)) {
        if (a == 1) return 1;
        return (a > 1) != __fm_isneg(y) ? __fm_inf<T>() : (T)0;
    }
    T r = __fm_iszero(x) == __fm_isneg(y) ? __fm_inf<T>() : (T)0; // x is 0 or infinite
    return __fm_isneg(x) && __fm_parity(y) == 1 ? __fm_neg(r) : r;
}

__FM_BIG double __fm_pow_abs(double a, double y)
{
    __fm_dd<double> p = __fm_by(__fm_log_full(a), y);
    if (!__fm_below(p.h, 747.0)) return __fm_exp_edge(p.h);
    return __fm_exp_all(__fm_exp_sum(p));
}

// __fm_pow_abs of floats is exact enough in plain double.
__FM_FN float __fm_pow_abs(float a, float y)
{
    return __fm_narrow(__fm_exp(__fm_mul(__fm_widen(y), __fm_log(__fm_widen(a)))));
}

template <class T> __FM_FN T __fm_pow(T x, T y)
{
    if (__fm_iszero(x) || !__fm_isfinite(x) || __fm_iszero(y) || !__fm_isfinite(y) || x == 1) return __fm_pow_edge(x, y);
    int parity = __fm_isneg(x) ? __fm_parity(y) : 0;
    if (parity == 2) return __fm_nan<T>();
    T r = __fm_pow_abs(__fm_abs(x), y);
    return parity ? __fm_neg(r) : r;
}
