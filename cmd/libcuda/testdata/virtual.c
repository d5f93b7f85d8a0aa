// Memory that belongs to no context: a program creates and maps it before it has a context.
#include "driver.h"
#include <string.h>
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

CUresult cuPointerGetAttribute(void *, int, CUdeviceptr);
CUresult cuPointerGetAttributes(unsigned, int *, void **, CUdeviceptr);

// attributes asks for all attributes of an address at once. Each writes as many bytes as it has.
// CU_POINTER_ATTRIBUTE_P2P_TOKENS, 5, may not be in a list. An address of device memory alone has none for
// the host, 4: alone that is an error.
static void attributes(CUdeviceptr p, CUdeviceptr base, size_t bytes, int handles) {
	static const int written[] = {0, 8, 4, 8, 8, 12, 4, 8, 4, 4, 4, 8, 8, 4, 8, 4, 4, 8, 8, 8, 8, 4};
	unsigned char value[22][24], one[24];
	int names[20], all = 0;
	void *data[20];
	memset(value, 0xaa, sizeof value);
	for (int i = 1; i <= 21; i++)
		if (i != 5)
			names[all] = i, data[all++] = value[i];
	OK(cuPointerGetAttributes(all, names, data, p));
	for (int i = 1; i <= 21; i++) {
		memset(one, 0xaa, sizeof one);
		WANT(i == 4 ? 1 : 0, cuPointerGetAttribute(one, i, p));
		for (int j = 0; j < 24; j++) {
			THAT(i == 5 || one[j] == value[i][j]);
			THAT(j < written[i] || one[j] == 0xaa);
		}
		THAT(i == 5 || one[written[i] - 1] != 0xaa);
	}
	THAT(*(int *)value[14] == handles);
	THAT(*(int *)value[16] == 3);
	THAT(*(size_t *)value[18] >= bytes); // memory of cuMemAlloc is a part of a mapping
	THAT(*(CUdeviceptr *)value[19] <= base);
	THAT(*(CUdeviceptr *)value[20] != 0);

	// A name that is not known or not allowed, or a result without a place.
	names[2] = 99;
	WANT(1, cuPointerGetAttributes(all, names, data, p));
	names[2] = 5;
	WANT(1, cuPointerGetAttributes(all, names, data, p));
	names[2] = 3;
	data[all - 1] = NULL;
	WANT(1, cuPointerGetAttributes(all, names, data, p));
}

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
	attributes(p + 8, p, bytes, 1);
	CUdeviceptr q;
	OK(cuMemAlloc_v2(&q, 1000));
	attributes(q + 8, q, 1000, 0);
	OK(cuMemFree_v2(q));
	OK(cuCtxDestroy_v2(ctx));

	OK(cuMemUnmap(p, bytes));
	OK(cuMemAddressFree(p, bytes));
	printf("virtual memory: right\n");
	return 0;
}
