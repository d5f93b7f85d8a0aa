// Shared memory that no block can have.
#include <cstdio>

__global__ void k() {}

int main() {
    int grid = -1, block = -1;
    const size_t huge = (size_t)1 << 32; // 0 in the 32 bits of the driver
    cudaError_t e = cudaOccupancyMaxPotentialBlockSize(&grid, &block, k, 10 << 20);
    k<<<1, 1, huge>>>();
    cudaError_t launch = cudaGetLastError();
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    config.dynamicSmemBytes = huge;
    cudaError_t ex = cudaLaunchKernelEx(&config, k);
    cudaError_t cooperative = cudaLaunchCooperativeKernel(k, 1, 1, nullptr, huge);
    std::printf("%d %d %d %d %d %d\n", e, grid, block, launch, ex, cooperative);
}
