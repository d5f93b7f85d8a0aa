// Events between streams of different priorities: one stream makes data, another takes it, and both
// are timed.
//
// Output: events: 50000 values over two streams
#include "check.h"

__global__ void fill(int *values, int n, int with) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		values[i] = with + i;
}

int main() {
	const int n = 50000;
	int lowest, highest, *host, *device;
	CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
	THAT(highest <= lowest);
	cudaStream_t makes, takes;
	CHECK(cudaStreamCreateWithPriority(&makes, cudaStreamNonBlocking, lowest));
	CHECK(cudaStreamCreateWithPriority(&takes, cudaStreamNonBlocking, highest));
	cudaEvent_t begin, made, end;
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaMallocHost(&host, n * sizeof(int)));
	CHECK(cudaMalloc(&device, n * sizeof(int)));

	CHECK(cudaEventRecord(begin, makes));
	fill<<<(n + 127) / 128, 128, 0, makes>>>(device, n, 7);
	CHECK(cudaEventRecord(made, makes));
	CHECK(cudaStreamWaitEvent(takes, made, 0));
	CHECK(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, takes));
	CHECK(cudaEventRecord(end, takes));
	CHECK(cudaEventSynchronize(end));
	THAT(cudaEventQuery(end) == cudaSuccess);
	for (int i = 0; i < n; i++)
		THAT(host[i] == i + 7);
	float milliseconds;
	CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
	THAT(milliseconds > 0);
	THAT(cudaEventElapsedTime(&milliseconds, begin, made) == cudaErrorInvalidResourceHandle); // it has no time
	for (cudaEvent_t e : {begin, made, end})
		CHECK(cudaEventDestroy(e));
	CHECK(cudaStreamDestroy(makes));
	CHECK(cudaStreamDestroy(takes));
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(host));
	printf("events: %d values over two streams\n", n);
}
