// host_defines.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_HOST_DEFINES_H
#define FERRY_COMPAT_HOST_DEFINES_H
#include "../ferry/core.h"
#endif
