// Error function, normal distribution and gamma function. These are in double; only erf
// has a form in float.
#pragma once
#include "circular.h"

// __fm_erf_near returns erf(x) for |x| <= 1.
template <class T> __FM_FN __fm_dd<T> __fm_erf_near(__fm_dd<T> x)
{
    __fm_dd<T> y = __fm_by<T>({__fm_k<T>::twooroot_a, __fm_k<T>::twooroot_b}, x);
    T z = __fm_mul(x.h, x.h);
    return {y.h, __fm_fma(__fm_mul(x.h, z), __fm_k<T>::erf(z), y.l)};
}

// __fm_erfcx_far returns exp(x^2) * erfc(x) for x >= 0.45.
__FM_FN double __fm_erfcx_far(double x)
{
    if (x >= 0x1p40) return __fm_div(__fm_mul(0.5, __fm_k<double>::twooroot_a), x);
    double t = __fm_div(__fm_sub(x, 4.0), __fm_add(x, 4.0));
    return __fm_div(__fm_k<double>::erfcx(t), __fm_fma(2.0, x, 1.0));
}

// __fm_exp_square returns exp(-x^2), |x| < 28.
__FM_FN __fm_e<double> __fm_exp_square(__fm_dd<double> x)
{
    __fm_dd<double> p = __fm_by(x, x);
    return __fm_exp_sum<double>({__fm_neg(p.h), __fm_neg(p.l)});
}

__FM_FN double __fm_erfc_far(__fm_dd<double> x)
{
    if (x.h > 28) return 0;
    __fm_e<double> e = __fm_exp_square(x);
    double g = __fm_erfcx_far(x.h);
    return __fm_scale(__fm_fma(g, __fm_add(e.h, e.l), g), e.k);
}

// __fm_erfc_of returns erfc(x) for x that is no NaN.
// It takes two numbers: clang 14 passes a struct in a way that the software GPU refuses.
__FM_BIG double __fm_erfc_of(double h, double l)
{
    __fm_dd<double> x = {h, l};
    if (x.h >= 0.5) return __fm_erfc_far(x);
    if (x.h <= -1) return __fm_sub(2.0, __fm_erfc_far({__fm_neg(x.h), __fm_neg(x.l)}));
    __fm_dd<double> y = __fm_erf_near(x), s = __fm_two(1.0, __fm_neg(y.h));
    return __fm_add(s.h, __fm_sub(s.l, y.l));
}

__FM_FN double __fm_erfc(double x) { return __fm_isnan(x) ? __fm_add(x, x) : __fm_erfc_of(x, 0); }

__FM_FN double __fm_erf(double x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_abs(x) < 1) return __fm_iszero(x) ? x : __fm_join(__fm_erf_near<double>({x, 0}));
    return __fm_signed(__fm_sub(1.0, __fm_erfc_far({__fm_abs(x), 0})), x);
}

__FM_FN float __fm_erf(float x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    float a = __fm_abs(x);
    if (a < 1) return __fm_iszero(x) ? x : __fm_join(__fm_erf_near<float>({x, 0}));
    if (a >= 4) return __fm_signed(1.0f, x);
    return __fm_signed(__fm_sub(1.0f, __fm_exp_all(__fm_exp_parts(__fm_k<float>::logerfc(a)))), x);
}

__FM_BIG double __fm_erfcx(double x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (x >= 0.5) return __fm_isinf(x) ? 0 : __fm_erfcx_far(x);
    if (x < -27) return __fm_inf<double>();
    __fm_dd<double> p = __fm_prod(x, x);
    __fm_e<double> e = __fm_exp_sum(p);
    if (x <= -1) { // 2 exp(x^2) - erfcx(-x)
        double big = __fm_scale(__fm_add(1.0, __fm_add(e.h, e.l)), e.k + 1);
        return __fm_sub(big, __fm_erfcx_far(__fm_neg(x)));
    }
    return __fm_mul(__fm_exp_all(e), __fm_erfc_of(x, 0));
}

// __fm_halley improves y, where step = (f(y) - wanted) / f'(y) and f'' = -2 y f'.
__FM_FN double __fm_halley(double y, double step)
{
    return __fm_sub(y, __fm_div(step, __fm_fma(step, y, 1.0)));
}

