// min, max and abs of all arithmetic types.
#pragma once
#include "base.h"

#define __FM_MINMAX(R, A, B) \
    __FM_HD R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
    __FM_HD R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }

__FM_MINMAX(int, int, int)
__FM_MINMAX(unsigned, unsigned, unsigned)
__FM_MINMAX(unsigned, int, unsigned)
__FM_MINMAX(unsigned, unsigned, int)
__FM_MINMAX(long, long, long)
__FM_MINMAX(unsigned long, unsigned long, unsigned long)
__FM_MINMAX(unsigned long, long, unsigned long)
__FM_MINMAX(unsigned long, unsigned long, long)
__FM_MINMAX(long long, long long, long long)
__FM_MINMAX(unsigned long long, unsigned long long, unsigned long long)
__FM_MINMAX(unsigned long long, long long, unsigned long long)
__FM_MINMAX(unsigned long long, unsigned long long, long long)

__FM_HD unsigned umin(unsigned a, unsigned b) { return min(a, b); }
__FM_HD unsigned umax(unsigned a, unsigned b) { return max(a, b); }
__FM_HD long long llmin(long long a, long long b) { return min(a, b); }
__FM_HD long long llmax(long long a, long long b) { return max(a, b); }
__FM_HD unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
__FM_HD unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

__FM_FN int abs(int a) { return a < 0 ? (int)(0u - (unsigned)a) : a; }
__FM_FN long abs(long a) { return a < 0 ? (long)(0ul - (unsigned long)a) : a; }
__FM_FN long long abs(long long a) { return a < 0 ? (long long)(0ull - (unsigned long long)a) : a; }
__FM_FN long labs(long a) { return abs(a); }
__FM_FN long long llabs(long long a) { return abs(a); }
