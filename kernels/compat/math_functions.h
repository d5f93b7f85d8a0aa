// math_functions.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_MATH_FUNCTIONS_H
#define FERRY_COMPAT_MATH_FUNCTIONS_H
#include "../ferry/core.h"
#endif