// __fm_erfinv_near inverts erf at x, |x| <= 0.75.
__FM_FN double __fm_erfinv_near(__fm_dd<double> x)
{
    double y = __fm_mul(x.h, __fm_k<double>::erfinv(__fm_mul(x.h, x.h)));
    __fm_dd<double> f = __fm_erf_near<double>({y, 0});
    double rest = __fm_add(__fm_sub(f.h, x.h), __fm_sub(f.l, x.l));
    double slope = __fm_mul(__fm_k<double>::twooroot_a, __fm_exp_all(__fm_exp_square({y, 0})));
    return __fm_halley(y, __fm_div(rest, slope));
}

// __fm_erfinv_far inverts erfc at c, 0 < c <= 1/4.
__FM_FN double __fm_erfinv_far(double c)
{
    double w = __fm_sqrt(__fm_neg(__fm_log(c)));
    double y = w < 4 ? __fm_k<double>::erfcinv1(w) : __fm_k<double>::erfcinv2(w);
    __fm_e<double> e = __fm_exp_square({y, 0});
    int k;
    double m = __fm_split(c, k);
    double ratio = __fm_div(__fm_mul(m, __fm_pow2<double>(k - e.k)), __fm_add(1.0, __fm_add(e.h, e.l)));
    double step = __fm_div(__fm_sub(ratio, __fm_erfcx_far(y)), __fm_k<double>::twooroot_a);
    return __fm_halley(y, step);
}

__FM_BIG double __fm_erfinv(double x)
{
    double a = __fm_abs(x);
    if (!(a < 1)) return __fm_isnan(x) ? __fm_add(x, x) : a == 1 ? __fm_signed(__fm_inf<double>(), x) : __fm_nan<double>();
    if (a <= 0.75) return __fm_iszero(x) ? x : __fm_erfinv_near({x, 0});
    return __fm_signed(__fm_erfinv_far(__fm_sub(1.0, a)), x);
}

__FM_BIG double __fm_erfcinv(double x)
{
    if (!(x > 0 && x < 2)) {
        if (__fm_isnan(x)) return __fm_add(x, x);
        return x == 0 ? __fm_inf<double>() : x == 2 ? __fm_neg(__fm_inf<double>()) : __fm_nan<double>();
    }
    if (x < 0.25) return __fm_erfinv_far(x);
    if (x > 1.75) return __fm_neg(__fm_erfinv_far(__fm_sub(2.0, x)));
    return __fm_erfinv_near(__fm_two(1.0, __fm_neg(x)));
}

__FM_BIG double __fm_normcdf(double x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (!__fm_below(x, 40.0)) return __fm_isneg(x) ? 0 : 1;
    __fm_dd<double> r = {__fm_k<double>::roothalf_a, __fm_k<double>::roothalf_b};
    r = __fm_by(r, __fm_neg(x));
    return __fm_mul(0.5, __fm_erfc_of(r.h, r.l));
}

__FM_BIG double __fm_normcdfinv(double x)
{
    return __fm_sub(0.0, __fm_mul(__fm_k<double>::root2_a, __fm_erfcinv(__fm_add(x, x))));
}

// __fm_lgamma_far returns log(gamma(x)), x >= 8.
__FM_BIG __fm_dd<double> __fm_lgamma_far(double x)
{
    __fm_dd<double> y = __fm_by(__fm_log_full(x), __fm_sub(x, 0.5));
    y = __fm_plus<double>(y, {__fm_neg(x), 0});
    double u = __fm_div(1.0, x);
    double rest = __fm_mul(u, __fm_k<double>::stirling(__fm_mul(u, u)));
    return __fm_plus<double>(y, __fm_plus<double>({__fm_k<double>::halfln2pi_a, __fm_k<double>::halfln2pi_b}, {rest, 0}));
}

// __fm_shifted is how gamma(x) follows from gamma(2+t), |t| <= 1/2: by multiplication with
// up, or by division.
struct __fm_shifted { double t; __fm_dd<double> factor; bool up; };

