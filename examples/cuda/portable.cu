// Portable page-locked memory: two devices copy from the same memory, each on a thread of its own.
// With one device both threads use it.
//
// Output: portable: 40000 squares by two threads
#include "check.h"
#include <thread>

const int n = 40000;

__global__ void square(int *values, int count) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		values[i] *= values[i];
}

// half squares half of the values on a device.
static void half(int device, int *values) {
	int *copy;
	CHECK(cudaSetDevice(device));
	CHECK(cudaMalloc(&copy, n / 2 * sizeof(int)));
	CHECK(cudaMemcpyAsync(copy, values, n / 2 * sizeof(int), cudaMemcpyHostToDevice));
	square<<<(n / 2 + 127) / 128, 128>>>(copy, n / 2);
	CHECK(cudaMemcpyAsync(values, copy, n / 2 * sizeof(int), cudaMemcpyDeviceToHost));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(copy));
}

int main() {
	int devices, *values;
	CHECK(cudaGetDeviceCount(&devices));
	CHECK(cudaHostAlloc(&values, n * sizeof(int), cudaHostAllocPortable));
	unsigned flags;
	CHECK(cudaHostGetFlags(&flags, values));
	THAT(flags & cudaHostAllocMapped); // all page-locked memory is mapped
	for (int i = 0; i < n; i++)
		values[i] = i;
	std::thread other(half, devices > 1 ? 1 : 0, values + n / 2);
	half(0, values);
	other.join();
	for (int i = 0; i < n; i++)
		THAT(values[i] == i * i);
	CHECK(cudaFreeHost(values));
	printf("portable: %d squares by two threads\n", n);
}
