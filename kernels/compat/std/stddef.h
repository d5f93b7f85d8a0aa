// size_t, ptrdiff_t, NULL, offsetof.
#ifndef FERRY_COMPAT_STDDEF_H
#define FERRY_COMPAT_STDDEF_H
#include "../../ferry/core.h"
#ifdef __PTRDIFF_TYPE__
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#elif !defined(_WIN32)
typedef long ptrdiff_t;
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#endif
