// Write-combined memory: the CPU fills it in order and never reads it, the device adds it up.
//
// Output: writecombined: the sum is 8589869056
#include "check.h"

__global__ void add(const int *values, int n, unsigned long long *total) {
	unsigned long long sum = 0;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
		sum += values[i];
	for (int distance = 16; distance > 0; distance /= 2)
		sum += __shfl_down_sync(0xffffffff, sum, distance);
	if (threadIdx.x % 32 == 0)
		atomicAdd(total, sum);
}

int main() {
	const int n = 1 << 17;
	int *host, *device;
	unsigned long long *total, result;
	CHECK(cudaHostAlloc(&host, n * sizeof(int), cudaHostAllocWriteCombined));
	CHECK(cudaMalloc(&device, n * sizeof(int)));
	CHECK(cudaMalloc(&total, sizeof *total));
	unsigned flags;
	CHECK(cudaHostGetFlags(&flags, host));
	THAT(flags & cudaHostAllocWriteCombined);
	unsigned long long want = 0;
	for (int i = 0; i < n; i++) {
		host[i] = i;
		want += i;
	}
	CHECK(cudaMemsetAsync(total, 0, sizeof *total));
	CHECK(cudaMemcpyAsync(device, host, n * sizeof(int), cudaMemcpyHostToDevice));
	add<<<32, 128>>>(device, n, total);
	CHECK(cudaMemcpy(&result, total, sizeof result, cudaMemcpyDeviceToHost)); // waits for all before it
	THAT(result == want);
	CHECK(cudaFreeHost(host));
	CHECK(cudaFree(device));
	CHECK(cudaFree(total));
	printf("writecombined: the sum is %llu\n", result);
}
