// Many short threads with default streams, captures and capture modes. Nothing of a thread that has
// ended may be seen by a later one.
#include "driver.h"
#include <pthread.h>

enum { threads = 10000, together = 25, words = 64 };

static CUcontext ctx;
static CUstream orphan[together]; // streams in which a thread that ended began a capture

static unsigned long long ids[threads]; // of the default streams of the threads

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

	// The default stream of the thread is not the legacy one, and no other thread's.
	unsigned long long own, legacy, same;
	OK(cuStreamGetId(0, &legacy));
	OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
	OK(cuStreamGetId_ptsz(0, &same));
	THAT(own == same && own != legacy);
	OK(cuStreamGetId_ptsz(CU_STREAM_LEGACY, &same));
	THAT(same == legacy);
	ids[id] = own;

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

// leaves begins a capture in its default stream that forbids unsafe calls of all threads.
static void *leaves(void *arg) {
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, 0));
	CUdeviceptr p;
	if (arg)
		WANT(900, cuMemAlloc_v2(&p, 4)); // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
	return NULL;
}

static int compare(const void *a, const void *b) {
	unsigned long long x = *(unsigned long long *)a, y = *(unsigned long long *)b;
	return x < y ? -1 : x > y;
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
	// The default stream of a thread ends with it, and so does its capture: it forbids nothing then.
	OK(cuCtxSetCurrent(ctx));
	for (int i = 0; soft() && i < 2; i++) { // NVIDIA's driver 580 faults when such a thread ends
		pthread_t t;
		CUdeviceptr p;
		THAT(pthread_create(&t, NULL, leaves, i ? &i : NULL) == 0);
		THAT(pthread_join(t, NULL) == 0);
		OK(cuMemAlloc_v2(&p, 4));
		OK(cuMemFree_v2(p));
	}
	qsort(ids, threads, sizeof *ids, compare);
	for (int i = 1; i < threads; i++)
		THAT(ids[i] != ids[i - 1]);
	printf("threads: %d\n", threads);
	return 0;
}
