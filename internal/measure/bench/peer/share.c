/* The peer of bench.Share: the same driver calls from C, in a library that the measuring process loads.
 *
 *   cc -O2 -shared -fPIC share.c -lcuda -o share_c
 *
 * share_once exports the memory at p, imports it at new addresses, runs a kernel on one page at each end and waits, and
 * gives everything back. It returns the time in nanoseconds, or a CUresult as a negative number.
 */
#include <cuda.h>
#include <time.h>
#include <unistd.h>

static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }

#define TRY(call) if ((result = (call)) != CUDA_SUCCESS) return result

static CUresult once(CUstream s, CUfunction inc, CUdevice device, CUdeviceptr p, size_t bytes, unsigned page)
{
    CUmemGenericAllocationHandle h;
    CUdeviceptr q;
    CUresult result;
    int fd;
    CUmemAccessDesc open = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    open.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    open.location.id = device;
    TRY(cuMemRetainAllocationHandle(&h, (void *)p));
    TRY(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    TRY(cuMemRelease(h));
    TRY(cuMemAddressReserve(&q, bytes, 0, 0, 0));
    TRY(cuMemImportFromShareableHandle(&h, (void *)(long)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    TRY(cuMemMap(q, bytes, 0, h, 0));
    TRY(cuMemRelease(h));
    TRY(cuMemSetAccess(q, bytes, &open, 1));
    if (close(fd)) return CUDA_ERROR_OPERATING_SYSTEM;
    CUdeviceptr end = q + bytes - 4 * page;
    unsigned long n = page;
    void *first[] = {&q, &n}, *last[] = {&end, &n};
    TRY(cuLaunchKernel(inc, (page + 255) / 256, 1, 1, 256, 1, 1, 0, s, first, 0));
    TRY(cuLaunchKernel(inc, (page + 255) / 256, 1, 1, 256, 1, 1, 0, s, last, 0));
    TRY(cuStreamSynchronize(s));
    TRY(cuMemUnmap(q, bytes));
    return cuMemAddressFree(q, bytes);
}

long share_once(CUcontext ctx, CUstream s, CUfunction inc, long device, CUdeviceptr p, size_t bytes, unsigned page)
{
    CUresult result = cuCtxSetCurrent(ctx);
    long start = now();
    if (result == CUDA_SUCCESS) result = once(s, inc, (CUdevice)device, p, bytes, page);
    return result ? -(long)result : now() - start;
}
