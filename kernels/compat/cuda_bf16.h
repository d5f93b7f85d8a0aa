// cuda_bf16.h: the types of bfloat16.
#pragma once
#include "../ferry/bfloat16.h"
