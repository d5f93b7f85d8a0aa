// Clocks for host code in the same file, which is checked and dropped. Kernels have clock64.
#ifndef FERRY_COMPAT_TIME_H
#define FERRY_COMPAT_TIME_H
#include "stddef.h"
#ifdef FERRY_CLANG
typedef long clock_t;
typedef long time_t;
struct timespec { time_t tv_sec; long tv_nsec; };
extern "C" {
time_t time(time_t *);
}
#define CLOCKS_PER_SEC 1000000
#endif
#endif
