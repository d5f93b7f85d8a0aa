// A function that the runtime lacks is declared, links, and refuses.
#include <cstdio>

int main() {
    cudaArray_t array;
    cudaChannelFormatDesc desc = cudaCreateChannelDesc<float4>();
    cudaError_t e = cudaMallocArray(&array, &desc, 16, 16);
    std::printf("%s %d %s\n", cudaGetErrorName(e), desc.w, cudaGetErrorName(cudaGetLastError()));
}
