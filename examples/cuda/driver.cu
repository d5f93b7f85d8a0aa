// The driver API, step by step: device, context, module from PTX, memory, launch. The memory is
// page-locked, mapped and filled by the driver.
//
// Output: driver: 5000 values from cuInit to cuLaunchKernel
#include <cstdio>
#include <cstdlib>
#include <cuda.h>

#define CHECK(call)                                                                     \
	do {                                                                                \
		CUresult code = (call);                                                         \
		if (code != CUDA_SUCCESS) {                                                     \
			const char *name = "an unknown code";                                       \
			cuGetErrorName(code, &name);                                                \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name);        \
			exit(1);                                                                    \
		}                                                                               \
	} while (0)

static const char ptx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry axpy(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n)
{
	.reg .pred %p;
	.reg .f32 %f<4>;
	.reg .b32 %r<6>;
	.reg .b64 %d<5>;
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	ld.param.u32 %r5, [n];
	setp.ge.u32 %p, %r4, %r5;
	@%p bra done;
	ld.param.u64 %d1, [y];
	ld.param.u64 %d2, [x];
	ld.param.f32 %f1, [a];
	cvta.to.global.u64 %d1, %d1;
	cvta.to.global.u64 %d2, %d2;
	mul.wide.u32 %d3, %r4, 4;
	add.u64 %d1, %d1, %d3;
	add.u64 %d2, %d2, %d3;
	ld.global.f32 %f2, [%d1];
	ld.global.f32 %f3, [%d2];
	fma.rn.f32 %f2, %f1, %f3, %f2;
	st.global.f32 [%d1], %f2;
done:
	ret;
}
)";

int main() {
	const unsigned n = 5000;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction axpy;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, ptx));
	CHECK(cuModuleGetFunction(&axpy, module, "axpy"));

	CUdeviceptr x, y;
	float *host;
	CHECK(cuMemAlloc(&x, n * sizeof(float)));
	CHECK(cuMemHostAlloc(reinterpret_cast<void **>(&host), n * sizeof(float), CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&y, host, 0));
	for (unsigned i = 0; i < n; i++)
		host[i] = i;
	CHECK(cuMemsetD32(x, 0x40000000, n)); // 2.0f

	float a = 3;
	unsigned count = n;
	void *arguments[] = {&y, &x, &a, &count};
	CHECK(cuLaunchKernel(axpy, (n + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
	CHECK(cuCtxSynchronize());
	for (unsigned i = 0; i < n; i++)
		if (host[i] != i + 6) {
			fprintf(stderr, "driver: value %u is %g\n", i, host[i]);
			return 1;
		}
	CHECK(cuMemFreeHost(host));
	CHECK(cuMemFree(x));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf("driver: %u values from cuInit to cuLaunchKernel\n", n);
}
