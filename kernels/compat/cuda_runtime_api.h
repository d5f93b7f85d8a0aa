// cuda_runtime_api.h of CUDA.
#ifndef FERRY_COMPAT_CUDA_RUNTIME_API_H
#define FERRY_COMPAT_CUDA_RUNTIME_API_H
#include "host_runtime.h"
#endif
