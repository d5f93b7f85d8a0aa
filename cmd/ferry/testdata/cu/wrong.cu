// Each mistake has its line in the report.
#include <cuda_runtime.h>

__global__ void count(int *p) { p[threadIdx.x]++; }

int main() {
    int *p, *gone, values[32];
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMalloc(&p, sizeof values);
    cudaMalloc(&gone, sizeof values); // allocated
    cudaMemset(p, 0, sizeof values); // else the kernel, where it runs before the fill, reads what nothing has written
    cudaDeviceSynchronize();
    cudaMemsetAsync(p, 0, sizeof values, a); // fill
    count<<<1, 32, 0, b>>>(p); // launch
    cudaDeviceSynchronize();
    cudaFree(gone); // freed
    cudaMemcpy(values, gone, sizeof values, cudaMemcpyDeviceToHost); // copy
}
