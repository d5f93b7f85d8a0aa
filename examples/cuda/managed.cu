// Managed memory: one pointer for the CPU and the GPU, with advice and prefetches.
//
// Output: managed: 65536 sums
#include "check.h"

__global__ void add(const float *a, const float *b, float *sum, int n) {
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		sum[i] = a[i] + b[i];
}

int main() {
	const int n = 1 << 16;
	const size_t bytes = n * sizeof(float);
	int device;
	CHECK(cudaGetDevice(&device));
	float *a, *b, *sum;
	CHECK(cudaMallocManaged(&a, bytes));
	CHECK(cudaMallocManaged(&b, bytes));
	CHECK(cudaMallocManaged(&sum, bytes));
	for (int i = 0; i < n; i++) {
		a[i] = i;
		b[i] = 1;
	}
	int concurrent;
	CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
	if (concurrent) {
		cudaMemLocation gpu = {cudaMemLocationTypeDevice, device};
		CHECK(cudaMemAdvise(a, bytes, cudaMemAdviseSetReadMostly, gpu));
		CHECK(cudaMemAdvise(sum, bytes, cudaMemAdviseSetPreferredLocation, gpu));
		CHECK(cudaMemPrefetchAsync(a, bytes, gpu, 0));
		CHECK(cudaMemPrefetchAsync(b, bytes, gpu, 0));
	}
	add<<<32, 256>>>(a, b, sum, n);
	CHECK(cudaGetLastError());
	if (concurrent) {
		cudaMemLocation cpu = {cudaMemLocationTypeHost, 0};
		CHECK(cudaMemPrefetchAsync(sum, bytes, cpu, 0));
	}
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < n; i++)
		THAT(sum[i] == i + 1);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(sum));
	printf("managed: %d sums\n", n);
}
