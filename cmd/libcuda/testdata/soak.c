// Many calls from many threads, with callbacks, and with streams and events that come and go. Every result is
// compared. The argument is the number of calls. The second half must not need more memory or threads than
// the first.
#include "driver.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { threads = 64, words = 256 };

static CUcontext ctx;
static CUfunction vadd;
static atomic_long calls, callbacks, wanted_callbacks;
static long limit; // of calls in this half

#define CALL(call) \
	do { \
		OK(call); \
		calls++; \
	} while (0)

// A job is what the callbacks of a round check: the round, and how many of them came before.
struct job {
	unsigned round;
	int seen;
	unsigned *host;
};

static void check(struct job *j, int place) {
	THAT(j->seen == place);
	for (int i = 0; i < words; i++)
		THAT(j->host[i] == j->round);
	j->seen++;
	callbacks++;
}

static void host_function(void *arg) { check(arg, 0); }
static void stream_callback(CUstream s, CUresult r, void *arg) {
	THAT(r == 0);
	check(arg, 1);
}

static void *work(void *arg) {
	unsigned seed = (unsigned)(long)arg * 100003;
	unsigned *pinned;
	float a[words], got[words];
	CUdeviceptr p[3];
	CALL(cuCtxSetCurrent(ctx));
	CALL(cuMemAllocHost_v2((void **)&pinned, sizeof got));
	for (int i = 0; i < 3; i++)
		CALL(cuMemAlloc_v2(&p[i], sizeof got));
	for (unsigned round = 1; calls < limit; round++) {
		CUstream s, second;
		CUevent e;
		CUdevice dev;
		struct job job = {seed + round, 0, pinned};
		CALL(cuStreamCreate(&s, 1));
		CALL(cuStreamCreate(&second, 1));
		CALL(cuEventCreate(&e, round % 2 ? 2 : 0)); // without and with timing
		for (int i = 0; i < 20; i++)
			CALL(cuCtxGetDevice(&dev));

		memset(pinned, 0xee, sizeof got);
		CALL(cuMemsetD32Async(p[0], job.round, words, s));
		CALL(cuMemcpyDtoHAsync_v2(pinned, p[0], sizeof got, s));
		CALL(cuLaunchHostFunc(s, host_function, &job));
		CALL(cuStreamAddCallback(s, stream_callback, &job, 0));
		wanted_callbacks += 2;
		CALL(cuEventRecord(e, s));
		CALL(cuStreamWaitEvent(second, e, 0));

		unsigned n = words;
		void *params[] = {&p[0], &p[1], &p[2], &n};
		for (int i = 0; i < words; i++)
			a[i] = (float)(seed % 1000 + round % 1000 + (unsigned)i);
		CALL(cuMemcpyHtoDAsync_v2(p[0], a, sizeof a, second));
		CALL(cuMemcpyHtoDAsync_v2(p[1], a, sizeof a, second));
		CALL(cuLaunchKernel(vadd, 2, 1, 1, words / 2, 1, 1, 0, second, params, NULL));
		memset(got, 0xee, sizeof got);
		CALL(cuMemcpyDtoHAsync_v2(got, p[2], sizeof got, second));
		CALL(cuStreamSynchronize(second));
		for (int i = 0; i < words; i++)
			THAT(got[i] == 2 * a[i]);
		CALL(cuStreamSynchronize(s));
		THAT(job.seen == 2);

		CALL(cuEventDestroy_v2(e));
		CALL(cuStreamDestroy_v2(second));
		CALL(cuStreamDestroy_v2(s));
	}
	for (int i = 0; i < 3; i++)
		CALL(cuMemFree_v2(p[i]));
	CALL(cuMemFreeHost(pinned));
	return NULL;
}

static int count_threads(void) {
	DIR *d = opendir("/proc/self/task");
	int n = 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static double resident(void) { // in MiB
	FILE *f = fopen("/proc/self/statm", "r");
	long size, pages;
	THAT(f && fscanf(f, "%ld %ld", &size, &pages) == 2);
	fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void half(long until) {
	pthread_t t[threads];
	limit = until;
	for (long i = 0; i < threads; i++)
		THAT(pthread_create(&t[i], NULL, work, (void *)i) == 0);
	for (int i = 0; i < threads; i++)
		THAT(pthread_join(t[i], NULL) == 0);
}

int main(int argc, char **argv) {
	long all = argc > 1 ? atol(argv[1]) : 100000;
	CUmodule mod;
	size_t before, after, total;
	struct timespec began, ended;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&mod, ptx));
	OK(cuModuleGetFunction(&vadd, mod, "vadd"));
	OK(cuMemGetInfo_v2(&before, &total));
	double start_memory = resident();
	int start_threads = count_threads();
	clock_gettime(CLOCK_MONOTONIC, &began);
	half(all / 2);
	double half_memory = resident();
	int half_threads = count_threads();
	half(all);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	double memory = resident();
	int now_threads = count_threads();
	OK(cuMemGetInfo_v2(&after, &total));
	fprintf(stderr, "%ld calls, %ld callbacks in %.1f s; resident %.0f, %.0f, %.0f MiB and %d, %d, %d threads at the start, the half and the end\n",
		(long)calls, (long)callbacks, (double)(ended.tv_sec - began.tv_sec) + 1e-9 * (double)(ended.tv_nsec - began.tv_nsec),
		start_memory, half_memory, memory, start_threads, half_threads, now_threads);
	THAT(calls >= all && callbacks == wanted_callbacks && callbacks > all / 50);
	THAT(after == before);
	THAT(memory < 1.5 * half_memory + 32 && now_threads < 2 * half_threads + 16);
	puts("soak: right");
	return 0;
}
