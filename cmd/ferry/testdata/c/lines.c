// Calls that the library puts together from others.
#include "driver.h"

int main(void) {
	CUdevice device;
	CUcontext ctx;
	CUdeviceptr d;
	int word = 1;
	OK(cuInit(0));
	OK(cuDeviceGet(&device, 0));
	OK(cuCtxCreate_v2(&ctx, 0, device));
	OK(cuCtxSetCurrent(ctx));
	OK(cuCtxPushCurrent_v2(ctx));
	OK(cuMemAlloc_v2(&d, sizeof word));
	OK(cuMemcpyHtoD_v2_ptds(d, &word, sizeof word)); // in
	OK(cuMemsetD32Async_ptsz(d, 7, 1, 0)); // fill
	OK(cuStreamSynchronize_ptsz(0));
	OK(cuMemcpyDtoH_v2_ptds(&word, d, sizeof word)); // out
	THAT(word == 7);
	OK(cuMemFree_v2(d));
	OK(cuCtxDestroy_v2(ctx));
	return 0;
}
