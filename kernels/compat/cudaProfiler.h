// cudaProfiler.h: the start and the end of what a profiler records, of the driver API.
#ifndef FERRY_COMPAT_CUDAPROFILER_H
#define FERRY_COMPAT_CUDAPROFILER_H
#include "cuda.h"
#endif
