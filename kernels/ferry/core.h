// What nvcc gives every source without an include: all parts but assert, half and bfloat16.
#ifndef FERRY_CORE_H
#define FERRY_CORE_H
#include "define.h"
#include "vector.h"
#include "builtins.h"
#include "integer.h"
#include "convert.h"
#ifdef FERRY_CLANG
#include "math.h"
#endif
#include "warp.h"
#include "atomic.h"
#include "memory.h"
#include "print.h"
#include "names.h"
#endif
