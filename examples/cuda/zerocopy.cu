// Zero-copy: a kernel adds two vectors in host memory and writes the sum there. No copy is made.
// The inputs are write-combined, because the CPU only writes them; the sum is not, because it is read.
//
// Output: zerocopy: 10000 sums in host memory
#include "check.h"

__global__ void add(const float *a, const float *b, float *sum, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		sum[i] = a[i] + b[i];
}

int main() {
	const int n = 10000;
	CHECK(cudaSetDeviceFlags(cudaDeviceMapHost));
	cudaDeviceProp device;
	CHECK(cudaGetDeviceProperties(&device, 0));
	THAT(device.canMapHostMemory);

	float *a, *b, *sum;
	CHECK(cudaHostAlloc(&a, n * sizeof(float), cudaHostAllocMapped | cudaHostAllocWriteCombined));
	CHECK(cudaHostAlloc(&b, n * sizeof(float), cudaHostAllocMapped | cudaHostAllocWriteCombined));
	CHECK(cudaHostAlloc(&sum, n * sizeof(float), cudaHostAllocMapped));
	for (int i = 0; i < n; i++) {
		a[i] = i;
		b[i] = 2 * i;
		sum[i] = -1;
	}
	float *deviceA, *deviceB, *deviceSum;
	CHECK(cudaHostGetDevicePointer(&deviceA, a, 0));
	CHECK(cudaHostGetDevicePointer(&deviceB, b, 0));
	CHECK(cudaHostGetDevicePointer(&deviceSum, sum, 0));

	add<<<(n + 255) / 256, 256>>>(deviceA, deviceB, deviceSum, n);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize()); // without it the CPU reads what is not yet written
	for (int i = 0; i < n; i++)
		THAT(sum[i] == 3.0f * i);

	CHECK(cudaFreeHost(a));
	CHECK(cudaFreeHost(b));
	CHECK(cudaFreeHost(sum));
	printf("zerocopy: %d sums in host memory\n", n);
}
