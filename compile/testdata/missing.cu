#include <helper_cuda.h>
__global__ void sum(float *x) { *x = helper(*x); }
