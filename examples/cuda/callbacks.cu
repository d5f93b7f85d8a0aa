// Functions of the host in the order of a stream: callbacks, which get the stream's error, and host
// functions, which do not. Neither may call CUDA.
//
// Output: callbacks: a callback saw 5, a host function 5
#include "check.h"

struct step {
	int *values;
	int want;
	int seen;
};

__global__ void add(int *values, int n, int by) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		values[i] += by;
}

static void CUDART_CB called(cudaStream_t, cudaError_t code, void *data) {
	step *s = static_cast<step *>(data);
	s->seen = code == cudaSuccess ? s->values[0] : -1;
}

static void CUDART_CB run(void *data) {
	step *s = static_cast<step *>(data);
	s->seen = s->values[0];
	s->values[0] = 100; // the copy behind it takes this value
}

int main() {
	const int n = 1000;
	int *host, *device;
	cudaStream_t stream;
	CHECK(cudaMallocHost(&host, n * sizeof(int)));
	CHECK(cudaMalloc(&device, n * sizeof(int)));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	step first = {host, 5, 0}, second = {host, 5, 0};
	CHECK(cudaMemsetAsync(device, 0, n * sizeof(int), stream));
	add<<<8, 128, 0, stream>>>(device, n, 5);
	CHECK(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamAddCallback(stream, called, &first, 0));
	CHECK(cudaLaunchHostFunc(stream, run, &second));
	CHECK(cudaMemcpyAsync(device, host, n * sizeof(int), cudaMemcpyHostToDevice, stream));
	add<<<8, 128, 0, stream>>>(device, n, 1);
	CHECK(cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	THAT(first.seen == first.want && second.seen == second.want);
	THAT(host[0] == 101 && host[1] == 6 && host[n - 1] == 6);
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(host));
	printf("callbacks: a callback saw %d, a host function %d\n", first.seen, second.seen);
}
