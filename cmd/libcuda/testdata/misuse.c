// Wrong arguments, names that are refused, and cuGetProcAddress.
#include "driver.h"
#include <string.h>

CUresult cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr);
CUresult cuMemcpyBatchAsync(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, CUstream);

CUresult cuStreamBatchMemOp_v2(CUstream, unsigned, void *, unsigned);
CUresult cuMemsetD2D8_v2(CUdeviceptr, size_t, unsigned char, size_t, size_t);
CUresult cuMemsetD2D16_v2(CUdeviceptr, size_t, unsigned short, size_t, size_t);
CUresult cuMemsetD2D32_v2(CUdeviceptr, size_t, unsigned, size_t, size_t);

static void *get(const char *name, int version, int flags, int status) {
	void *fn = (void *)1;
	int got = -1;
	OK(cuGetProcAddress_v2(name, &fn, version, flags, &got));
	if (got != status) {
		fprintf(stderr, "cuGetProcAddress_v2(%s, %d): status %d, want %d\n", name, version, got, status);
		exit(1);
	}
	THAT((fn != NULL) == (status == 0));
	return fn;
}

int main(void) {
	const char *text = NULL;
	void *fn;
	int n;
	CUdeviceptr p, q;
	size_t bytes;
	CUcontext ctx;
	CUmodule module;
	CUfunction vadd;

	// Before cuInit.
	OK(cuGetErrorName(700, &text));
	THAT(!strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
	OK(cuGetErrorString(2, &text));
	THAT(!strcmp(text, "out of memory")); // programs compare NVIDIA's texts
	OK(cuGetErrorString(0, &text));
	THAT(!strcmp(text, "no error"));
	WANT(1, cuGetErrorString(9, &text)); // no result has this number
	THAT(text == NULL);
	WANT(1, cuGetErrorName(12345, &text));
	THAT(text == NULL);
	WANT(1, cuGetErrorName(0, NULL));
	OK(cuDriverGetVersion(&n));
	THAT(n == 13000);
	WANT(1, cuDriverGetVersion(NULL));
	WANT(3, cuDeviceGetCount(&n));
	WANT(1, cuInit(1));
	OK(cuInit(0));
	OK(cuInit(0));

	// Forms of functions by version and default stream.
	THAT(get("cuMemAlloc", 3020, 0, 0) == (void *)cuMemAlloc_v2);
	THAT(get("cuMemAlloc", 13000, 2, 0) == (void *)cuMemAlloc_v2);
	THAT(get("cuMemAlloc", 2000, 0, 0) != (void *)cuMemAlloc_v2);
	THAT(get("cuMemcpyHtoD", 13000, 2, 0) == (void *)cuMemcpyHtoD_v2_ptds);
	THAT(get("cuMemcpyHtoD", 13000, 1, 0) == (void *)cuMemcpyHtoD_v2);
	THAT(get("cuMemcpyHtoD", 13000, 0, 0) == (void *)cuMemcpyHtoD_v2);
	THAT(get("cuMemsetD32Async", 13000, 2, 0) == (void *)cuMemsetD32Async_ptsz);
	THAT(get("cuMemsetD32Async", 4000, 2, 0) == (void *)cuMemsetD32Async);
	THAT(get("cuGetProcAddress", 12000, 0, 0) == (void *)cuGetProcAddress_v2);
	THAT(get("cuGetProcAddress", 11030, 0, 0) == (void *)cuGetProcAddress);
	get("cuLibraryLoadData", 11000, 0, 2);
	get("cuFrobnicate", 13000, 0, 1);
	get("cuMemAlloc_v2", 13000, 0, 1); // a name has no ending
	WANT(500, cuGetProcAddress("cuFrobnicate", &fn, 11030, 0));
	OK(cuGetProcAddress("cuMemFree", &fn, 11030, 0));
	THAT(fn == (void *)cuMemFree_v2);
	WANT(1, cuGetProcAddress_v2(NULL, &fn, 12000, 0, NULL));
	WANT(1, cuGetProcAddress_v2("cuInit", NULL, 12000, 0, NULL));

	// NULL for results.
	WANT(1, cuDeviceGetCount(NULL));
	WANT(1, cuCtxCreate_v2(NULL, 0, 0));
	WANT(1, cuDeviceGetName(NULL, 10, 0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	WANT(1, cuMemAlloc_v2(NULL, 4));
	WANT(1, cuModuleLoadData(NULL, ptx));
	WANT(1, cuModuleLoadData(&module, NULL));
	OK(cuMemAlloc_v2(&p, 1000));
	OK(cuMemGetAddressRange_v2(&q, NULL, p + 10));
	THAT(q == p);
	OK(cuMemGetAddressRange_v2(NULL, &bytes, p + 10));
	THAT(bytes == 1000);
	char name[5];
	memset(name, 'x', sizeof name);
	OK(cuDeviceGetName(name, 4, 0));
	THAT(strlen(name) == 3 && name[4] == 'x');

	// The compiler says how long it worked, in milliseconds.
	int options[] = {2, 1}; // CU_JIT_WALL_TIME, CU_JIT_THREADS_PER_BLOCK
	void *values[] = {(void *)-1, (void *)64};
	float ms = -1;
	OK(cuModuleLoadDataEx(&module, ptx, 2, options, values));
	memcpy(&ms, values, sizeof ms);
	THAT(ms > 0);
	THAT(values[1] == (void *)64);

	// Launches with wrong parameters.
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&vadd, module, "vadd"));
	WANT(500, cuModuleGetFunction(&vadd, module, "nosuch"));
	void *params[] = {&p, NULL, &p, &p}, *extra[] = {(void *)9, NULL};
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL));
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra));
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, params, extra));
	params[1] = (void *)16;
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL));
	params[1] = (void *)0x7000000000; // a wild address
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL));
	size_t large = 1 << 20; // more than a kernel can have
	void *size[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &large, CU_LAUNCH_PARAM_BUFFER_POINTER, &large, CU_LAUNCH_PARAM_END};
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, size));
	large = (size_t)-1;
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, size));
	size[1] = (void *)8;
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, size));
	WANT(400, cuLaunchKernel((CUfunction)1, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));

	// Lists that no memory can have.
	int attribute = 2, type = 0;
	void *to = &type;
	WANT(1, cuPointerGetAttributes(4, (int *)-16, &to, p));
	WANT(1, cuPointerGetAttributes(1, &attribute, (void **)-4, p));
	OK(cuPointerGetAttributes(1, &attribute, &to, p));
	THAT(type == 2);

	// A batch of copies names the copy that failed, or none.
	CUdeviceptr from[] = {p, p + 4}, into[] = {p + 100, p + 200};
	size_t sizes[] = {4, 8}, first[] = {0}, failed = 7;
	struct { int order, places[4]; unsigned flags; } attrs = {1, {0}, 0};
	CUstream stream;
	OK(cuStreamCreate(&stream, 0));
	OK(cuMemcpyBatchAsync(into, from, sizes, 2, &attrs, first, 1, &failed, stream));
	THAT(failed == (size_t)-1);
	OK(cuMemcpyBatchAsync(into, from, sizes, 2, &attrs, first, 1, NULL, stream));
	failed = 7;
	WANT(1, cuMemcpyBatchAsync(into, from, sizes, 2, &attrs, first, 0, &failed, stream));
	THAT(failed == (size_t)-1);
	OK(cuStreamSynchronize(stream));
	OK(cuStreamBatchMemOp_v2(stream, 0, NULL, 0));

	// Rectangles that no memory has. The number of elements of the second is 4 modulo 1 << 64.
	size_t half = (size_t)1 << 63;
	OK(cuMemsetD2D32_v2(p, 16, 5, 3, 2));
	OK(cuMemsetD2D8_v2(p, 16, 5, 0, (size_t)-1));
	WANT(1, cuMemsetD2D8_v2(p, half + 2, 5, half + 2, 2));
	WANT(1, cuMemsetD2D32_v2(p, 8, 5, half / 2 + 2, 2));
	WANT(1, cuMemsetD2D16_v2(p, half, 5, 2, 3));
	WANT(1, cuMemsetD2D16_v2(p, (size_t)-8, 5, 2, 2));
	WANT(1, cuMemsetD2D32_v2(p, 8, 5, 3, 2));

	// Names that are refused.
	for (int i = 0; i < 3; i++) {
		WANT(801, cuArrayDestroy(NULL));
		WANT(801, cuTexObjectDestroy(0));
		WANT(801, cuGetExportTable(&fn, NULL));
	}
	OK(cuCtxDestroy_v2(ctx));
	puts("misuse: right");
	return 0;
}
