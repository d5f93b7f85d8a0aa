// Signals of a program whose threads are in the library: timers whose handlers need a large stack, threads
// that wait for signals, and what threads block. The argument names the part.
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // sigset
#include "driver.h"
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { workers = 4, words = 4096, frame = 32 << 10 };

static CUcontext ctx;
static CUfunction vadd;
static atomic_int stop, rounds, called;

static void note(void *arg) { called += *(int *)arg; }
static void note_status(CUstream s, CUresult r, void *arg) { called += *(int *)arg; }

// work makes calls, small ones, launches and callbacks, until it is told to stop.
static void *work(void *arg) {
	CUdeviceptr p[3];
	CUstream s;
	static int one = 1;
	float seed = (float)(long)arg, *host = malloc(words * sizeof *host);
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamCreate(&s, 1));
	for (int i = 0; i < 3; i++)
		OK(cuMemAlloc_v2(&p[i], words * sizeof *host));
	for (int round = 0; !stop; round++, rounds++) {
		CUdevice dev;
		CUcontext now;
		unsigned n = words;
		void *params[] = {&p[0], &p[1], &p[2], &n};
		for (int i = 0; i < words; i++)
			host[i] = seed + (float)(i + round % 100);
		OK(cuMemcpyHtoDAsync_v2(p[0], host, words * sizeof *host, s));
		OK(cuMemcpyHtoDAsync_v2(p[1], host, words * sizeof *host, s));
		OK(cuLaunchKernel(vadd, words / 128, 1, 1, 128, 1, 1, 0, s, params, NULL));
		OK(cuLaunchHostFunc(s, note, &one));
		OK(cuStreamAddCallback(s, note_status, &one, 0));
		for (int i = 0; i < 100; i++) {
			OK(cuCtxGetDevice(&dev));
			OK(cuCtxGetCurrent(&now));
		}
		memset(host, 0xff, words * sizeof *host);
		OK(cuMemcpyDtoHAsync_v2(host, p[2], words * sizeof *host, s));
		OK(cuStreamSynchronize(s));
		for (int i = 0; i < words; i++)
			THAT(host[i] == 2 * (seed + (float)(i + round % 100)));
	}
	free(host);
	return NULL;
}

static void start(pthread_t *t) {
	CUmodule mod;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&mod, ptx));
	OK(cuModuleGetFunction(&vadd, mod, "vadd"));
	for (long i = 0; i < workers; i++)
		THAT(pthread_create(&t[i], NULL, work, (void *)i) == 0);
}

static void end(pthread_t *t) {
	stop = 1;
	for (int i = 0; i < workers; i++)
		THAT(pthread_join(t[i], NULL) == 0);
	THAT(rounds >= workers && called == 2 * rounds);
}

static atomic_int ticks[NSIG];

// tick needs a large frame, all of which it writes and reads, and a call of C that uses much stack.
__attribute__((noinline)) static void tick(int sig) {
	volatile char big[frame];
	char text[64];
	stack_t own;
	if (sigaltstack(NULL, &own) || !(own.ss_flags & (SS_DISABLE | SS_ONSTACK)))
		abort(); // the thread has a stack for handlers, and this one is not on it
	int before = errno;
	for (int i = 0; i < frame; i++)
		big[i] = (char)(i + sig);
	snprintf(text, sizeof text, "%d %f %p", sig, 1.0 / sig, (void *)big);
	for (int i = 0; i < frame; i++)
		if (big[i] != (char)(i + sig))
			abort();
	ticks[sig]++;
	errno = before;
}

static void tick_info(int sig, siginfo_t *info, void *context) { tick(sig); }

static void every(int which, int us) {
	struct itimerval every = {{0, us}, {0, us}};
	THAT(setitimer(which, &every, NULL) == 0);
}

static void run_for(double seconds) {
	struct timespec began, now;
	clock_gettime(CLOCK_MONOTONIC, &began);
	do {
		usleep(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec) < seconds);
}

// timers has handlers of signals that interrupt threads in calls. Each is installed in another way, and
// without SA_ONSTACK.
static void timers(int late) {
	pthread_t t[workers];
	struct sigaction a = {.sa_sigaction = tick_info, .sa_flags = SA_SIGINFO | SA_RESTART};
	if (late)
		start(t);
	THAT(signal(SIGALRM, tick) != SIG_ERR);
	THAT(sigaction(SIGPROF, &a, NULL) == 0);
	THAT(sysv_signal(SIGUSR2, tick) != SIG_ERR);
	THAT(sigset(SIGVTALRM, tick) != SIG_ERR);
	if (!late)
		start(t);
	sigset_t here; // not in this thread, which makes no calls
	sigemptyset(&here);
	sigaddset(&here, SIGALRM);
	sigaddset(&here, SIGPROF);
	sigaddset(&here, SIGVTALRM);
	THAT(pthread_sigmask(SIG_BLOCK, &here, NULL) == 0);
	every(ITIMER_REAL, 500);
	every(ITIMER_PROF, 1000);
	every(ITIMER_VIRTUAL, 1000);
	int enough = 0;
	for (int i = 0; i < 10 || (!enough && i < 400); i++) { // a computer with other work has fewer ticks
		enough = ticks[SIGALRM] > 20 && ticks[SIGPROF] > 20 && ticks[SIGVTALRM] > 20 && ticks[SIGUSR2] > 0;
		run_for(0.15);
		THAT(signal(SIGUSR2, tick) != SIG_ERR); // sysv_signal installs it for one signal
		pthread_kill(t[i % workers], SIGUSR2);
	}
	every(ITIMER_REAL, 0);
	every(ITIMER_PROF, 0);
	every(ITIMER_VIRTUAL, 0);
	end(t);
	THAT(enough);
	puts("timers: right");
}

