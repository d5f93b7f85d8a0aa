#include "square.h"
#ifndef COUNT
#error COUNT is not defined
#endif
extern "C" __global__ void squares(float *x)
{
    for (int i = threadIdx.x; i < COUNT; i += blockDim.x)
        x[i] = square(x[i]);
}
