// cuda_runtime_api.h of CUDA.
#pragma once
#include "host_runtime.h"
