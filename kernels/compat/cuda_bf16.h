// cuda_bf16.h: the types of bfloat16.
#ifndef FERRY_COMPAT_CUDA_BF16_H
#define FERRY_COMPAT_CUDA_BF16_H
#define __CUDA_BF16_H__ // sources ask for it
#include "../ferry/bfloat16.h"
#endif
