// Wrong programs and their correct twins: wrong NAME, wrong NAME right. The test looks for the lines
// with marks in the reports.
#include <pthread.h>
#include <string.h>

#include "driver.h"

CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);

enum { bytes = 4096, words = bytes / 4 };

static CUcontext ctx;
static CUstream s, other;
static CUdeviceptr d, e;
static char *host;

// order lets the second stream wait for what is in the first.
static void order(CUstream first, CUstream second) {
	CUevent event;
	OK(cuEventCreate(&event, 0));
	OK(cuEventRecord(event, first));
	OK(cuStreamWaitEvent(second, event, 0));
	OK(cuEventDestroy_v2(event));
}

static void fills(int right) {
	OK(cuMemsetD32Async(d, 1, words, s)); // fills 1
	if (right)
		order(s, other);
	OK(cuMemsetD32Async(d, 2, words, other)); // fills 2
}

static void copy_beside_fill(int right) {
	OK(cuMemsetD32Async(d, 1, words, s)); // copy_beside_fill 1
	if (right)
		OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoHAsync_v2(host, d, bytes, other)); // copy_beside_fill 2
}

static void event_too_early(int right) {
	CUevent event;
	OK(cuEventCreate(&event, 0));
	if (!right)
		OK(cuEventRecord(event, s));
	OK(cuMemsetD32Async(d, 1, words, s)); // event_too_early 1
	if (right)
		OK(cuEventRecord(event, s));
	OK(cuStreamWaitEvent(other, event, 0));
	OK(cuMemcpyDtoDAsync_v2(e, d, bytes, other)); // event_too_early 2
	OK(cuEventDestroy_v2(event));
}

static void used_before_its_allocation(int right) {
	CUdeviceptr mine;
	OK(cuMemAllocAsync(&mine, bytes, s)); // used_before_its_allocation 1
	if (right)
		order(s, other);
	OK(cuMemsetD32Async(mine, 1, words, other)); // used_before_its_allocation 2
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(mine));
}

static void free_in_flight(int right) {
	CUdeviceptr mine;
	OK(cuMemAlloc_v2(&mine, bytes));
	OK(cuMemsetD32Async(mine, 1, words, s)); // free_in_flight 1
	if (right)
		OK(cuStreamSynchronize(s));
	OK(cuMemFree_v2(mine)); // free_in_flight 2
}

static void free_of_page_locked_memory(int right) {
	void *mine;
	OK(cuMemAllocHost_v2(&mine, bytes));
	OK(cuMemsetD32Async(d, 1, words, s));
	OK(cuMemcpyDtoHAsync_v2(mine, d, bytes, s)); // free_of_page_locked_memory 1
	if (right)
		OK(cuStreamSynchronize(s));
	OK(cuMemFreeHost(mine)); // free_of_page_locked_memory 2
}

static void copy_after_free(int right) {
	CUdeviceptr mine;
	OK(cuMemAlloc_v2(&mine, bytes));
	if (!right)
		OK(cuMemFree_v2(mine)); // copy_after_free 1
	cuMemcpyHtoD_v2(mine, host, bytes); // copy_after_free 2
	if (right)
		OK(cuMemFree_v2(mine));
}

static void freed_twice(int right) {
	CUdeviceptr mine;
	OK(cuMemAlloc_v2(&mine, bytes));
	OK(cuMemFree_v2(mine)); // freed_twice 1
	if (!right)
		cuMemFree_v2(mine); // freed_twice 2
}

static void past_the_end(int right) {
	CUdeviceptr mine;
	OK(cuMemAlloc_v2(&mine, bytes / 2)); // past_the_end 1
	cuMemcpyHtoD_v2(mine, host, right ? bytes / 2 : bytes); // past_the_end 2
	OK(cuMemFree_v2(mine));
}

static void uninitialized(int right) {
	CUdeviceptr mine;
	OK(cuMemAlloc_v2(&mine, bytes)); // uninitialized 1
	if (right)
		OK(cuMemsetD32_v2(mine, 1, words));
	OK(cuMemcpyDtoH_v2(host, mine, bytes)); // uninitialized 2
	OK(cuMemFree_v2(mine));
}

