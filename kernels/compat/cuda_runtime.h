// cuda_runtime.h of CUDA: what it declares for kernels.
#ifndef FERRY_COMPAT_CUDA_RUNTIME_H
#define FERRY_COMPAT_CUDA_RUNTIME_H
#include "../ferry/core.h"
#include "host_runtime.h"
#endif
