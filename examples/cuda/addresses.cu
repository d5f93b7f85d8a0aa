// Where an address is: the runtime tells device, page-locked, managed and plain memory apart.
//
// Output: addresses: device, host, managed, unregistered
#include "check.h"

// kind returns the kind of memory at an address.
static const char *kind(const void *p) {
	cudaPointerAttributes a;
	CHECK(cudaPointerGetAttributes(&a, p));
	switch (a.type) {
	case cudaMemoryTypeHost: return "host";
	case cudaMemoryTypeDevice: return "device";
	case cudaMemoryTypeManaged: return "managed";
	default: return "unregistered";
	}
}

int main() {
	int *device, *pinned, *managed, *plain = static_cast<int *>(malloc(4096));
	CHECK(cudaMalloc(&device, 4096));
	CHECK(cudaMallocHost(&pinned, 4096));
	CHECK(cudaMallocManaged(&managed, 4096));
	printf("addresses: %s, %s, %s, %s\n", kind(device), kind(pinned), kind(managed), kind(plain));
	pinned[5] = 12345;
	int value;
	CHECK(cudaMemcpy(device, pinned + 5, sizeof value, cudaMemcpyDefault)); // the addresses say which way
	CHECK(cudaMemcpy(managed, device, sizeof value, cudaMemcpyDefault));
	CHECK(cudaMemcpy(&value, managed, sizeof value, cudaMemcpyDefault));
	THAT(value == 12345);
	CHECK(cudaFree(device));
	CHECK(cudaFree(managed));
	CHECK(cudaFreeHost(pinned));
	free(plain);
}
