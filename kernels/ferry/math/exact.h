// Functions whose results are exact, roots, and lengths of vectors.
#pragma once
#include "exp.h"

// __fm_round rounds halves away from zero.
template <class T> __FM_FN T __fm_round(T x)
{
    T t = __fm_trunc(x), rest = __fm_sub(__fm_abs(x), __fm_abs(t));
    if (!(rest >= (T)0.5)) return __fm_signed(t, x);
    return __fm_signed(__fm_add(__fm_abs(t), (T)1), x);
}

// __fm_ldexp returns x * 2^n, rounded once.
template <class T> __FM_FN T __fm_ldexp(T x, int n)
{
    if (!__fm_isfinite(x) || __fm_iszero(x)) return __fm_add(x, x);
    const int p = __fm_t<T>::p;
    int e = (int)(__fm_abits(x) >> (p - 1));
    if (e == 0) {
        x = __fm_mul(x, __fm_pow2<T>(p));
        e = (int)(__fm_abits(x) >> (p - 1)) - p;
    }
    const int most = 2 * __fm_t<T>::bias + 1;
    n = n > 3 * most ? 3 * most : n < -3 * most ? -3 * most : n;
    e += n;
    if (e >= most) return __fm_signed(__fm_inf<T>(), x);
    __FM_U rest = __fm_bits(x) & ~((__FM_U)most << (p - 1));
    if (e > 0) return __fm_from<T>(rest | (__FM_U)e << (p - 1));
    if (e < -p) return __fm_signed((T)0, x);
    return __fm_mul(__fm_from<T>(rest | (__FM_U)(e + p) << (p - 1)), __fm_pow2<T>(-p));
}

// __fm_ilogb returns the exponent of a finite x that is not 0.
template <class T> __FM_FN int __fm_ilogb(T x)
{
    const int p = __fm_t<T>::p;
    int e = (int)(__fm_abits(x) >> (p - 1));
    if (e == 0) e = (int)(__fm_abits(__fm_mul(x, __fm_pow2<T>(p))) >> (p - 1)) - p;
    return e - __fm_t<T>::bias;
}

template <class T> __FM_FN T __fm_logb(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_isinf(x)) return __fm_inf<T>();
    return __fm_iszero(x) ? __fm_neg(__fm_inf<T>()) : (T)__fm_ilogb(x);
}

template <class T> __FM_FN T __fm_frexp(T x, int *n)
{
    *n = 0;
    if (!__fm_isfinite(x) || __fm_iszero(x)) return __fm_add(x, x);
    *n = __fm_ilogb(x) + 1;
    return __fm_ldexp(x, -*n);
}

template <class T> __FM_FN T __fm_modf(T x, T *whole)
{
    T t = __fm_isnan(x) ? __fm_add(x, x) : __fm_signed(__fm_trunc(x), x);
    *whole = t;
    return __fm_isinf(x) ? __fm_signed((T)0, x) : __fm_isnan(x) ? t : __fm_signed(__fm_sub(x, t), x);
}

template <class T> __FM_FN T __fm_nextafter(T x, T y)
{
    if (__fm_isnan(x) || __fm_isnan(y)) return __fm_nan_of(x, y);
    if (x == y) return y;
    if (__fm_iszero(x)) return __fm_signed(__fm_from<T>(1), y);
    bool up = (x < y) == !__fm_isneg(x);
    return __fm_from<T>(up ? __fm_bits(x) + 1 : __fm_bits(x) - 1);
}

// __fm_parts returns the significand of a finite x that is not 0, and its exponent.
template <class T> __FM_FN unsigned long long __fm_parts(T x, int *e)
{
    const int p = __fm_t<T>::p;
    unsigned long long m = __fm_abits(x) & (((__FM_U)1 << (p - 1)) - 1);
    *e = (int)(__fm_abits(x) >> (p - 1));
    if (*e) return m | 1ull << (p - 1);
    *e = 1;
    return m;
}

