// One of three files: a kernel of the same name as in another one, and the driver API.
#include <cstdio>

#include <cuda.h>

#include "parts.h"

static __device__ int own = 1;
static __global__ void add(int *p) { *p += own; }

int main() {
    int *p, value = 0;
    cudaMalloc(&p, sizeof value);
    cudaMemset(p, 0, sizeof value);
    add<<<1, 1>>>(p);
    add_ten(p);
    cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost);
    int devices = 0;
    cuInit(0);
    cuDeviceGetCount(&devices);
    std::printf("%d %d %d\n", value, devices > 0, version());
}
