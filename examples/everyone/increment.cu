// Increments numbers in page-locked memory by a kernel, in CUDA C++.
//
//	ferry cc --run increment.cu

#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

extern "C" __global__ void increment(float *p, unsigned long long n) {
	unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
	if (i < n) p[i] += 1;
}

// Ends the program if a call failed.
static void check(const char *what, cudaError_t code) {
	if (code != cudaSuccess) {
		std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(code));
		std::exit(1);
	}
}

int main() {
	const unsigned long long n = 1000;
	float *host, *device;
	check("cudaHostAlloc", cudaHostAlloc(&host, n * sizeof *host, cudaHostAllocMapped));
	check("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&device, host, 0));
	for (unsigned long long i = 0; i < n; i++) host[i] = 41;

	increment<<<(n + 255) / 256, 256>>>(device, n);
	check("increment", cudaGetLastError());
	check("cudaDeviceSynchronize", cudaDeviceSynchronize()); // without it, host[0] may still be 41

	double sum = 0;
	for (unsigned long long i = 0; i < n; i++) sum += host[i];
	std::printf("%.1f\n", sum / n);
	check("cudaFreeHost", cudaFreeHost(host));
}
