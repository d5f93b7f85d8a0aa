// cuda_fp8.h: the types of 8-bit floats.
#ifndef FERRY_COMPAT_CUDA_FP8_H
#define FERRY_COMPAT_CUDA_FP8_H
#define __CUDA_FP8_H__ // sources ask for it
#ifdef __CUDACC_RTC__
#error "NVRTC needs NVIDIA's own cuda_fp8.h: install the toolkit's headers, or use clang"
#endif
#include "../ferry/fp8.h"
#endif
