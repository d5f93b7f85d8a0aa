// device_functions.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_DEVICE_FUNCTIONS_H
#define FERRY_COMPAT_DEVICE_FUNCTIONS_H
#include "../ferry/core.h"
#endif
