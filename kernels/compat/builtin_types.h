// builtin_types.h of CUDA: the types of the runtime API.
#ifndef FERRY_COMPAT_BUILTIN_TYPES_H
#define FERRY_COMPAT_BUILTIN_TYPES_H
#include "driver_types.h"
#include "surface_types.h"
#include "texture_types.h"
#endif
