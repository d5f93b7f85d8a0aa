// cuda_fp8.h: the types of 8-bit floats.
#ifndef FERRY_COMPAT_CUDA_FP8_H
#define FERRY_COMPAT_CUDA_FP8_H
#define __CUDA_FP8_H__ // sources ask for it
#include "../ferry/fp8.h"
#endif
