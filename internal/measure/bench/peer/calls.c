/* The peer of bench.SpeedCalls: the same driver calls from C. It is a library that the measuring process loads, so that
 * both run under the same conditions. Two processes differ by more than the differences to measure.
 *
 *   cc -O2 -shared -fPIC calls.c -lcuda -o calls.so
 *
 * A function makes its call n times and returns the total time in nanoseconds, or a CUresult as a negative number.
 * It makes three calls before that are not timed, because the GPU may be idle.
 */
#include <cuda.h>
#include <time.h>

static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000l + t.tv_nsec; }

#define TIMED(name, call)                                                                                             \
    long name(CUcontext ctx, CUstream s, CUevent e, CUdeviceptr d, void *h, CUfunction empty, CUfunction three, int n) \
    {                                                                                                                 \
        unsigned words = 1024;                                                                                        \
        void *args[] = {&d, &d, &words};                                                                              \
        CUdevice of;                                                                                                  \
        int result = cuCtxSetCurrent(ctx);                                                                            \
        for (int i = 0; i < 3 && !result; i++) result = (call);                                                       \
        long start = now();                                                                                           \
        for (int i = 0; i < n && !result; i++) result = (call);                                                       \
        long took = now() - start;                                                                                    \
        (void)args, (void)of, (void)empty;                                                                            \
        return result ? -(long)result : took;                                                                         \
    }

static int nothing(void) { return 0; }
static int (*volatile function)(void) = nothing; /* volatile, so that the compiler does not inline the call */

TIMED(do_nothing, function())
TIMED(device_of_context, cuCtxGetDevice(&of))
TIMED(event_record, cuEventRecord(e, s))
TIMED(event_query, (cuEventQuery(e), 0))
TIMED(copy_to_device, cuMemcpyHtoDAsync(d, h, 4096, s))
TIMED(copy_to_host, cuMemcpyDtoHAsync(h, d, 4096, s))
TIMED(launch_empty, cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, s, 0, 0))
TIMED(launch_three, cuLaunchKernel(three, 1, 1, 1, 32, 1, 1, 0, s, args, 0))
TIMED(step, cuMemcpyHtoDAsync(d, h, 4096, s) || cuLaunchKernel(three, 1, 1, 1, 32, 1, 1, 0, s, args, 0) ||
            cuMemcpyDtoHAsync(h, d, 4096, s) || cuEventRecord(e, s))
TIMED(copy_and_wait, cuMemcpyHtoDAsync(d, h, 4096, s) || cuStreamSynchronize(s))
