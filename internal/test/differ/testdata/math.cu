// The library's functions, which nvcc inlines.
#include "differ.h"

#define EACH(name, T, N, ...) \
    KERNEL name(const T *a, const T *b, T *out) { \
        T x = a[thread()], y = b[thread()]; \
        T r[N] = {__VA_ARGS__}; \
        for (int i = 0; i < N; i++) out[thread() * N + i] = r[i]; \
    }

EACH(math_round_f64, double, 8, rint(x), floor(x), ceil(x), trunc(x), round(x), nearbyint(y), fdim(x, y), copysign(x, y))
EACH(math_exact_f64, double, 6, sqrt(fabs(x)), x / y, fma(x, y, x), ldexp(x, (int)y & 31), fmin(x, y), 1 / y)
EACH(math_mod_f64, double, 3, fmod(x, y), remainder(x, y), nextafter(x, y))
EACH(math_trig_f64, double, 4, sin(x), cos(x), tan(x), sinpi(y))
EACH(math_inverse_f64, double, 4, asin(y), acos(y), atan(x), atan2(x, y))
EACH(math_exp_f64, double, 6, exp(y), exp2(y), expm1(y), sinh(y), cosh(y), tanh(y))
EACH(math_log_f64, double, 5, log(fabs(x)), log2(fabs(x)), log10(fabs(x)), log1p(fabs(y)), asinh(x))
EACH(math_pow_f64, double, 4, pow(fabs(x), y), cbrt(x), hypot(x, y), rsqrt(fabs(x)))
EACH(math_erf_f64, double, 4, erf(y), erfc(y), tgamma(y), lgamma(y))

EACH(math_round_f32, float, 8, rintf(x), floorf(x), ceilf(x), truncf(x), roundf(x), nearbyintf(y), fdimf(x, y), copysignf(x, y))
EACH(math_exact_f32, float, 8, sqrtf(fabsf(x)), x / y, fmaf(x, y, x), ldexpf(x, (int)y & 31), fminf(x, y), 1 / y, __fsqrt_rd(fabsf(y)), __fdiv_ru(x, y))
EACH(math_mod_f32, float, 3, fmodf(x, y), remainderf(x, y), nextafterf(x, y))
EACH(math_trig_f32, float, 4, sinf(x), cosf(x), tanf(x), sinpif(y))
EACH(math_inverse_f32, float, 4, asinf(y), acosf(y), atanf(x), atan2f(x, y))
EACH(math_exp_f32, float, 6, expf(y), exp2f(y), expm1f(y), sinhf(y), coshf(y), tanhf(y))
EACH(math_log_f32, float, 5, logf(fabsf(x)), log2f(fabsf(x)), log10f(fabsf(x)), log1pf(fabsf(y)), asinhf(x))
EACH(math_pow_f32, float, 4, powf(fabsf(x), y), cbrtf(x), hypotf(x, y), rsqrtf(fabsf(x)))
EACH(math_erf_f32, float, 3, erff(y), erfcf(y), tgammaf(y))
EACH(math_intrinsics, float, 6, __expf(y), __logf(fabsf(x)), __sinf(y), __cosf(y), __fdividef(x, y), __powf(fabsf(y), 1.5f))

// The rounding modes, and conversions to integers with them.
EACH(math_directed, float, 8, __fadd_rz(x, y), __fadd_ru(x, y), __fmul_rd(x, y), __fmul_rz(x, y), __fmaf_rd(x, y, x), __frcp_ru(y), (float)__float2int_ru(x), (float)__double2float_rd((double)x * y))
EACH(math_directed_f64, double, 8, __dadd_rz(x, y), __dadd_ru(x, y), __dmul_rd(x, y), __dmul_rz(x, y), __fma_rd(x, y, x), __drcp_ru(y), (double)__double2ll_rd(x), (double)__double2float_ru(x))
