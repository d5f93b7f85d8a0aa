// A program that opens the library late, when it has handlers already. The argument names the library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { frame = 32 << 10, threads = 3, signals = 4 };

#define THAT(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			exit(1); \
		} \
	} while (0)

static const int sigs[signals] = {SIGALRM, SIGPROF, SIGVTALRM, SIGTSTP}; // Go leaves the last one alone
static const int timer[] = {ITIMER_REAL, ITIMER_PROF, ITIMER_VIRTUAL};
static volatile int ticks[NSIG];
static volatile int stop;
static int (*init)(unsigned), (*device_get)(int *, int), (*create)(void **, unsigned, int), (*alloc)(unsigned long long *, size_t),
	(*set)(unsigned long long, unsigned, size_t), (*set_current)(void *), (*get)(void *, unsigned long long, size_t);
static void *ctx;

static void tick(int sig) {
	volatile char big[frame];
	char text[64];
	stack_t own;
	if (sigaltstack(NULL, &own) || !(own.ss_flags & (SS_DISABLE | SS_ONSTACK)))
		abort(); // the thread has a stack for handlers, and this one is not on it
	for (int i = 0; i < frame; i++)
		big[i] = (char)(i + sig);
	snprintf(text, sizeof text, "%d %f", sig, 1.0 / sig);
	for (int i = 0; i < frame; i++)
		if (big[i] != (char)(i + sig))
			abort();
	ticks[sig] = 1;
}

static void *work(void *arg) {
	unsigned long long p;
	THAT(set_current(ctx) == 0 && alloc(&p, 4096) == 0);
	for (unsigned i = 0; !stop; i++) {
		unsigned got = 0;
		int dev = 7;
		THAT(set(p, i, 16) == 0 && get(&got, p, sizeof got) == 0 && got == i);
		for (int k = 0; k < 50; k++)
			THAT(device_get(&dev, 0) == 0 && dev == 0);
	}
	return NULL;
}

static void install(int first, int step) {
	struct sigaction a = {.sa_handler = tick, .sa_flags = SA_RESTART};
	for (int i = first; i < signals; i += step)
		THAT(sigaction(sigs[i], &a, NULL) == 0);
}

int main(int argc, char **argv) {
	pthread_t t[threads];
	install(1, 2); // before the library is there
	void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	install(0, 2); // before cuInit
#define FIND(variable, name) THAT((*(void **)&variable = dlsym(lib, name)) != NULL)
	FIND(init, "cuInit");
	FIND(device_get, "cuDeviceGet");
	FIND(create, "cuCtxCreate_v2");
	FIND(alloc, "cuMemAlloc_v2");
	FIND(set, "cuMemsetD32_v2");
	FIND(get, "cuMemcpyDtoH_v2");
	FIND(set_current, "cuCtxSetCurrent");
	THAT(init(0) == 0 && create(&ctx, 0, 0) == 0);
	for (int i = 0; i < threads; i++)
		THAT(pthread_create(&t[i], NULL, work, NULL) == 0);
	sigset_t here; // not in this thread, which makes no calls
	sigemptyset(&here);
	for (int i = 0; i < signals; i++)
		sigaddset(&here, sigs[i]);
	THAT(pthread_sigmask(SIG_BLOCK, &here, NULL) == 0);
	struct itimerval every = {{0, 700}, {0, 700}};
	for (int i = 0; i < 3; i++)
		THAT(setitimer(timer[i], &every, NULL) == 0);
	for (int rounds = 0; rounds < 1000 || !(ticks[SIGALRM] && ticks[SIGPROF] && ticks[SIGVTALRM] && ticks[SIGTSTP]); rounds++) {
		THAT(rounds < 100000);
		pthread_kill(t[rounds % threads], SIGTSTP);
		struct timespec ms = {0, 1000000};
		nanosleep(&ms, NULL);
	}
	stop = 1;
	for (int i = 0; i < threads; i++)
		THAT(pthread_join(t[i], NULL) == 0);
	puts("opened: right");
	return 0;
}
