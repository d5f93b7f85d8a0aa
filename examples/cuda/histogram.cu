// A histogram whose counters stand in mapped host memory: blocks count in shared memory, and add
// what they have to the host's counters by atomics of the whole system.
//
// Output: histogram: 262144 bytes in 256 counters of the host
#include "check.h"

const int bins = 256;

__global__ void count(const unsigned char *bytes, int n, unsigned *counters) {
	__shared__ unsigned own[bins];
	own[threadIdx.x] = 0;
	__syncthreads();
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		atomicAdd(&own[bytes[i]], 1);
	__syncthreads();
	atomicAdd_system(&counters[threadIdx.x], own[threadIdx.x]);
}

int main() {
	const int n = 1 << 18;
	unsigned char *text, *device;
	CHECK(cudaMallocHost(&text, n));
	CHECK(cudaMalloc(&device, n));
	unsigned want[bins] = {}, random = 1;
	for (int i = 0; i < n; i++) {
		random = random * 1664525 + 1013904223;
		text[i] = random >> 24 & random >> 16;
		want[text[i]]++;
	}
	unsigned *counters, *mapped;
	CHECK(cudaHostAlloc(&counters, sizeof want, cudaHostAllocMapped));
	for (int b = 0; b < bins; b++)
		counters[b] = 0;
	CHECK(cudaHostGetDevicePointer(&mapped, counters, 0));
	CHECK(cudaMemcpy(device, text, n, cudaMemcpyHostToDevice));
	count<<<16, bins>>>(device, n, mapped);
	CHECK(cudaDeviceSynchronize());
	for (int b = 0; b < bins; b++)
		THAT(counters[b] == want[b]);
	CHECK(cudaFreeHost(counters));
	CHECK(cudaFreeHost(text));
	CHECK(cudaFree(device));
	printf("histogram: %d bytes in %d counters of the host\n", n, bins);
}
