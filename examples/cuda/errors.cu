// Errors of the call itself, which the thread remembers, and a fault of a kernel, which a later call
// returns and which does not go away.
//
// Output: errors: cudaErrorIllegalAddress: an illegal memory access was encountered
#include "check.h"

__global__ void store(int *p) { *p = 1; }

int main() {
	int *device;
	CHECK(cudaMalloc(&device, sizeof(int)));
	store<<<1, 2048>>>(device); // too many threads
	THAT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
	THAT(cudaGetLastError() == cudaErrorInvalidConfiguration);
	THAT(cudaGetLastError() == cudaSuccess);
	THAT(cudaMalloc(&device, static_cast<size_t>(1) << 60) == cudaErrorMemoryAllocation);
	THAT(cudaGetLastError() == cudaErrorMemoryAllocation);
	THAT(cudaSetDevice(1000) == cudaErrorInvalidDevice);
	THAT(cudaGetLastError() == cudaErrorInvalidDevice);

	store<<<1, 1>>>(nullptr);
	THAT(cudaGetLastError() == cudaSuccess); // the launch itself is right
	cudaError_t code = cudaDeviceSynchronize();
	THAT(code == cudaErrorIllegalAddress);
	THAT(cudaDeviceSynchronize() == cudaErrorIllegalAddress); // and so for ever
	printf("errors: %s: %s\n", cudaGetErrorName(code), cudaGetErrorString(code));
}
