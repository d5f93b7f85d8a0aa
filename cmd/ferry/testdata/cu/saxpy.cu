// The first program that people write. An argument lets the last copy be forgotten.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(CALL)                                                                              \
    do {                                                                                         \
        cudaError_t e = (CALL);                                                                  \
        if (e != cudaSuccess) {                                                                  \
            std::cerr << #CALL << ": " << cudaGetErrorName(e) << ": " << cudaGetErrorString(e) << "\n"; \
            std::exit(5);                                                                        \
        }                                                                                        \
    } while (0)

template <class T> __global__ void saxpy(T a, const T *x, T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

int main(int argc, char **argv) {
    int n = argc > 1 ? std::atoi(argv[1]) : 1000;
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; i++)
        x[i] = float(i), y[i] = 2;
    float *dx, *dy;
    CHECK(cudaMalloc(&dx, n * sizeof *dx));
    CHECK(cudaMalloc(&dy, n * sizeof *dy));
    CHECK(cudaMemcpy(dx, x.data(), n * sizeof *dx, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dy, y.data(), n * sizeof *dy, cudaMemcpyHostToDevice));
    saxpy<<<(n + 255) / 256, 256>>>(3.0f, dx, dy, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y.data(), dy, n * sizeof *dy, cudaMemcpyDeviceToHost)); // back
    for (int i = 0; i < n; i++)
        if (y[i] != 3 * float(i) + 2) {
            std::printf("y[%d] is %g\n", i, y[i]);
            return 6;
        }
    CHECK(cudaFree(dx));
    CHECK(cudaFree(dy));
    std::printf("%d elements are right\n", n);
}
