// Memory of malloc is page-locked where it is, so that copies of a stream need no staging. Parts of
// it that are page-locked already are refused.
//
// Output: registered: 100000 values of malloc
#include "check.h"

int main() {
	const size_t n = 100000, bytes = n * sizeof(int);
	int *host = static_cast<int *>(malloc(bytes)), *device;
	CHECK(cudaMalloc(&device, bytes));
	for (size_t i = 0; i < n; i++)
		host[i] = i * 3;
	CHECK(cudaHostRegister(host, bytes, cudaHostRegisterDefault));
	THAT(cudaHostRegister(host, bytes, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered);
	THAT(cudaGetLastError() == cudaErrorHostMemoryAlreadyRegistered);
	THAT(cudaGetLastError() == cudaSuccess);

	cudaStream_t stream;
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
	CHECK(cudaStreamSynchronize(stream)); // before the source is written again
	for (size_t i = 0; i < n; i++)
		host[i] = 0;
	CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (size_t i = 0; i < n; i++)
		THAT(host[i] == static_cast<int>(i) * 3);
	CHECK(cudaHostUnregister(host));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(device));
	free(host);
	printf("registered: %zu values of malloc\n", n);
}
