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
	THAT(all[0] == vadd && all[1] != vadd);
	OK(cuKernelGetLibrary(&of, vadd));
	THAT(of == lib);
	OK(cuKernelGetAttribute(&v, 0, vadd, 0)); // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	THAT(v == 1024);
	WANT(201, cuKernelGetFunction(&fn, vadd));

	// In two contexts.
	OK(cuCtxCreate_v2(&c1, 0, 0));
	run(vadd, 2);
	OK(cuLibraryGetModule(&m1, lib));
	OK(cuKernelGetFunction(&fn, vadd));
	OK(cuFuncGetModule(&m2, fn));
	THAT(m1 == m2);
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
	OK(cuCtxDestroy_v2(c2));
	run(vadd, 4);
	OK(cuLibraryUnload(lib));
	WANT(400, cuLaunchKernel((CUfunction)vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
	WANT(400, cuLibraryUnload(lib));
	puts("library: right");
	return 0;
}
