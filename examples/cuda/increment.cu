// A kernel increments memory of the program's own: it is page-locked and mapped where it is.
//
// Output: increment: 65536 values, three times
#include "check.h"

__global__ void increment(int *values, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		values[i]++;
}

int main() {
	const int n = 1 << 16;
	int *values = static_cast<int *>(aligned_alloc(4096, n * sizeof(int)));
	for (int i = 0; i < n; i++)
		values[i] = i;
	CHECK(cudaHostRegister(values, n * sizeof(int), cudaHostRegisterMapped));
	int *mapped;
	CHECK(cudaHostGetDevicePointer(&mapped, values, 0));
	for (int round = 0; round < 3; round++)
		increment<<<n / 256, 256>>>(mapped, n);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaHostUnregister(values));
	for (int i = 0; i < n; i++)
		THAT(values[i] == i + 3);
	free(values);
	printf("increment: %d values, three times\n", n);
}