static const int waited[] = {SIGTERM, SIGUSR1, SIGCHLD, SIGPROF, SIGALRM, SIGHUP, SIGINT};
enum { n_waited = sizeof waited / sizeof *waited };
static sigset_t wait_set;
static atomic_int arrived[NSIG];

static void *waiter(void *arg) {
	for (;;) {
		int sig;
		THAT(sigwait(&wait_set, &sig) == 0);
		arrived[sig]++;
	}
	return NULL;
}

// waits has one thread that waits for signals, which all others block. None may go elsewhere.
static void waits(void) {
	pthread_t t[workers], w;
	sigset_t now;
	sigemptyset(&wait_set);
	for (int i = 0; i < n_waited; i++)
		sigaddset(&wait_set, waited[i]);
	THAT(pthread_sigmask(SIG_BLOCK, &wait_set, NULL) == 0);
	start(t);
	THAT(pthread_create(&w, NULL, waiter, NULL) == 0);
	for (int round = 1; round <= 200; round++) {
		for (int i = 0; i < n_waited; i++) {
			int sig = waited[i];
			if (sig == SIGCHLD) {
				pid_t pid = fork();
				if (pid == 0)
					_exit(0);
				THAT(waitpid(pid, NULL, 0) == pid);
			} else
				THAT(kill(getpid(), sig) == 0);
			for (int tries = 0; arrived[sig] < round; tries++) {
				if (tries == 5000) {
					fprintf(stderr, "signal %d did not arrive in round %d\n", sig, round);
					exit(1);
				}
				usleep(1000);
			}
			THAT(arrived[sig] == round);
		}
	}
	THAT(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
	for (int i = 0; i < n_waited; i++)
		THAT(sigismember(&now, waited[i]));
	end(t);
	puts("waits: right");
}

static unsigned long long blocked(const char *tid) {
	char path[300], line[200];
	unsigned long long set = ~0ull;
	snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "SigBlk: %llx", &set);
	if (f)
		fclose(f);
	return set;
}

#define BIT(sig) (1ull << ((sig) - 1))

static atomic_int own_tid[workers];

static void *blocks_usr1(void *arg) {
	CUdevice dev;
	sigset_t mine, now;
	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR1);
	sigaddset(&mine, SIGCHLD);
	own_tid[(long)arg] = (int)syscall(SYS_gettid);
	THAT(pthread_sigmask(SIG_SETMASK, &mine, NULL) == 0);
	WANT(1, cuCtxGetDevice(NULL)); // the first call of the thread fails before it is made
	OK(cuCtxSetCurrent(ctx));
	OK(cuCtxGetDevice(&dev));
	THAT(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
	for (int sig = 1; sig < 65; sig++)
		THAT(sig == 32 || sig == 33 || sigismember(&now, sig) == sigismember(&mine, sig));
	while (!stop)
		usleep(1000);
	return NULL;
}

// masks looks at what the threads of the process block.
static void masks(void) {
	pthread_t t[workers], own[workers];
	start(t);
	run_for(0.3);
	stop = 1; // so that only threads of the library are left
	for (int i = 0; i < workers; i++)
		THAT(pthread_join(t[i], NULL) == 0);
	stop = 0;
	for (long i = 0; i < workers; i++)
		THAT(pthread_create(&own[i], NULL, blocks_usr1, (void *)i) == 0);
	run_for(0.3);
	DIR *d = opendir("/proc/self/task");
	int others = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		int tid = atoi(e->d_name), mine = tid == getpid();
		for (int i = 0; i < workers; i++)
			mine |= tid == own_tid[i];
		if (mine)
			continue;
		unsigned long long free = ~blocked(e->d_name) & ~(BIT(SIGKILL) | BIT(SIGSTOP) | BIT(32) | BIT(33));
		others++;
		if (free != (BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGSEGV) | BIT(SIGURG))) {
			fprintf(stderr, "thread %d of the library lets the signals %llx through\n", tid, free);
			exit(1);
		}
	}
	closedir(d);
	THAT(others >= 3);
	stop = 1;
	for (int i = 0; i < workers; i++)
		THAT(pthread_join(own[i], NULL) == 0);
	puts("masks: right");
}

int main(int argc, char **argv) {
	const char *part = argc > 1 ? argv[1] : "";
	if (!strcmp(part, "timers-early"))
		timers(0);
	else if (!strcmp(part, "timers-late"))
		timers(1);
	else if (!strcmp(part, "waits"))
		waits();
	else if (!strcmp(part, "masks"))
		masks();
	else
		return 2;
	return 0;
}
