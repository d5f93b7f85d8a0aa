// driver_types.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_DRIVER_TYPES_H
#define FERRY_COMPAT_DRIVER_TYPES_H
#include "../ferry/core.h"
#endif
