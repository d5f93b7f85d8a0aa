// A vector addition by the driver API.
#include "driver.h"

int main(void) {
	enum { n = 100003, block = 256 };
	CUdevice dev;
	CUcontext ctx, now;
	CUmodule module;
	CUfunction vadd, places;
	OK(cuInit(0));
	OK(cuDeviceGet(&dev, 0));
	OK(cuCtxCreate_v2(&ctx, 0, dev));
	OK(cuCtxGetCurrent(&now));
	THAT(now == ctx);
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&vadd, module, "vadd"));
	OK(cuModuleGetFunction(&places, module, "places"));

	float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
	for (int i = 0; i < n; i++)
		a[i] = i * 0.5f, b[i] = 3 - i * 0.25f, c[i] = -1;
	CUdeviceptr da, db, dc;
	OK(cuMemAlloc_v2(&da, n * sizeof *a));
	OK(cuMemAlloc_v2(&db, n * sizeof *b));
	OK(cuMemAlloc_v2(&dc, n * sizeof *c));
	OK(cuMemcpyHtoD_v2(da, a, n * sizeof *a));
	OK(cuMemcpyHtoD_v2(db, b, n * sizeof *b));

	// The addresses of the values.
	unsigned count = n;
	void *params[] = {&da, &db, &dc, &count};
	OK(cuLaunchKernel(vadd, (n + block - 1) / block, 1, 1, block, 1, 1, 0, 0, params, NULL));
	OK(cuMemcpyDtoH_v2(c, dc, n * sizeof *c));
	for (int i = 0; i < n; i++)
		THAT(c[i] == a[i] + b[i]);

	// The same with all values in a buffer.
	struct {
		CUdeviceptr a, b, c;
		unsigned n;
	} all = {db, db, dc, n};
	size_t bytes = 28;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, &all, CU_LAUNCH_PARAM_END};
	OK(cuLaunchKernel(vadd, (n + block - 1) / block, 1, 1, block, 1, 1, 0, 0, NULL, extra));
	OK(cuMemcpyDtoH_v2(c, dc, n * sizeof *c));
	for (int i = 0; i < n; i++)
		THAT(c[i] == b[i] + b[i]);

	// Values of several sizes.
	unsigned char byte = 200;
	unsigned short half = 60000;
	unsigned word = 4000000000u;
	unsigned long long big = 1ull << 40, sum = 0;
	void *mixed[] = {&byte, &dc, &half, &word, &big};
	OK(cuLaunchKernel(places, 1, 1, 1, 1, 1, 1, 0, 0, mixed, NULL));
	OK(cuMemcpyDtoH_v2(&sum, dc, sizeof sum));
	THAT(sum == byte + half + word + big);

	CUdeviceptr answer;
	size_t size;
	unsigned value = 0;
	OK(cuModuleGetGlobal_v2(&answer, &size, module, "answer"));
	THAT(size == 4);
	OK(cuMemcpyDtoH_v2(&value, answer, 4));
	THAT(value == 42);

	OK(cuMemFree_v2(da));
	OK(cuMemFree_v2(db));
	OK(cuMemFree_v2(dc));
	OK(cuModuleUnload(module));
	OK(cuCtxDestroy_v2(ctx));
	printf("vadd: %d elements are right\n", n);
	return 0;
}
