// Copies and kernels of several streams overlap. The calls are made in two orders: stream by stream,
// and kind by kind. Both give the same results.
//
// Output: overlap: 4 streams, two orders
#include "check.h"

const int n = 1 << 18, streams = 4, part = n / streams;

__global__ void scale(float *values, int count) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		values[i] = values[i] * 2 + 1;
}

struct pipeline {
	float *host, *device;
	cudaStream_t stream[streams];

	void in(int s) { CHECK(cudaMemcpyAsync(device + s * part, host + s * part, part * sizeof(float), cudaMemcpyHostToDevice, stream[s])); }
	void work(int s) { scale<<<part / 256, 256, 0, stream[s]>>>(device + s * part, part); }
	void out(int s) { CHECK(cudaMemcpyAsync(host + s * part, device + s * part, part * sizeof(float), cudaMemcpyDeviceToHost, stream[s])); }
};

int main() {
	pipeline p;
	CHECK(cudaHostAlloc(&p.host, n * sizeof(float), cudaHostAllocDefault));
	CHECK(cudaMalloc(&p.device, n * sizeof(float)));
	for (cudaStream_t &s : p.stream)
		CHECK(cudaStreamCreate(&s));
	for (int i = 0; i < n; i++)
		p.host[i] = i % 1000;

	for (int s = 0; s < streams; s++) {
		p.in(s);
		p.work(s);
		p.out(s);
	}
	for (cudaStream_t s : p.stream)
		CHECK(cudaStreamSynchronize(s));
	for (int i = 0; i < n; i++)
		THAT(p.host[i] == i % 1000 * 2 + 1);

	for (int s = 0; s < streams; s++)
		p.in(s);
	for (int s = 0; s < streams; s++)
		p.work(s);
	for (int s = 0; s < streams; s++)
		p.out(s);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		THAT(p.host[i] == (i % 1000 * 2 + 1) * 2 + 1);

	for (cudaStream_t s : p.stream)
		CHECK(cudaStreamDestroy(s));
	CHECK(cudaFree(p.device));
	CHECK(cudaFreeHost(p.host));
	printf("overlap: %d streams, two orders\n", streams);
}
