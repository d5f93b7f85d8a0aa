// Host addresses below 4096, as from a NULL and the offset of a field. Go's runtime ends a process when it
// finds one on a stack that grows, so each call is the first of its thread. With a length of 0 they are the
// addresses that Rust gives lists of nothing.
#include "driver.h"
#include <pthread.h>
#include <string.h>

struct rectangle { size_t sx, sy; int skind; const void *shost; CUdeviceptr sdev; void *sarray; size_t spitch, dx, dy; int dkind; void *dhost; CUdeviceptr ddev; void *darray; size_t dpitch, width, height; };
struct config { unsigned grid[3], block[3], shared; CUstream stream; void *attrs; unsigned count; };
struct box { size_t sx, sy, sz, slod; int skind; const void *shost; CUdeviceptr sdev; void *sarray, *r0; size_t spitch, sheight, dx, dy, dz, dlod; int dkind; void *dhost; CUdeviceptr ddev; void *darray, *r1; size_t dpitch, dheight, width, height, depth; };
CUresult cuMemcpy2D_v2(const struct rectangle *);
CUresult cuMemcpy3D_v2(const struct box *);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned);
CUresult cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr);
CUresult cuPointerGetAttribute(void *, int, CUdeviceptr);
CUresult cuMemRangeGetAttributes(void **, size_t *, int *, size_t, CUdeviceptr, size_t);
CUresult cuLaunchKernelEx(const struct config *, CUfunction, void **, void **);

static CUcontext ctx;
static CUdeviceptr p;
static CUfunction vadd;
static char *const small = (char *)16;

static void copies(void) {
	WANT(1, cuMemcpyHtoD_v2(p, small, 16));
	WANT(1, cuMemcpyDtoH_v2(small, p, 16));
	OK(cuMemcpyHtoD_v2(p, small, 0));
	OK(cuMemcpyDtoH_v2(small, p, 0));
}

static void rectangles(void) {
	struct rectangle to = {.skind = 1, .shost = small, .spitch = 4, .dkind = 2, .ddev = p, .dpitch = 4, .width = 4, .height = 2};
	WANT(1, cuMemcpy2D_v2(&to));
	struct rectangle between = {.skind = 2, .sdev = p, .shost = small, .spitch = 4, .dkind = 2, .ddev = p + 64, .dhost = small, .dpitch = 4, .width = 4, .height = 2};
	OK(cuMemcpy2D_v2(&between)); // the host's addresses are not used
}

static void boxes(void) {
	struct box to = {.skind = 2, .sdev = p, .spitch = 4, .sheight = 2, .dkind = 1, .dhost = small, .dpitch = 4, .dheight = 2, .width = 4, .height = 2, .depth = 1};
	WANT(1, cuMemcpy3D_v2(&to));
}

static void registered(void) {
	CUdeviceptr q;
	WANT(1, cuMemHostRegister_v2(small, 4096, 0));
	WANT(713, cuMemHostUnregister(small));
	WANT(1, cuMemHostGetDevicePointer_v2(&q, small, 0));
	WANT(1, cuMemFreeHost(small));
}

static void attributes(void) {
	int name[] = {2, 3};
	void *to[] = {small, small};
	size_t bytes[] = {4, 4};
	WANT(1, cuPointerGetAttributes(2, name, to, p));
	WANT(1, cuPointerGetAttribute(small, 2, p));
	WANT(1, cuMemRangeGetAttributes(to, bytes, name, 2, p, 256));
}

static void code(void) {
	CUmodule m;
	int options[] = {3, 4, 5, 6}; // the buffers of logs and their sizes
	void *values[] = {small, (void *)64, small, (void *)64};
	OK(cuModuleLoadDataEx(&m, ptx, 4, options, values)); // there are no logs
	WANT(1, cuModuleLoadData(&m, small));
	struct { int magic, version; const void *data, *name; } wrapper = {0x466243b1, 1, small, NULL};
	WANT(1, cuModuleLoadData(&m, &wrapper));
}

static void launches(void) {
	size_t bytes = 32;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, small, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
	void *params[] = {small, small, small, small};
	struct config c = {{1, 1, 1}, {1, 1, 1}, 0, NULL, small, 1};
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, NULL, extra));
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, params, NULL));
	WANT(1, cuLaunchKernel(vadd, 1, 1, 1, 1, 1, 1, 0, 0, (void **)small, NULL));
	WANT(1, cuLaunchKernelEx(&c, vadd, params, NULL));
}

static void name(void) { WANT(1, cuDeviceGetName(small, 16, 0)); }

static void *first(void *fn) {
	OK(cuCtxSetCurrent(ctx));
	((void (*)(void))fn)();
	return NULL;
}

int main(void) {
	CUmodule module;
	static void (*const all[])(void) = {copies, rectangles, boxes, registered, attributes, code, launches, name};
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&vadd, module, "vadd"));
	OK(cuMemAlloc_v2(&p, 256));
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, first, (void *)all[i]) || pthread_join(t, NULL))
			return 1;
	}
	OK(cuCtxDestroy_v2(ctx));
	puts("small addresses: right");
	return 0;
}
