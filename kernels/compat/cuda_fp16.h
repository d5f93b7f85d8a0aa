// cuda_fp16.h: the types of half precision. NVRTC gets CUDA's own file if it follows in the
// search path.
#ifndef FERRY_COMPAT_CUDA_FP16_H
#define FERRY_COMPAT_CUDA_FP16_H
#define __CUDA_FP16_H__ // sources ask for it
#include "../ferry/half.h"
#endif
