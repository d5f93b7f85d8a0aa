// Copies from and to pageable and page-locked memory, timed by events. With an argument it prints
// the rates.
//
// Output: bandwidth: 8 MiB there and back, two kinds of memory
#include "check.h"
#include <cstring>

// rate copies both ways and returns GB/s to the device and back.
static void rate(unsigned char *host, unsigned char *device, size_t bytes, float result[2]) {
	cudaEvent_t begin, end;
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	for (int way = 0; way < 2; way++) {
		CHECK(cudaEventRecord(begin));
		CHECK(way == 0 ? cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice)
		               : cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
		CHECK(cudaEventRecord(end));
		CHECK(cudaEventSynchronize(end));
		float milliseconds;
		CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
		result[way] = bytes / milliseconds / 1e6f;
		if (way == 0)
			memset(host, 0, bytes); // so that the bytes that come back are those of the device
	}
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
}

int main(int count, char **) {
	const size_t bytes = 8 << 20;
	unsigned char *device, *pageable = static_cast<unsigned char *>(malloc(bytes)), *pinned;
	CHECK(cudaMalloc(&device, bytes));
	CHECK(cudaMallocHost(&pinned, bytes));
	unsigned char *kinds[] = {pageable, pinned};
	const char *names[] = {"pageable", "page-locked"};
	for (int kind = 0; kind < 2; kind++) {
		for (size_t i = 0; i < bytes; i++)
			kinds[kind][i] = i * 7 + kind;
		float result[2];
		rate(kinds[kind], device, bytes, result);
		for (size_t i = 0; i < bytes; i++)
			THAT(kinds[kind][i] == static_cast<unsigned char>(i * 7 + kind));
		THAT(result[0] > 0 && result[1] > 0);
		if (count > 1)
			printf("%s: %.1f GB/s to the device, %.1f GB/s back\n", names[kind], result[0], result[1]);
	}
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(device));
	free(pageable);
	printf("bandwidth: 8 MiB there and back, two kinds of memory\n");
}
