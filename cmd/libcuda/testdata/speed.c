// The time of small calls beside that of an empty function of Go, and of cuInit.
#include "driver.h"
#include <time.h>

enum { calls = 100000, rounds = 30 };

static void (*nothing)(void);
static CUstream stream;
static CUdevice device;
static CUdeviceptr memory;

static double seconds(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void empty(void) { nothing(); }
static void get_device(void) { OK(cuCtxGetDevice(&device)); }
static void get_attribute(void) {
	int v;
	OK(cuDeviceGetAttribute(&v, 1, device));
}
static void query(void) { OK(cuStreamQuery(stream)); }
static void range(void) {
	CUdeviceptr base;
	size_t size;
	OK(cuMemGetAddressRange_v2(&base, &size, memory));
}

static const struct {
	const char *name;
	void (*f)(void);
} all[] = {{"empty", empty}, {"cuCtxGetDevice", get_device}, {"cuDeviceGetAttribute", get_attribute}, {"cuStreamQuery", query}, {"cuMemGetAddressRange", range}};

enum { n = sizeof all / sizeof *all };

int main(void) {
	CUcontext ctx;
	double best[n];
	double began = seconds(CLOCK_MONOTONIC);
	OK(cuInit(0));
	printf("cuInit %.1f ms\n", 1e3 * (seconds(CLOCK_MONOTONIC) - began));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuStreamCreate(&stream, 1));
	OK(cuMemAlloc_v2(&memory, 4096));
	OK(cuGetProcAddress_v2("ferryNothing", (void **)&nothing, 13000, 0, NULL));
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < n; i++) {
			double began = seconds(CLOCK_THREAD_CPUTIME_ID);
			for (int k = 0; k < calls; k++)
				all[i].f();
			double ns = (seconds(CLOCK_THREAD_CPUTIME_ID) - began) / calls * 1e9;
			if (!round || ns < best[i])
				best[i] = ns;
		}
	for (int i = 0; i < n; i++)
		printf("%s %.1f ns, %.2f of an empty function\n", all[i].name, best[i], best[i] / best[0]);
	return 0;
}