// __fm_divide returns the remainder of |x| / |y|, 0 <= remainder < |y|, and the last bits
// of the quotient. x is finite, y is finite and not 0.
template <class T> __FM_BIG T __fm_divide(T x, T y, unsigned *quotient)
{
    *quotient = 0;
    T a = __fm_abs(x), b = __fm_abs(y);
    if (a < b) return a;
    int ea, eb;
    unsigned long long ma = __fm_parts(a, &ea), mb = __fm_parts(b, &eb);
    unsigned long long q = ma / mb;
    ma %= mb;
    for (int n = ea - eb; n > 0;) {
        int step = n < 64 - __fm_t<T>::p ? n : 64 - __fm_t<T>::p;
        n -= step;
        ma <<= step;
        q = q << step | ma / mb;
        ma %= mb;
    }
    *quotient = (unsigned)q;
    // ma * 2^(eb - bias - p + 1)
    if (ma == 0) return 0;
    return __fm_ldexp((T)ma, eb - __fm_t<T>::bias - __fm_t<T>::p + 1);
}

template <class T> __FM_FN bool __fm_divides(T x, T y) { return __fm_isfinite(x) && !__fm_isnan(y) && !__fm_iszero(y); }

// __fm_fmod_edge returns the NaN where there is no remainder.
template <class T> __FM_FN T __fm_fmod_edge(T x, T y) { return __fm_isnan(x) || __fm_isnan(y) ? __fm_nan_of(x, y) : __fm_nan<T>(); }

template <class T> __FM_FN T __fm_fmod(T x, T y)
{
    if (!__fm_divides(x, y)) return __fm_fmod_edge(x, y);
    if (__fm_isinf(y)) return x;
    unsigned q;
    return __fm_signed(__fm_divide(x, y, &q), x);
}

template <class T> __FM_FN T __fm_remquo(T x, T y, int *quotient)
{
    *quotient = 0;
    if (!__fm_divides(x, y)) return __fm_fmod_edge(x, y);
    if (__fm_isinf(y)) return x;
    unsigned q;
    T r = __fm_divide(x, y, &q), b = __fm_abs(y), rest = __fm_sub(b, r);
    if (r > rest || (r == rest && (q & 1))) {
        r = __fm_neg(rest);
        q++;
    }
    *quotient = __fm_isneg(x) != __fm_isneg(y) ? -(int)(q & 7) : (int)(q & 7);
    if (__fm_iszero(r)) return __fm_signed((T)0, x);
    return __fm_isneg(x) ? __fm_neg(r) : r;
}

template <class T> __FM_FN T __fm_remainder(T x, T y)
{
    int q;
    return __fm_remquo(x, y, &q);
}

template <class T> __FM_FN T __fm_fdim(T x, T y)
{
    if (__fm_isnan(x) || __fm_isnan(y)) return __fm_nan_of(x, y);
    return x > y ? __fm_sub(x, y) : (T)0;
}

template <class T> __FM_FN T __fm_rsqrt(T x)
{
    return __fm_div((T)1, __fm_sqrt(x));
}

// __fm_thirds returns m and j with x = m * 8^j, 1 <= m < 8, for finite x > 0.
template <class T> __FM_FN T __fm_thirds(T x, int *j)
{
    int e = __fm_ilogb(x);
    *j = (e + 1200) / 3 - 400;
    return __fm_ldexp(x, -3 * *j);
}

// __fm_rcbrt_step improves y by the series of (1-e)^(-1/3).
template <class T> __FM_FN T __fm_rcbrt_step(T m, T y)
{
    T e = __fm_fma(__fm_neg(__fm_mul(m, y)), __fm_mul(y, y), (T)1);
    return __fm_fma(__fm_mul(y, e), __fm_fma(e, (T)(2.0 / 9), (T)(1.0 / 3)), y);
}

template <class T> __FM_FN T __fm_rcbrt_near(T m)
{
    T y = __fm_rcbrt_step(m, __fm_k<T>::rcbrt(m));
    return sizeof(T) == 4 ? y : __fm_rcbrt_step(m, y);
}

template <class T> __FM_FN T __fm_cbrt(T x)
{
    if (!__fm_isfinite(x) || __fm_iszero(x)) return __fm_add(x, x);
    int j;
    T m = __fm_thirds(__fm_abs(x), &j), y = __fm_rcbrt_near(m), square = __fm_mul(y, y);
    T c = __fm_mul(m, square);
    __fm_dd<T> c2 = __fm_prod(c, c);
    T rest = __fm_fma(__fm_neg(c2.l), c, __fm_fma(__fm_neg(c2.h), c, m));
    c = __fm_fma(__fm_mul(rest, square), (T)(1.0 / 3), c);
    return __fm_signed(__fm_mul(c, __fm_pow2<T>(j)), x);
}

