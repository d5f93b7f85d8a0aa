// Each line uses names and overloads as sources for nvcc do. It only has to compile.
template <class A, class B> struct same_type { static constexpr bool value = false; };
template <class A> struct same_type<A, A> { static constexpr bool value = true; };
#define TYPE(T, E) static_assert(same_type<T, decltype(E)>::value, #E)

extern "C" __global__ void names(float f, double d, int i, unsigned u, long l, long long ll, unsigned long long ull, unsigned long z, float *fp, double *dp, int *ip)
{
    TYPE(float, sin(f)); TYPE(double, sin(d)); TYPE(double, sin(i)); TYPE(float, sinf(d)); TYPE(double, sqrt(u));
    TYPE(float, pow(f, f)); TYPE(double, pow(f, i)); TYPE(double, pow(d, i)); TYPE(double, pow(i, i)); TYPE(double, pow(f, d)); TYPE(float, powf(f, 2));
    TYPE(int, min(i, 1)); TYPE(unsigned, min(u, 1)); TYPE(unsigned, max(0, u)); TYPE(long, max(l, l)); TYPE(float, max(f, 0.0f)); TYPE(double, max(f, 0.0));
    TYPE(double, min(d, d)); TYPE(double, min(d, f)); TYPE(long long, min(ll, ll)); TYPE(unsigned long long, max(ull, ull)); TYPE(decltype(z), min(z, z));
    TYPE(int, abs(i)); TYPE(long, abs(l)); TYPE(long long, abs(ll)); TYPE(float, abs(f)); TYPE(double, abs(d)); TYPE(double, fabs(i)); TYPE(float, fabs(f));
    TYPE(double, fmax(f, d)); TYPE(float, fmax(f, f)); TYPE(float, fmaxf(f, 0.)); TYPE(double, atan2(f, i)); TYPE(float, fmod(f, f)); TYPE(double, hypot(1, 2));
    TYPE(bool, isnan(f)); TYPE(bool, isinf(d)); TYPE(bool, isfinite(f)); TYPE(bool, signbit(d)); TYPE(bool, isnormal(d));
    TYPE(float, floor(f)); TYPE(double, ceil(i)); TYPE(float, round(f)); TYPE(long, lround(f)); TYPE(long long, llroundf(f)); TYPE(long, lrintf(f)); TYPE(long long, llrint(d));
    TYPE(float, fma(f, f, f)); TYPE(double, fma(d, d, d)); TYPE(float, fmaf(f, f, f)); TYPE(float, ldexp(f, 2)); TYPE(float, scalbnf(f, 2)); TYPE(double, scalbln(d, 2)); TYPE(int, ilogb(f));
    TYPE(float, nanf("")); TYPE(double, nan("1")); TYPE(float, copysign(f, f)); TYPE(double, nextafter(d, d)); TYPE(float, fdimf(f, f)); TYPE(float, fdividef(f, f));
    TYPE(bool, isgreater(f, d)); TYPE(bool, isless(d, d)); TYPE(bool, isunordered(f, f)); TYPE(bool, islessgreater(i, f)); TYPE(float, __fmaf_ieee_rz(f, f, f));
    TYPE(double, fma(f, d, i)); TYPE(double, ldexp(i, 2)); TYPE(double, frexp(i, ip)); TYPE(bool, isnan(i));
    sincosf(f, fp, fp + 1); sincos(d, dp, dp + 1); sincospif(f, fp, fp + 1); sincospi(d, dp, dp + 1); __sincosf(f, fp, fp + 1);
    fp[2] = modff(f, fp) + frexpf(f, ip) + remquof(f, f, ip) + modf(f, fp) + frexp(f, ip) + remquo(f, f, ip) + remainder(f, f) + logb(f) + norm3df(f, f, f) + norm4df(f, f, f, f) + rnorm3df(f, f, f) + normf(2, fp) + rnormf(2, fp) + rhypotf(f, f);
    dp[2] = modf(d, dp) + frexp(d, ip) + remquo(d, d, ip) + norm3d(d, d, d) + rnorm4d(d, d, d, d) + norm(2, dp) + rnorm(2, dp) + rhypot(d, d) + exp10(d) + rsqrt(d) + rcbrt(d);
    fp[3] = __fadd_rn(f, f) + __fsub_rz(f, f) + __fmul_ru(f, f) + __fdiv_rd(f, f) + __fmaf_rn(f, f, f) + __frcp_rn(f) + __fsqrt_rn(f) + __frsqrt_rn(f) + __saturatef(f) + __fdividef(f, f);
    dp[3] = __dadd_rn(d, d) + __dsub_rz(d, d) + __dmul_ru(d, d) + __ddiv_rd(d, d) + __fma_rn(d, d, d) + __drcp_rn(d) + __dsqrt_rn(d);
    fp[4] = __sinf(f) + __cosf(f) + __tanf(f) + __expf(f) + __exp10f(f) + __logf(f) + __log2f(f) + __log10f(f) + __powf(f, f);
    ip[0] = umin(u, 1u) + umax(u, 1u) + llmin(ll, ll) + llmax(ll, ll) + ullmin(ull, ull) + ullmax(ull, ull) + labs(l) + llabs(ll);
    fp[5] = erff(f) + erfcf(f) + erfcxf(f) + erfinvf(f) + erfcinvf(f) + normcdff(f) + normcdfinvf(f) + tgammaf(f) + lgammaf(f) + cbrtf(f) + expm1f(f) + log1pf(f) + asinhf(f) + acoshf(f) + atanhf(f) + nearbyintf(f) + rintf(f) + truncf(f);
}
