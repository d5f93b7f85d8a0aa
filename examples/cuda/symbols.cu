// Variables of the device: constants that the host writes, and a counter that it reads.
//
// Output: symbols: 3000 threads counted
#include "check.h"

__constant__ float weights[4];
__device__ unsigned counter;

template <typename T>
__global__ void weigh(T *values, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	values[i] *= static_cast<T>(weights[i % 4]);
	atomicAdd(&counter, 1);
}

int main() {
	const int n = 3000;
	const float host[4] = {1, 2, 4, 8};
	CHECK(cudaMemcpyToSymbol(weights, host, sizeof host));
	double *values, result[n];
	for (int i = 0; i < n; i++)
		result[i] = i;
	CHECK(cudaMalloc(&values, sizeof result));
	CHECK(cudaMemcpy(values, result, sizeof result, cudaMemcpyHostToDevice));
	weigh<<<dim3((n + 63) / 64), dim3(64)>>>(values, n);
	CHECK(cudaMemcpy(result, values, sizeof result, cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++)
		THAT(result[i] == i * host[i % 4]);
	unsigned count, *address;
	size_t bytes;
	CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
	CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&address), counter));
	CHECK(cudaGetSymbolSize(&bytes, weights));
	THAT(count == n && address != nullptr && bytes == sizeof host);
	CHECK(cudaFree(values));
	printf("symbols: %u threads counted\n", count);
}
