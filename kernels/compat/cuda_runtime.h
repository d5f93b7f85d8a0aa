// cuda_runtime.h of CUDA: what it declares for kernels.
#pragma once
#include "../ferry/core.h"
#include "host_runtime.h"
