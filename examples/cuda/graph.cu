// A pipeline of copy, kernel and copy is captured once and launched many times as a graph.
//
// Output: graph: 3 nodes, 5 launches
#include "check.h"

__global__ void square(int *values, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		values[i] *= values[i];
}

int main() {
	const int n = 20000, launches = 5;
	const size_t bytes = n * sizeof(int);
	int *in, *out, *device;
	cudaStream_t stream;
	CHECK(cudaHostAlloc(&in, bytes, cudaHostAllocWriteCombined));
	CHECK(cudaMallocHost(&out, bytes));
	CHECK(cudaMalloc(&device, bytes));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

	cudaGraph_t graph;
	cudaGraphExec_t executable;
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemcpyAsync(device, in, bytes, cudaMemcpyHostToDevice, stream));
	square<<<(n + 255) / 256, 256, 0, stream>>>(device, n);
	CHECK(cudaMemcpyAsync(out, device, bytes, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	size_t nodes = 0;
	CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));

	for (int launch = 0; launch < launches; launch++) {
		for (int i = 0; i < n; i++)
			in[i] = (i + launch) % 1000;
		CHECK(cudaGraphLaunch(executable, stream));
		CHECK(cudaStreamSynchronize(stream));
		for (int i = 0; i < n; i++)
			THAT(out[i] == (i + launch) % 1000 * ((i + launch) % 1000));
	}
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(device));
	CHECK(cudaFreeHost(in));
	CHECK(cudaFreeHost(out));
	printf("graph: %zu nodes, %d launches\n", nodes, launches);
}
