// Libraries and kernels: code that belongs to no context.
#include "driver.h"
#include <string.h>

CUresult cuLibraryGetKernelCount(unsigned *, CUlibrary);
CUresult cuLibraryEnumerateKernels(CUkernel *, unsigned, CUlibrary);
CUresult cuLibraryGetGlobal(CUdeviceptr *, size_t *, CUlibrary, const char *);
CUresult cuLibraryGetModule(CUmodule *, CUlibrary);
CUresult cuKernelGetAttribute(int *, int, CUkernel, CUdevice);
CUresult cuKernelGetParamInfo(CUkernel, size_t, size_t *, size_t *);
CUresult cuKernelGetLibrary(CUlibrary *, CUkernel);
CUresult cuFuncGetModule(CUmodule *, CUfunction);
CUresult cuOccupancyMaxPotentialBlockSize(int *, int *, CUfunction, size_t (*)(int), size_t, int);

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int, size_t);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *, CUfunction, int, size_t, unsigned);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *, CUfunction, int, int);
CUresult cuKernelSetAttribute(int, int, CUkernel, CUdevice);
CUresult cuKernelSetCacheConfig(CUkernel, int, CUdevice);
CUresult cuFuncGetAttribute(int *, int, CUfunction);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice);

CUresult cuFuncGetName(const char **, CUfunction);
CUresult cuKernelGetName(const char **, CUkernel);
CUresult cuCtxSetCacheConfig(unsigned);
CUresult cuCtxGetCacheConfig(unsigned *);
CUresult cuCtxSetSharedMemConfig(unsigned);
CUresult cuCtxGetSharedMemConfig(unsigned *);

static int asked;
static size_t shared_of(int block) {
	asked++;
	return block <= 64 ? 0 : 1 << 30; // only small blocks fit
}

static void run(CUkernel k, int factor) {
	enum { n = 1000 };
	float a[n], b[n], c[n];
	CUdeviceptr da, db, dc;
	OK(cuMemAlloc_v2(&da, sizeof a));
	OK(cuMemAlloc_v2(&db, sizeof a));
	OK(cuMemAlloc_v2(&dc, sizeof a));
	for (int i = 0; i < n; i++)
		a[i] = i, b[i] = factor * i, c[i] = -1;
	OK(cuMemcpyHtoD_v2(da, a, sizeof a));
	OK(cuMemcpyHtoD_v2(db, b, sizeof a));
	unsigned count = n;
	void *params[] = {&da, &db, &dc, &count};
	OK(cuLaunchKernel((CUfunction)k, 4, 1, 1, 256, 1, 1, 0, 0, params, NULL));
	OK(cuMemcpyDtoH_v2(c, dc, sizeof a));
	for (int i = 0; i < n; i++)
		THAT(c[i] == (1 + factor) * i);
}

// primary runs a kernel in a primary context that ends and begins again, with the same handle.
static void primary(CUlibrary lib, CUkernel k) {
	CUcontext first = NULL, c;
	CUmodule before = NULL, m;
	CUfunction f;
	int v;
	for (int i = 0; i < 4; i++) {
		OK(cuKernelGetAttribute(&v, 0, k, 0)); // begins and ends it, where it is not active
		OK(cuDevicePrimaryCtxRetain(&c, 0));
		THAT(!first || c == first);
		first = c;
		OK(cuCtxPushCurrent_v2(c));
		run(k, 2 + i);
		OK(cuKernelGetFunction(&f, k));
		OK(cuLibraryGetModule(&m, lib));
		THAT(m != before);
		before = m;
		OK(cuDevicePrimaryCtxRetain(&c, 0));
		OK(cuLibraryGetModule(&m, lib));
		THAT(m == before); // the context has not ended
		OK(cuDevicePrimaryCtxRelease_v2(0));
		OK(cuLibraryGetModule(&m, lib));
		THAT(m == before);
		OK(cuCtxPopCurrent_v2(NULL));
		if (i % 2)
			OK(cuDevicePrimaryCtxReset_v2(0)); // which leaves the reference
		OK(cuDevicePrimaryCtxRelease_v2(0));
	}
}

// attributes sets an attribute of a kernel. It holds in contexts that are there, and in later ones.
static void attributes(CUkernel k) {
	enum { dynamic_shared = 8 }; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	CUcontext c[3];
	CUfunction f;
	int v = 0;
	OK(cuKernelSetAttribute(dynamic_shared, 3000, k, 0)); // without a context
	OK(cuKernelGetAttribute(&v, dynamic_shared, k, 0));
	THAT(v == 3000);
	WANT(1, cuKernelSetAttribute(dynamic_shared, -5, k, 0));
	WANT(101, cuKernelSetAttribute(dynamic_shared, 1, k, 99));
	for (int i = 0; i < 3; i++) {
		OK(cuCtxCreate_v2(&c[i], 0, 0));
		OK(cuKernelGetFunction(&f, k));
		OK(cuFuncGetAttribute(&v, dynamic_shared, f));
		THAT(v == 3000 + i);
		OK(cuKernelSetAttribute(dynamic_shared, 3001 + i, k, 0));
		OK(cuKernelSetCacheConfig(k, 1, 0));
	}
	for (int i = 2; i >= 0; i--) {
		OK(cuKernelGetFunction(&f, k));
		OK(cuFuncGetAttribute(&v, dynamic_shared, f));
		THAT(v == 3003);
		OK(cuCtxDestroy_v2(c[i]));
	}
}

