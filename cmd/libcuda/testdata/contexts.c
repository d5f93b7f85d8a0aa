// The stack of current contexts of a thread.
#include "driver.h"
#include <pthread.h>

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
CUresult cuEventRecordWithFlags(CUevent, CUstream, unsigned);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventElapsedTime(float *, CUevent, CUevent);
CUresult cuStreamGetCtx(CUstream, CUcontext *);
CUresult cuStreamGetFlags(CUstream, unsigned *);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemsetD2D32Async(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
CUresult cuStreamBatchMemOp_v2(CUstream, unsigned, void *, unsigned);
CUresult cuLaunchKernelEx(const void *, CUfunction, void **, void **);
CUresult cuLaunchCooperativeKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **);

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

static CUfunction vadd;
static int called;
static void add(void *n) { ++*(int *)n; }
static void add_later(CUstream s, CUresult r, void *n) { ++*(int *)n; }

// without waits for a stream and an event, and asks them.
static void without(CUstream stream, CUevent event) {
	CUcontext of = NULL;
	CUgraph graph;
	CUdeviceptr p = 0;
	unsigned flags = 9;
	float ms = 9;
	OK(cuStreamSynchronize(stream));
	OK(cuStreamQuery(stream));
	OK(cuEventSynchronize(event));
	OK(cuEventElapsedTime(&ms, event, event));
	THAT(ms == 0);
	OK(cuStreamGetCtx(stream, &of));
	THAT(of == b);
	OK(cuStreamGetFlags(stream, &flags));
	THAT(flags == 1);
	OK(cuMemAllocAsync(&p, 4, stream));
	OK(cuMemFreeAsync(p, stream));
	OK(cuStreamBeginCapture_v2(stream, 2));
	OK(cuMemsetD32Async(memory, 7, 1, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
	CUstream own;
	CUevent one;
	OK(cuCtxPushCurrent_v2(b));
	OK(cuStreamCreate(&own, 1));
	OK(cuEventCreate(&one, 0));
	OK(cuCtxPopCurrent_v2(NULL));
	OK(cuStreamDestroy_v2(own));
	OK(cuEventDestroy_v2(one));
	WANT(201, cuStreamCreate(&own, 1));
	WANT(201, cuEventCreate(&one, 0));
}

// worker has no current context. Operations on a stream use the stream's.
static void *worker(void *arg) {
	unsigned got = 0;
	CUdeviceptr other_memory;
	THAT(current() == NULL);
	OK(cuMemsetD32Async(memory, 5, 1, stream));
	OK(cuEventRecord(event, stream));
	OK(cuMemcpyDtoHAsync_v2(&got, memory, 4, stream));
	THAT(got == 5); // pageable memory: the copy has arrived
	OK(cuEventRecordWithFlags(event, stream, 0));
	OK(cuMemsetD2D32Async(memory, 4, 6, 1, 1, stream));
	OK(cuLaunchHostFunc(stream, add, &called));
	OK(cuStreamAddCallback(stream, add_later, &called, 0));
	struct {
		int op;
		CUdeviceptr at;
		unsigned long long value, more[3];
	} write = {2, memory, 7, {0}};
	OK(cuStreamBatchMemOp_v2(stream, 1, &write, 0));
	OK(cuMemcpyDtoHAsync_v2(&got, memory, 4, stream));
	THAT(got == 7 && called == 2);
	struct {
		unsigned grid[3], block[3], shared;
		CUstream stream;
		void *attrs;
		unsigned count;
	} config = {{1, 1, 1}, {1, 1, 1}, 0, stream, NULL, 0};
	unsigned n = 0; // no element
	void *params[] = {&memory, &memory, &memory, &n};
	OK(cuLaunchKernelEx(&config, vadd, params, NULL));
	OK(cuLaunchCooperativeKernel(vadd, 1, 1, 1, 1, 1, 1, 0, stream, params));
	without(stream, event);
	WANT(201, cuMemsetD32Async(memory, 6, 1, 0)); // a default stream is one of the current context
	WANT(201, cuMemsetD32Async(memory, 6, 1, CU_STREAM_PER_THREAD));
	WANT(201, cuStreamQuery(0));
	WANT(201, cuStreamSynchronize(CU_STREAM_PER_THREAD));
	WANT(201, cuMemAlloc_v2(&other_memory, 4));
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
	WANT(1, cuCtxPushCurrent_v2(NULL)); // as driver 580 on an H200
	if (soft())
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
	CUmodule module;
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&vadd, module, "vadd"));
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
