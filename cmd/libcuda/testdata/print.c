// The output of kernels stands in order between that of the program, also through a pipe.
#include "driver.h"

static const char printer[] =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);\n"
	".global .align 1 .b8 text[11] = {107, 101, 114, 110, 101, 108, 32, 37, 100, 10, 0};\n" // "kernel %d\n"
	".visible .entry say(.param .u32 n)\n{\n"
	"\t.local .align 8 .b8 values[8];\n\t.reg .b32 %r<3>;\n\t.reg .b64 %d<5>;\n"
	"\tld.param.u32 %r1, [n];\n\tmov.u64 %d1, values;\n\tcvta.local.u64 %d2, %d1;\n\tst.local.u32 [%d1], %r1;\n"
	"\tmov.u64 %d3, text;\n\tcvta.global.u64 %d4, %d3;\n"
	"\t{\n\t.param .b64 p0;\n\tst.param.b64 [p0], %d4;\n\t.param .b64 p1;\n\tst.param.b64 [p1], %d2;\n"
	"\t.param .b32 rv;\n\tcall.uni (rv), vprintf, (p0, p1);\n\tld.param.b32 %r2, [rv];\n\t}\n\tret;\n}\n";

int main(void) {
	CUcontext ctx;
	CUmodule mod;
	CUfunction say;
	CUstream s;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuStreamCreate(&s, 1));
	OK(cuModuleLoadData(&mod, printer));
	OK(cuModuleGetFunction(&say, mod, "say"));
	for (int i = 0; i < 100; i++) {
		void *params[] = {&i};
		printf("program %d\n", i);
		OK(cuLaunchKernel(say, 1, 1, 1, 1, 1, 1, 0, i % 2 ? s : NULL, params, NULL));
		OK(i % 2 ? cuStreamSynchronize(s) : cuCtxSynchronize());
	}
	puts("end");
	return 0;
}
