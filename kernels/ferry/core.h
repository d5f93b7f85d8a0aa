// What nvcc gives every source without an include: all parts but half and bfloat16.
#ifndef FERRY_CORE_H
#define FERRY_CORE_H
// Clang lets a function for the device stand beside a constexpr function of the C++ library
// with the same name only if it comes from a system header. Files included here inherit this.
#ifdef FERRY_SYSTEM_HEADERS
#pragma clang system_header
#endif
#include "define.h"
#include "vector.h"
#include "builtins.h"
#include "integer.h"
#include "convert.h"
#ifdef FERRY_CLANG
#ifndef FERRY_SYSTEM_HEADERS
#include "../compat/std/stdint.h"
#endif
#include "math.h"
#ifdef FERRY_SYSTEM_HEADERS
#include "math/std.h"
#include "math/host.h"
#endif
#endif
#include "warp.h"
#include "atomic.h"
#include "memory.h"
#include "print.h"
#include "assert.h"
#include "names.h"
#include "texture.h"
#endif