template <class T> __FM_FN T __fm_rcbrt(T x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_isinf(x)) return __fm_signed((T)0, x);
    if (__fm_iszero(x)) return __fm_signed(__fm_inf<T>(), x);
    int j;
    T m = __fm_thirds(__fm_abs(x), &j), y = __fm_rcbrt_near(m);
    __fm_dd<T> cube = __fm_by(__fm_prod(y, y), __fm_prod(m, y));
    T rest = __fm_sub(__fm_sub((T)1, cube.h), cube.l);
    y = __fm_fma(__fm_mul(y, rest), (T)(1.0 / 3), y);
    return __fm_signed(__fm_mul(y, __fm_pow2<T>(-j)), x);
}

// __fm_length is a sum of squares of numbers that were multiplied by scale, a power of two.
struct __fm_length { __fm_dd<double> sum; double scale; };

// __fm_length_for begins a sum of which the largest number is most.
__FM_FN __fm_length __fm_length_for(double most)
{
    int k = (int)(__fm_bits(most) >> 52) - 1023;
    return {{0, 0}, __fm_pow2<double>(k > 1000 ? -1000 : k < -1000 ? 1000 : -k)};
}

// __fm_square adds a square. Zeros that the compiler knows cost nothing.
__FM_FN void __fm_square(__fm_length *s, double x)
{
    if (x == 0) return;
    double a = __fm_mul(x, s->scale);
    s->sum = __fm_plus(s->sum, __fm_prod(a, a));
}

// __fm_length_root returns the root, or its inverse, without the scale.
__FM_FN double __fm_length_root(__fm_length s, bool inverse)
{
    if (s.sum.h == 0) return inverse ? __fm_inf<double>() : 0;
    __fm_dd<double> r = __fm_root(s.sum);
    if (inverse) {
        r = __fm_ratio<double>({1, 0}, r);
        return __fm_mul(__fm_add(r.h, r.l), s.scale);
    }
    return __fm_mul(__fm_add(r.h, r.l), __fm_div(1.0, s.scale));
}

// __fm_norm returns the length of n numbers, or its inverse.
template <class T> __FM_BIG T __fm_norm(int n, const T *v, bool inverse)
{
    double most = 0;
    bool nan = false;
    for (int i = 0; i < n; i++) {
        double a = __fm_abs((double)v[i]);
        if (__fm_isinf(a)) return inverse ? (T)0 : __fm_inf<T>();
        nan = nan || __fm_isnan(a);
        most = a > most ? a : most;
    }
    if (nan) return __fm_nan<T>();
    __fm_length s = __fm_length_for(most);
    for (int i = 0; i < n; i++) __fm_square(&s, (double)v[i]);
    return (T)__fm_length_root(s, inverse);
}

__FM_FN double __fm_larger(double a, double b) { return a > b ? a : b; }

// __fm_hypot is __fm_norm of four numbers.
__FM_FN double __fm_hypot(double a, double b, double c, double d, bool inverse)
{
    if (__fm_isinf(a) || __fm_isinf(b) || __fm_isinf(c) || __fm_isinf(d)) return inverse ? 0 : __fm_inf<double>();
    if (__fm_isnan(a) || __fm_isnan(b) || __fm_isnan(c) || __fm_isnan(d)) return __fm_nan<double>();
    __fm_length s = __fm_length_for(__fm_larger(__fm_larger(__fm_abs(a), __fm_abs(b)), __fm_larger(__fm_abs(c), __fm_abs(d))));
    __fm_square(&s, a);
    __fm_square(&s, b);
    __fm_square(&s, c);
    __fm_square(&s, d);
    return __fm_length_root(s, inverse);
}

// Squares of floats need no scale in double.
__FM_FN float __fm_hypot(float a, float b, float c, float d, bool inverse)
{
    if (__fm_isinf(a) || __fm_isinf(b) || __fm_isinf(c) || __fm_isinf(d)) return inverse ? 0 : __fm_inf<float>();
    double x = __fm_widen(a), y = __fm_widen(b), z = __fm_widen(c), w = __fm_widen(d);
    double r = __fm_sqrt(__fm_fma(x, x, __fm_fma(y, y, __fm_fma(z, z, __fm_mul(w, w)))));
    return __fm_narrow(inverse ? __fm_div(1.0, r) : r);
}
