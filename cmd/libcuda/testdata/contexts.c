// The stack of current contexts of a thread.
#include "driver.h"
#include <pthread.h>

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

static CUcontext a, b;

static CUcontext current(void) {
	CUcontext c = (CUcontext)1;
	OK(cuCtxGetCurrent(&c));
	return c;
}

static pthread_barrier_t turn;

static void *other(void *arg) {
	CUdevice dev;
	THAT(current() == NULL);
	OK(cuCtxSetCurrent(b));
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn); // main destroys b
	THAT(current() == b);
	WANT(709, cuCtxGetDevice(&dev)); // CUDA_ERROR_CONTEXT_IS_DESTROYED
	WANT(709, cuCtxSynchronize());
	WANT(201, cuCtxSetCurrent(b));
	OK(cuCtxPopCurrent_v2(NULL));
	WANT(201, cuCtxGetDevice(&dev));
	return NULL;
}

static CUstream stream;
static CUevent event;
static CUdeviceptr memory;

// worker has no current context. Operations on a stream use the stream's.
static void *worker(void *arg) {
	unsigned got = 0;
	THAT(current() == NULL);
	OK(cuMemsetD32Async(memory, 5, 1, stream));
	OK(cuEventRecord(event, stream));
	OK(cuMemcpyDtoHAsync_v2(&got, memory, 4, stream));
	THAT(got == 5); // pageable memory: the copy has arrived
	WANT(201, cuMemsetD32Async(memory, 6, 1, 0)); // a default stream is one of the current context
	WANT(201, cuMemsetD32Async(memory, 6, 1, CU_STREAM_PER_THREAD));
	WANT(201, cuStreamSynchronize(stream));
	THAT(current() == NULL);
	return NULL;
}

int main(void) {
	CUdevice dev;
	CUdeviceptr p;
	CUcontext c;
	WANT(3, cuCtxGetCurrent(&c));
	WANT(3, cuCtxCreate_v2(&c, 0, 0));
	WANT(3, cuMemAlloc_v2(&p, 4));
	OK(cuInit(0));
	WANT(201, cuMemAlloc_v2(&p, 4));
	WANT(201, cuCtxPopCurrent_v2(&c));
	WANT(201, cuCtxPushCurrent_v2(NULL));
	WANT(201, cuCtxSetCurrent((CUcontext)12345));
	OK(cuCtxSetCurrent(NULL));
	THAT(current() == NULL);

	OK(cuCtxCreate_v2(&a, 0, 0));
	THAT(current() == a);
	OK(cuCtxCreate_v2(&b, 0, 0));
	THAT(current() == b && a != b);
	OK(cuMemAlloc_v2(&p, 4));
	OK(cuCtxPopCurrent_v2(&c));
	THAT(c == b && current() == a);
	for (int i = 0; i < 100; i++)
		OK(cuCtxPushCurrent_v2(i % 2 ? a : b));
	for (int i = 99; i >= 0; i--) {
		OK(cuCtxPopCurrent_v2(&c));
		THAT(c == (i % 2 ? a : b));
	}
	THAT(current() == a);
	OK(cuCtxSetCurrent(b)); // replaces the top
	OK(cuCtxSetCurrent(NULL)); // pops it
	THAT(current() == NULL);
	OK(cuCtxPushCurrent_v2(a));
	OK(cuCtxPushCurrent_v2(b));

	pthread_t t;
	OK(cuStreamCreate(&stream, 1));
	OK(cuEventCreate(&event, 0));
	OK(cuMemAlloc_v2(&memory, 4));
	OK(cuCtxPushCurrent_v2(a));
	THAT(pthread_create(&t, NULL, worker, NULL) == 0);
	THAT(pthread_join(t, NULL) == 0);
	OK(cuCtxPopCurrent_v2(NULL));

	pthread_barrier_init(&turn, NULL, 2);
	THAT(pthread_create(&t, NULL, other, NULL) == 0);
	pthread_barrier_wait(&turn);
	OK(cuCtxDestroy_v2(b)); // pops it here
	THAT(current() == a);
	pthread_barrier_wait(&turn);
	THAT(pthread_join(t, NULL) == 0);

	OK(cuCtxPushCurrent_v2(a));
	OK(cuCtxDestroy_v2(a)); // pops one of the two
	THAT(current() == a);
	WANT(709, cuCtxGetDevice(&dev));
	OK(cuCtxPopCurrent_v2(&c));

	OK(cuDevicePrimaryCtxRetain(&c, 0));
	THAT(current() == NULL);
	WANT(201, cuProfilerStart());
	OK(cuCtxSetCurrent(c));
	OK(cuProfilerStart());
	OK(cuProfilerStop());
	OK(cuCtxGetDevice(&dev));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	puts("contexts: right");
	return 0;
}
