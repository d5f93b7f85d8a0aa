// Managed variables, which the host and the device use by their names.
#include <cstdio>

__device__ __managed__ int count = 5;
__managed__ float values[8];
struct Pair {
    int a;
    double b;
};
static __managed__ Pair pair = {1, 2.5};

// A static constructor writes one before a driver is open.
struct Before {
    Before() { values[7] = 4; }
} before;

__global__ void use() {
    count += 1;
    values[threadIdx.x] += threadIdx.x * 0.5f;
    pair.b += pair.a;
}

static int *where() { return &count; }

int main() {
    int copy = 0;
    if (count != 5 || values[7] != 4 || pair.b != 2.5)
        return std::printf("before: %d %g %g\n", count, values[7], pair.b), 6;
    count = 10, values[3] = 1;
    use<<<1, 8>>>();
    if (cudaError_t e = cudaDeviceSynchronize())
        return std::printf("%s\n", cudaGetErrorString(e)), 7;
    cudaMemcpyFromSymbol(&copy, count, sizeof copy);
    cudaPointerAttributes a;
    cudaPointerGetAttributes(&a, where());
    std::printf("%d %g %g %g %d %d\n", count, values[3], values[7], pair.b, copy, a.type == cudaMemoryTypeManaged);
}
