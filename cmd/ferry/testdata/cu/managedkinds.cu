// Managed variables of kinds that are weak in PTX. With an argument, a second device uses them too.
#include <cstdio>

inline __managed__ int shared = 5;
template <class T> __managed__ T value = 7;

__global__ void use() { shared++, value<int>++; }

int main(int argc, char **) {
    if (shared != 5 || value<int> != 7)
        return 6;
    use<<<1, 1>>>();
    if (cudaError_t e = cudaDeviceSynchronize())
        return std::printf("%s\n", cudaGetErrorString(e)), 7;
    if (argc > 1) {
        cudaSetDevice(1);
        use<<<1, 1>>>();
        use<<<1, 1>>>();
        std::fprintf(stderr, "%s\n", cudaGetErrorName(cudaGetLastError()));
    }
    std::printf("%d %d\n", shared, value<int>);
}
