#include "parts.h"

static __device__ int own = 10;
static __global__ void add(int *p) { *p += own; }

void add_ten(int *p) { add<<<1, 1>>>(p); }
