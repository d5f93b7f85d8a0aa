// Memory that belongs to no context: a program creates and maps it before it has a context.
#include "driver.h"
#include <unistd.h>

struct location { int type, id; };
struct prop { int type, handles; struct location location; void *win32; unsigned char flags[8]; };
struct access { struct location location; int flags; };
CUresult cuMemGetAllocationGranularity(size_t *, const struct prop *, int);
CUresult cuMemCreate(unsigned long long *, size_t, const struct prop *, unsigned long long);
CUresult cuMemRelease(unsigned long long);
CUresult cuMemExportToShareableHandle(void *, unsigned long long, int, unsigned long long);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, unsigned long long, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemSetAccess(CUdeviceptr, size_t, const struct access *, size_t);

int main(void) {
	struct prop prop = {1, 1, {1, 0}, NULL, {0}};
	struct access access = {{1, 0}, 3};
	size_t bytes;
	unsigned long long handle;
	CUdeviceptr p;
	CUcontext ctx, now;
	int fd = -1;
	unsigned value = 0;
	OK(cuInit(0));
	OK(cuMemGetAllocationGranularity(&bytes, &prop, 0));
	OK(cuMemCreate(&handle, bytes, &prop, 0));
	OK(cuMemExportToShareableHandle(&fd, handle, 1, 0));
	THAT(fd >= 0);
	close(fd);
	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	OK(cuMemMap(p, bytes, 0, handle, 0));
	OK(cuMemSetAccess(p, bytes, &access, 1));
	OK(cuMemRelease(handle));

	// The program still has no context.
	OK(cuCtxGetCurrent(&now));
	THAT(now == NULL);
	WANT(201, cuMemsetD32_v2(p, 7, 1));

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemsetD32_v2(p, 7, bytes / 4));
	OK(cuMemcpyDtoH_v2(&value, p + bytes - 4, 4));
	THAT(value == 7);
	OK(cuCtxDestroy_v2(ctx));

	OK(cuMemUnmap(p, bytes));
	OK(cuMemAddressFree(p, bytes));
	printf("virtual memory: right\n");
	return 0;
}
