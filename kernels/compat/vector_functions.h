// vector_functions.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_VECTOR_FUNCTIONS_H
#define FERRY_COMPAT_VECTOR_FUNCTIONS_H
#define __VECTOR_FUNCTIONS_H__ // sources ask for it
#include "../ferry/core.h"
#endif
