// vector_types.h of CUDA: what it declares for kernels.
#pragma once
#include "../ferry/core.h"