// __fm_shift works for -1/2 <= x < 8, x not 0.
__FM_FN __fm_shifted __fm_shift(double x)
{
    __fm_shifted s = {x, {1, 0}, true};
    if (x < 0.5) { // gamma(x) = gamma(x+2) / (x (x+1))
        s.up = false;
        s.factor = __fm_by(__fm_two(x, 1.0), x);
        return s;
    }
    if (x < 1.5) {
        s.up = false;
        s.factor = {x, 0};
        s.t = __fm_sub(x, 1.0);
        return s;
    }
    while (x > 2.5) {
        x = __fm_sub(x, 1.0);
        s.factor = __fm_by(s.factor, x);
    }
    s.t = __fm_sub(x, 2.0);
    return s;
}

__FM_FN double __fm_gamma_near(double x)
{
    __fm_shifted s = __fm_shift(x);
    double g = __fm_k<double>::gamma(s.t);
    return s.up ? __fm_fma(g, s.factor.h, __fm_mul(g, s.factor.l)) : __fm_div(g, s.factor.h);
}

__FM_BIG double __fm_tgamma(double x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_iszero(x)) return __fm_signed(__fm_inf<double>(), x);
    if (x > 172) return __fm_inf<double>();
    if (__fm_isneg(x) && __fm_trunc(x) == x) return __fm_nan<double>();
    if (x >= 8) return __fm_exp_all(__fm_exp_sum(__fm_lgamma_far(x)));
    if (x >= -0.5) return __fm_gamma_near(x);
    if (x < -190) return __fm_parity(__fm_floor(x)) ? -0.0 : 0.0;
    // gamma(x) = -pi / (x sin(pi x) gamma(-x))
    double a = __fm_neg(x), v = __fm_div(__fm_k<double>::pi_a, __fm_mul(a, __fm_sinpi(x)));
    if (a < 8) return __fm_div(v, __fm_gamma_near(a));
    __fm_dd<double> l = __fm_lgamma_far(a);
    __fm_e<double> e = __fm_exp_sum<double>({__fm_neg(l.h), __fm_neg(l.l)});
    return __fm_scale(__fm_fma(v, __fm_add(e.h, e.l), v), e.k);
}

// __fm_lgamma_pos returns log(gamma(x)) for finite x > 0.
__FM_BIG double __fm_lgamma_pos(double x)
{
    if (x >= 0x1p1000) return __fm_mul(x, __fm_sub(__fm_log(x), 1.0)); // may be infinite
    if (x >= 8) return __fm_join(__fm_lgamma_far(x));
    if (x < 0x1p-60) return __fm_neg(__fm_log(x));
    __fm_shifted s = __fm_shift(x);
    __fm_dd<double> slope = {__fm_k<double>::slope_a, __fm_k<double>::slope_b}, y = __fm_by(slope, s.t);
    y.l = __fm_fma(__fm_mul(s.t, s.t), __fm_k<double>::lgamma(s.t), y.l);
    if (s.up && s.factor.h == 1) return __fm_join(y);
    __fm_dd<double> l = s.up || x < 0.5 ? __fm_log_of(s.factor) : __fm_log1p_of<double>({s.t, 0});
    if (!s.up) l = {__fm_neg(l.h), __fm_neg(l.l)};
    return __fm_join(__fm_plus(l, y));
}

__FM_BIG double __fm_lgamma(double x)
{
    if (__fm_isnan(x)) return __fm_add(x, x);
    if (__fm_isinf(x) || __fm_iszero(x)) return __fm_inf<double>();
    if (!__fm_isneg(x)) return __fm_lgamma_pos(x);
    if (__fm_trunc(x) == x) return __fm_inf<double>();
    double a = __fm_neg(x);
    if (a < 0x1p-60) return __fm_neg(__fm_log(a));
    // log(pi / |x sin(pi x)|) - lgamma(-x)
    double s = __fm_abs(__fm_sinpi(x));
    __fm_dd<double> l = __fm_log_of<double>(__fm_prod(a, s));
    return __fm_sub(__fm_sub(__fm_sub(__fm_k<double>::lnpi_a, l.h), l.l), __fm_lgamma_pos(a));
}
