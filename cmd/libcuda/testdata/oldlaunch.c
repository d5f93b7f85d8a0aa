// Launches as before CUDA 4.0: each value is set by a call.
#include "driver.h"
#include <string.h>

CUresult cuFuncSetBlockShape(CUfunction, int, int, int);
CUresult cuFuncSetSharedSize(CUfunction, unsigned);
CUresult cuParamSetSize(CUfunction, unsigned);
CUresult cuParamSeti(CUfunction, int, unsigned);
CUresult cuParamSetf(CUfunction, int, float);
CUresult cuParamSetv(CUfunction, int, void *, unsigned);
CUresult cuLaunch(CUfunction);
CUresult cuLaunchGrid(CUfunction, int, int);
CUresult cuLaunchGridAsync(CUfunction, int, int, CUstream);

static const char store[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry store(.param .u64 to, .param .f32 value) {\n"
	"\t.reg .b64 %d<6>;\n\t.reg .b32 %r<5>;\n\t.reg .f32 %f<2>;\n"
	"\tld.param.u64 %d1, [to];\n\tld.param.f32 %f1, [value];\n\tcvta.to.global.u64 %d2, %d1;\n"
	"\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %ntid.x;\n\tmov.u32 %r3, %tid.x;\n"
	"\tmad.lo.s32 %r4, %r1, %r2, %r3;\n\tmul.wide.u32 %d3, %r4, 4;\n\tadd.s64 %d4, %d2, %d3;\n"
	"\tst.global.f32 [%d4], %f1;\n\tret;\n}\n";

static void want(CUdeviceptr p, float value, int written) {
	float got[8];
	OK(cuMemcpyDtoH_v2(got, p, sizeof got));
	for (int i = 0; i < 8; i++)
		THAT(got[i] == (i < written ? value : 0));
	OK(cuMemsetD32_v2(p, 0, 8));
}

int main(void) {
	CUdevice dev;
	CUcontext ctx;
	CUmodule module;
	CUfunction fn;
	CUdeviceptr p;
	CUstream stream;
	OK(cuInit(0));
	OK(cuDeviceGet(&dev, 0));
	OK(cuCtxCreate_v2(&ctx, 0, dev));
	OK(cuModuleLoadData(&module, store));
	OK(cuModuleGetFunction(&fn, module, "store"));
	OK(cuMemAlloc_v2(&p, 8 * sizeof(float)));
	OK(cuMemsetD32_v2(p, 0, 8));
	OK(cuStreamCreate(&stream, 0));

	WANT(400, cuFuncSetBlockShape(NULL, 1, 1, 1));
	if (soft()) {
		WANT(400, cuFuncSetBlockShape((CUfunction)8, 1, 1, 1));
		WANT(1, cuParamSeti(fn, -4, 0));
		WANT(1, cuParamSeti(fn, 1 << 30, 0));
		WANT(1, cuParamSetv(fn, 0, NULL, 8));
		WANT(1, cuParamSetSize(fn, 1 << 30));
	}
	WANT(1, cuFuncSetBlockShape(fn, 0, 1, 1));
	WANT(1, cuFuncSetBlockShape(fn, -1, 1, 1));

	// An address as two words, as old programs set it.
	OK(cuParamSeti(fn, 0, (unsigned)p));
	OK(cuParamSeti(fn, 4, (unsigned)(p >> 32)));
	OK(cuParamSetf(fn, 8, 2.5f));
	OK(cuParamSetSize(fn, 12));
	OK(cuLaunch(fn));
	want(p, 2.5f, 1);

	// Unloading another module changes nothing.
	CUmodule other;
	OK(cuModuleLoadData(&other, store));
	OK(cuFuncSetBlockShape(fn, 3, 1, 1));
	OK(cuModuleUnload(other));
	OK(cuFuncSetSharedSize(fn, 64));
	OK(cuLaunchGrid(fn, 2, 1));
	want(p, 2.5f, 6);
	WANT(1, cuLaunchGrid(fn, 0, 1));

	// A launch takes the values as they are then.
	OK(cuParamSetv(fn, 0, &p, sizeof p));
	OK(cuParamSetf(fn, 8, -1));
	OK(cuLaunchGridAsync(fn, 1, 1, stream));
	OK(cuParamSetf(fn, 8, 100));
	OK(cuStreamSynchronize(stream));
	want(p, -1, 3);

	OK(cuModuleUnload(module));
	if (soft())
		WANT(400, cuLaunch(fn));
	OK(cuCtxDestroy_v2(ctx));
	printf("old launches: right\n");
	return 0;
}