// occupancy asks about a kernel as about a function.
static void occupancy(CUkernel k) {
	CUfunction f;
	int a, b;
	size_t x, y;
	OK(cuKernelGetFunction(&f, k));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&a, f, 128, 64));
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&b, (CUfunction)k, 128, 64));
	THAT(a == b && a > 0);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&b, (CUfunction)k, 128, 64, 0));
	THAT(a == b);
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&x, f, 2, 128));
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&y, (CUfunction)k, 2, 128));
	THAT(x == y && x > 0);
}

int main(void) {
	CUlibrary lib, of;
	CUkernel vadd, all[2];
	CUfunction fn;
	CUmodule m1, m2;
	CUcontext c1, c2;
	CUdeviceptr p;
	size_t bytes, offset;
	unsigned n;
	int v, grid, block;
	OK(cuInit(0));
	// Without a context.
	WANT(1, cuLibraryLoadData(&lib, NULL, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryLoadData(&lib, ptx, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&vadd, lib, "vadd"));
	WANT(500, cuLibraryGetKernel(&all[0], lib, "nosuch"));
	OK(cuLibraryGetKernelCount(&n, lib));
	THAT(n == 2);
	OK(cuLibraryEnumerateKernels(all, 2, lib));
	CUkernel places = all[all[0] == vadd]; // their order is not defined
	THAT(places != vadd && (all[0] == vadd || all[1] == vadd));
	OK(cuKernelGetLibrary(&of, vadd));
	THAT(of == lib);
	OK(cuKernelGetAttribute(&v, 0, vadd, 0)); // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	THAT(v == 1024);
	WANT(201, cuKernelGetFunction(&fn, vadd));
	primary(lib, vadd);
	attributes(places);

	// In two contexts.
	OK(cuCtxCreate_v2(&c1, 0, 0));
	run(vadd, 2);
	OK(cuLibraryGetModule(&m1, lib));
	OK(cuKernelGetFunction(&fn, vadd));
	OK(cuFuncGetModule(&m2, fn));
	THAT(m1 == m2);
	const char *name = NULL, *again = NULL;
	OK(cuFuncGetName(&name, fn));
	OK(cuFuncGetName(&again, fn));
	THAT(!strcmp(name, "vadd") && name == again);
	OK(cuKernelGetName(&name, places));
	THAT(!strcmp(name, "places"));
	WANT(1, cuFuncGetName(&name, NULL));
	WANT(1, cuKernelGetName(&name, NULL));
	WANT(1, cuFuncGetModule(&m2, NULL));
	WANT(1, cuKernelGetParamInfo(NULL, 0, &offset, &bytes));
	WANT(400, cuKernelGetFunction(&fn, NULL));
	unsigned config = 9;
	OK(cuCtxGetCacheConfig(&config));
	THAT(config == 0);
	OK(cuCtxSetCacheConfig(2));
	OK(cuCtxGetCacheConfig(&config));
	THAT(config == 2);
	WANT(1, cuCtxSetCacheConfig(4));
	OK(cuCtxSetSharedMemConfig(2));
	OK(cuCtxGetSharedMemConfig(&config));
	THAT(config == 1);
	OK(cuCtxCreate_v2(&c2, 0, 0));
	run(vadd, 3);
	OK(cuLibraryGetModule(&m2, lib));
	THAT(m1 != m2);
	OK(cuKernelGetParamInfo(vadd, 3, &offset, &bytes));
	THAT(offset == 24 && bytes == 4);
	WANT(1, cuKernelGetParamInfo(vadd, 4, &offset, &bytes));
	OK(cuLibraryGetGlobal(&p, &bytes, lib, "answer"));
	unsigned answer = 0;
	OK(cuMemcpyDtoH_v2(&answer, p, 4));
	THAT(answer == 42 && bytes == 4);

	OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, (CUfunction)vadd, shared_of, 0, 0));
	THAT(block == 64 && grid > 0 && asked > 10);
	occupancy(vadd);
	OK(cuCtxDestroy_v2(c1)); // the other one: its functions end with it
	run(vadd, 4);
	OK(cuLibraryUnload(lib));
	if (soft()) {
		WANT(400, cuLaunchKernel((CUfunction)vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
		WANT(400, cuLibraryUnload(lib));
		WANT(400, cuKernelGetFunction(&fn, vadd));
	}
	puts("library: right");
	return 0;
}
