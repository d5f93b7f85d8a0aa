// The part of the driver API that the programs here use. Programs of users take that of the toolkit.
#ifndef DRIVER_H
#define DRIVER_H
#include <stddef.h>
#include <stdint.h>
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)
#define CU_LAUNCH_PARAM_END ((void *)0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)2)

CUresult cuInit(unsigned);
CUresult cuDriverGetVersion(int *);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetErrorString(CUresult, const char **);
CUresult cuGetProcAddress(const char *, void **, int, uint64_t);
CUresult cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGetName(char *, int, CUdevice);
CUresult cuDeviceGetAttribute(int *, int, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxGetCurrent(CUcontext *);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxPushCurrent_v2(CUcontext);
CUresult cuCtxPopCurrent_v2(CUcontext *);
CUresult cuCtxGetDevice(CUdevice *);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemAllocHost_v2(void **, size_t);
CUresult cuMemFreeHost(void *);
CUresult cuMemGetInfo_v2(size_t *, size_t *);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *, size_t *, CUdeviceptr);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2_ptds(void *, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream);
CUresult cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemsetD32_v2(CUdeviceptr, unsigned, size_t);
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuMemsetD32Async_ptsz(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuStreamCreate(CUstream *, unsigned);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamGetId(CUstream, unsigned long long *);
CUresult cuStreamGetId_ptsz(CUstream, unsigned long long *);
CUresult cuStreamQuery(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamSynchronize_ptsz(CUstream);
CUresult cuStreamBeginCapture_v2(CUstream, unsigned);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuThreadExchangeStreamCaptureMode(unsigned *);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuEventCreate(CUevent *, unsigned);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuEventDestroy_v2(CUevent);
CUresult cuModuleLoad(CUmodule *, const char *);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleLoadDataEx(CUmodule *, const void *, unsigned, int *, void **);
CUresult cuModuleUnload(CUmodule);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *, size_t *, CUmodule, const char *);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
CUresult cuLaunchHostFunc(CUstream, CUhostFn, void *);
CUresult cuStreamAddCallback(CUstream, CUstreamCallback, void *, unsigned);
CUresult cuLibraryLoadData(CUlibrary *, const void *, int *, void **, unsigned, int *, void **, unsigned);
CUresult cuLibraryUnload(CUlibrary);
CUresult cuLibraryGetKernel(CUkernel *, CUlibrary, const char *);
CUresult cuKernelGetFunction(CUfunction *, CUkernel);
CUresult cuGetExportTable(void **, void *);
CUresult cuArrayDestroy(void *);
CUresult cuTexObjectDestroy(unsigned long long);

#include <stdio.h>
#include <stdlib.h>

// CHECK ends the program where a call does not give what it must.
#define WANT(code, call) \
	do { \
		CUresult got_ = (call); \
		if (got_ != (code)) { \
			const char *name_ = "?"; \
			cuGetErrorName(got_, &name_); \
			fprintf(stderr, "%s:%d: %s: got %d (%s), want %d\n", __FILE__, __LINE__, #call, got_, name_, (code)); \
			exit(1); \
		} \
	} while (0)
#define OK(call) WANT(0, call)
#define THAT(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			exit(1); \
		} \
	} while (0)

// soft says whether the library is the software GPU's. NVIDIA's ends the program for some wrong handles and
// arguments, so the programs try those on the software GPU alone.
static inline int soft(void) {
	void *fn = NULL;
	return !cuGetProcAddress("ferryProfile", &fn, 13000, 0) && fn;
}

// PTX has the kernels of all programs.
static const char ptx[] =
	".version 7.0\n.target sm_52\n.address_size 64\n"
	".visible .global .align 4 .u32 answer = 42;\n"
	".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
	"\t.reg .pred %p;\n\t.reg .b32 %r<6>;\n\t.reg .f32 %f<4>;\n\t.reg .b64 %d<8>;\n"
	"\tld.param.u64 %d1, [a];\n\tld.param.u64 %d2, [b];\n\tld.param.u64 %d3, [c];\n\tld.param.u32 %r1, [n];\n"
	"\tmov.u32 %r2, %ctaid.x;\n\tmov.u32 %r3, %ntid.x;\n\tmov.u32 %r4, %tid.x;\n\tmad.lo.s32 %r5, %r2, %r3, %r4;\n"
	"\tsetp.ge.u32 %p, %r5, %r1;\n\t@%p bra end;\n"
	"\tmul.wide.u32 %d4, %r5, 4;\n\tadd.s64 %d5, %d1, %d4;\n\tadd.s64 %d6, %d2, %d4;\n\tadd.s64 %d7, %d3, %d4;\n"
	"\tld.global.f32 %f1, [%d5];\n\tld.global.f32 %f2, [%d6];\n\tadd.f32 %f3, %f1, %f2;\n\tst.global.f32 [%d7], %f3;\n"
	"end:\n\tret;\n}\n"
	// Parameters of several sizes, so that their places matter: *out = byte + half + word + number.
	".visible .entry places(.param .u8 b, .param .u64 out, .param .u16 h, .param .u32 w, .param .u64 d)\n{\n"
	"\t.reg .b16 %h<3>;\n\t.reg .b32 %r<4>;\n\t.reg .b64 %d<8>;\n"
	"\tld.param.u8 %h1, [b];\n\tcvt.u64.u16 %d1, %h1;\n\tld.param.u16 %h2, [h];\n\tcvt.u64.u16 %d2, %h2;\n"
	"\tld.param.u32 %r1, [w];\n\tcvt.u64.u32 %d3, %r1;\n\tld.param.u64 %d4, [d];\n\tld.param.u64 %d5, [out];\n"
	"\tadd.s64 %d1, %d1, %d2;\n\tadd.s64 %d3, %d3, %d4;\n\tadd.s64 %d1, %d1, %d3;\n\tst.global.u64 [%d5], %d1;\n\tret;\n}\n";

#endif
