// vector_types.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_VECTOR_TYPES_H
#define FERRY_COMPAT_VECTOR_TYPES_H
#define __VECTOR_TYPES_H__ // sources ask for it
#include "../ferry/core.h"
#endif