static void source_changed(int right) {
	OK(cuMemcpyHtoDAsync_v2(d, host, bytes, s)); // source_changed 1
	if (right)
		OK(cuStreamSynchronize(s));
	memset(host, 7, bytes);
	OK(cuStreamSynchronize(s));
}

static void *fill_here(void *unused) {
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemsetD32Async(d, 1, words, s)); // fills_of_threads 1
	return unused;
}

static void *fill_there(void *unused) {
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemsetD32Async(d, 2, words, other)); // fills_of_threads 2
	return unused;
}

// The end of a thread does not order its streams.
static void fills_of_threads(int right) {
	pthread_t a, b;
	THAT(!pthread_create(&a, NULL, fill_here, NULL));
	THAT(!pthread_join(a, NULL));
	if (right)
		order(s, other);
	THAT(!pthread_create(&b, NULL, fill_there, NULL));
	THAT(!pthread_join(b, NULL));
}

// Each thread writes a word, and reads that of a thread in another warp.
static const char neighbour[] =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .entry neighbour(.param .u64 p, .param .u32 right)\n{\n"
	"\t.reg .pred %p;\n\t.reg .b32 %r<6>;\n\t.reg .b64 %d<6>;\n"
	"\tld.param.u64 %d1, [p];\n\tld.param.u32 %r3, [right];\n\tmov.u32 %r1, %tid.x;\n"
	"\tmul.wide.u32 %d2, %r1, 4;\n\tadd.u64 %d2, %d1, %d2;\n\tst.global.u32 [%d2], %r1;\n"
	"\tsetp.ne.u32 %p, %r3, 0;\n\t@%p bar.sync 0;\n"
	"\txor.b32 %r4, %r1, 32;\n\tmul.wide.u32 %d3, %r4, 4;\n\tadd.u64 %d3, %d1, %d3;\n\tld.global.u32 %r2, [%d3];\n"
	"\tst.global.u32 [%d2+256], %r2;\n\tret;\n}\n";

static void race_in_a_kernel(int right) {
	CUmodule module;
	CUfunction f;
	OK(cuModuleLoadData(&module, neighbour));
	OK(cuModuleGetFunction(&f, module, "neighbour"));
	void *params[] = {&d, &right};
	OK(cuMemsetD32Async(d, 0, words, s));
	OK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, s, params, NULL)); // race_in_a_kernel 1
	OK(cuStreamSynchronize(s));
	OK(cuModuleUnload(module));
}

static const struct {
	const char *name;
	void (*run)(int right);
} programs[] = {
	{"fills", fills},
	{"copy_beside_fill", copy_beside_fill},
	{"event_too_early", event_too_early},
	{"used_before_its_allocation", used_before_its_allocation},
	{"free_in_flight", free_in_flight},
	{"free_of_page_locked_memory", free_of_page_locked_memory},
	{"copy_after_free", copy_after_free},
	{"freed_twice", freed_twice},
	{"past_the_end", past_the_end},
	{"uninitialized", uninitialized},
	{"source_changed", source_changed},
	{"fills_of_threads", fills_of_threads},
	{"race_in_a_kernel", race_in_a_kernel},
};

int main(int argc, char **argv) {
	CUdevice device;
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuCtxCreate_v2(&ctx, 0, device));
	OK(cuStreamCreate(&s, 1));
	OK(cuStreamCreate(&other, 1));
	OK(cuMemAlloc_v2(&d, bytes));
	OK(cuMemAlloc_v2(&e, bytes));
	OK(cuMemAllocHost_v2((void **)&host, bytes));
	for (unsigned i = 0; i < sizeof programs / sizeof *programs; i++) {
		if (argc < 2 || strcmp(argv[1], programs[i].name))
			continue;
		programs[i].run(argc > 2);
		OK(cuCtxSynchronize());
		OK(cuMemFree_v2(d));
		OK(cuMemFree_v2(e));
		OK(cuMemFreeHost(host));
		OK(cuCtxDestroy_v2(ctx));
		return 0;
	}
	fprintf(stderr, "want the name of a program\n");
	return 2;
}
