// cuda_profiler_api.h: the start and the end of what a profiler records.
#ifndef FERRY_COMPAT_CUDA_PROFILER_API_H
#define FERRY_COMPAT_CUDA_PROFILER_API_H
#include "cuda_runtime_api.h"
#endif
