// Host functions and callbacks of streams.
#include "driver.h"
#include <pthread.h>
#include <unistd.h>

enum { n = 200 };

static CUdeviceptr device;
static unsigned *host;
static int order[2 * n], seen;
static pthread_t main_thread;
static CUstream stream;

static void note(void *arg) {
	CUdeviceptr p;
	CUcontext c;
	int count;
	order[seen++] = (int)(long)arg;
	if (host[0] != (unsigned)(long)arg)
		fprintf(stderr, "the host function %ld saw %u\n", (long)arg, host[0]);
	WANT(800, cuMemAlloc_v2(&p, 4)); // CUDA_ERROR_NOT_PERMITTED
	WANT(800, cuCtxGetCurrent(&c));
	WANT(800, cuDeviceGetCount(&count));
	THAT(!pthread_equal(pthread_self(), main_thread));
}

static void called(CUstream s, CUresult status, void *arg) {
	CUdeviceptr p;
	THAT(s == stream && status == 0);
	order[seen++] = -(int)(long)arg;
	WANT(800, cuMemAlloc_v2(&p, 4));
}

int main(void) {
	CUcontext ctx;
	main_thread = pthread_self();
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemAlloc_v2(&device, 4));
	OK(cuMemAllocHost_v2((void **)&host, 4));
	OK(cuStreamCreate(&stream, 1));
	WANT(1, cuLaunchHostFunc(stream, NULL, NULL));
	WANT(1, cuStreamAddCallback(stream, called, NULL, 1));
	for (long i = 1; i <= n; i++) {
		OK(cuMemsetD32Async(device, (unsigned)i, 1, stream));
		OK(cuMemcpyDtoHAsync_v2(host, device, 4, stream));
		OK(cuLaunchHostFunc(stream, note, (void *)i));
		OK(cuStreamAddCallback(stream, called, (void *)i, 0));
	}
	OK(cuStreamSynchronize(stream));
	THAT(seen == 2 * n);
	for (int i = 0; i < n; i++)
		THAT(order[2 * i] == i + 1 && order[2 * i + 1] == -(i + 1));
	OK(cuMemFree_v2(device)); // the thread of the program may call again
	OK(cuCtxDestroy_v2(ctx));
	puts("host functions: right");
	return 0;
}
