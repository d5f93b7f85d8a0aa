// Many short threads with default streams, captures and capture modes. Nothing of a thread that has
// ended may be seen by a later one.
#include "driver.h"
#include <pthread.h>

enum { threads = 10000, together = 25, words = 64 };

static CUcontext ctx;
static CUstream orphan[together]; // streams in which a thread that ended began a capture

static void *work(void *arg) {
	long id = (long)arg;
	CUcontext now = ctx;
	OK(cuCtxGetCurrent(&now));
	THAT(now == NULL);
	OK(cuCtxSetCurrent(ctx));

	// A thread starts with the capture mode global.
	unsigned mode = 2;
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	THAT(mode == 0);

	// The default stream of the thread.
	CUdeviceptr p;
	unsigned got[words];
	OK(cuMemAlloc_v2(&p, sizeof got));
	OK(cuMemsetD32Async(p, (unsigned)id, words, CU_STREAM_PER_THREAD));
	OK(cuMemsetD32Async_ptsz(p, (unsigned)id + 1, words / 2, 0));
	OK(cuMemcpyDtoH_v2_ptds(got, p, sizeof got));
	for (int i = 0; i < words; i++)
		THAT(got[i] == (unsigned)id + (i < words / 2));

	// A capture that the thread ends.
	CUstream s;
	CUgraph graph;
	CUgraphExec exec;
	OK(cuStreamCreate(&s, 1));
	OK(cuStreamBeginCapture_v2(s, 1));
	OK(cuMemsetD32Async(p, 7, words, s));
	OK(cuStreamEndCapture(s, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, s));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH_v2(got, p, sizeof got));
	THAT(got[0] == 7 && got[words - 1] == 7);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuStreamDestroy_v2(s));

	// A capture of a thread that has ended: this one did not begin it.
	CUstream *old = &orphan[id % together];
	if (*old) {
		WANT(908, cuStreamEndCapture(*old, &graph)); // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
		OK(cuStreamDestroy_v2(*old));
	}
	OK(cuStreamCreate(old, 1));
	OK(cuStreamBeginCapture_v2(*old, 1));
	OK(cuMemFree_v2(p));
	return NULL; // with the mode relaxed, and a capture that has not ended
}

int main(void) {
	CUdevice dev;
	OK(cuInit(0));
	OK(cuDeviceGet(&dev, 0));
	OK(cuDevicePrimaryCtxRetain(&ctx, dev));
	CUcontext now;
	OK(cuCtxGetCurrent(&now));
	THAT(now == NULL); // retaining does not make it current
	for (long i = 0; i < threads; i += together) {
		pthread_t t[together];
		for (int k = 0; k < together; k++)
			THAT(pthread_create(&t[k], NULL, work, (void *)(i + k)) == 0);
		for (int k = 0; k < together; k++)
			THAT(pthread_join(t[k], NULL) == 0);
	}
	printf("threads: %d\n", threads);
	return 0;
}
