// Functions of CUDA's math for host code, which no header of C has. The others are the system's.
#pragma once
#include "base.h"
#ifdef FERRY_SYSTEM_HEADERS
#define __FM_HOST static inline __host__ __attribute__((nodebug))
__FM_HOST float min(float x, float y) { return __builtin_fminf(x, y); }
__FM_HOST float max(float x, float y) { return __builtin_fmaxf(x, y); }
__FM_HOST double min(double x, double y) { return __builtin_fmin(x, y); }
__FM_HOST double max(double x, double y) { return __builtin_fmax(x, y); }
__FM_HOST double min(float x, double y) { return __builtin_fmin(x, y); }
__FM_HOST double max(float x, double y) { return __builtin_fmax(x, y); }
__FM_HOST double min(double x, float y) { return __builtin_fmin(x, y); }
__FM_HOST double max(double x, float y) { return __builtin_fmax(x, y); }
__FM_HOST float rsqrtf(float x) { return (float)(1 / __builtin_sqrt((double)x)); }
__FM_HOST float rsqrt(float x) { return rsqrtf(x); }
__FM_HOST double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
__FM_HOST float rcbrtf(float x) { return (float)(1 / __builtin_cbrt((double)x)); }
__FM_HOST double rcbrt(double x) { return 1 / __builtin_cbrt(x); }
__FM_HOST float fdividef(float x, float y) { return x / y; }
__FM_HOST double sinpi(double x) { return __builtin_sin(__builtin_fmod(x, 2) * 3.14159265358979323846); }
__FM_HOST double cospi(double x) { return __builtin_cos(__builtin_fmod(x, 2) * 3.14159265358979323846); }
__FM_HOST float sinpif(float x) { return (float)sinpi((double)x); }
__FM_HOST float cospif(float x) { return (float)cospi((double)x); }
__FM_HOST double norm3d(double a, double b, double c) { return __builtin_hypot(__builtin_hypot(a, b), c); }
__FM_HOST float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
__FM_HOST double normcdf(double x) { return 0.5 * __builtin_erfc(x * -0.70710678118654752440); }
__FM_HOST float normcdff(float x) { return (float)normcdf((double)x); }
#undef __FM_HOST
#endif
