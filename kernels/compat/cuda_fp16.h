// cuda_fp16.h: the types of half precision. NVRTC gets CUDA's own file if it follows in the
// search path.
#pragma once
#include "../ferry/half.h"
