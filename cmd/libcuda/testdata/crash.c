// Faults of the program's own code, with and without handlers, and wrong addresses in calls. The argument
// names the part.
#define _GNU_SOURCE
#include "driver.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { frame = 32 << 10 };

static char *volatile nowhere;
static sigjmp_buf back;
static volatile sig_atomic_t handled;
static CUcontext ctx;
static CUdeviceptr device;
static int zero;

static void open_device(void) {
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemAlloc_v2(&device, 4096));
}

// use makes calls, so that a test shows that the library still works.
static void use(void) {
	for (unsigned i = 0; i < 1000; i++) {
		unsigned got = 0;
		OK(cuMemsetD32_v2(device, i, 1));
		OK(cuMemcpyDtoH_v2(&got, device, sizeof got));
		THAT(got == i);
	}
}

__attribute__((noinline)) static void crash(void) { *nowhere = 1; }

static void tell(int sig) {
	volatile char big[frame];
	char text[64];
	memset((char *)big, sig, frame);
	int n = snprintf(text, sizeof text, "handler: %d\n", sig + big[frame / 2] - sig);
	if (write(1, text, n) != n)
		_exit(9);
	_exit(7);
}

static void jump(int sig, siginfo_t *info, void *context) {
	handled++;
	siglongjmp(back, 1);
}

static void install_jump(void) {
	struct sigaction a = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO};
	THAT(sigaction(SIGSEGV, &a, NULL) == 0);
}

static void jumps(void) {
	for (int i = 1; i <= 50; i++) {
		if (!sigsetjmp(back, 1))
			crash();
		THAT(handled == i);
		use();
	}
	puts("jumps: right");
}

static void *in_thread(void *arg) {
	OK(cuCtxSetCurrent(ctx));
	use();
	crash();
	return NULL;
}

static void in_callback(void *arg) { crash(); }

static void sends(void *arg) { raise(SIGSEGV); }

// wild gives calls addresses of the host that cannot be used.
static void wild(void) {
	char *gone = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUstream s;
	OK(cuStreamCreate(&s, 1));
	THAT(gone != MAP_FAILED);
	WANT(1, cuMemcpyHtoD_v2(device, gone, 4096));
	WANT(1, cuMemcpyDtoH_v2(gone, device, 4096));
	use();
	WANT(1, cuMemcpyHtoD_v2(device, (void *)0x10, 4096));
	WANT(1, cuMemcpyHtoD_v2(device, (void *)0xdead000000000000, 4096)); // not canonical
	use();
	WANT(1, cuMemcpyHtoDAsync_v2(device, gone, 4096, s));
	WANT(1, cuMemcpyDtoHAsync_v2(gone, device, 4096, s));
	OK(cuStreamSynchronize(s));
	use();
	puts("wild: right");
}

static void on_pipe(int sig) { handled++; }

// pipes writes to a pipe that nobody reads.
static void pipes(void) {
	int p[2];
	THAT(pipe(p) == 0 && close(p[0]) == 0);
	THAT(signal(SIGPIPE, on_pipe) != SIG_ERR);
	THAT(write(p[1], "x", 1) == -1 && errno == EPIPE && handled == 1);
	THAT(signal(SIGPIPE, SIG_IGN) == on_pipe);
	THAT(write(p[1], "x", 1) == -1 && errno == EPIPE && handled == 1);
	use();
	fputs("pipes: right\n", stderr);
	THAT(signal(SIGPIPE, SIG_DFL) == SIG_IGN);
	(void)!write(p[1], "x", 1);
	fputs("still there\n", stderr);
}

int main(int argc, char **argv) {
	const char *part = argc > 1 ? argv[1] : "";
	pthread_t t;
	if (!strcmp(part, "tell-before"))
		signal(SIGSEGV, tell);
	if (!strcmp(part, "jump-before"))
		install_jump();
	open_device();
	use();
	if (!strcmp(part, "tell-after"))
		signal(SIGSEGV, tell);
	if (!strcmp(part, "jump-after"))
		install_jump();
	if (!strncmp(part, "tell", 4) || !strcmp(part, "crash"))
		crash();
	else if (!strncmp(part, "jump", 4))
		jumps();
	else if (!strcmp(part, "thread")) {
		THAT(pthread_create(&t, NULL, in_thread, NULL) == 0);
		pthread_join(t, NULL);
	} else if (!strncmp(part, "callback", 8)) {
		if (!strcmp(part, "callback-tell"))
			signal(SIGSEGV, tell);
		OK(cuLaunchHostFunc(NULL, in_callback, NULL));
		OK(cuCtxSynchronize());
	} else if (!strcmp(part, "sent"))
		raise(SIGSEGV);
	else if (!strcmp(part, "abort"))
		abort();
	else if (!strcmp(part, "divide"))
		printf("%d\n", 100 / *(volatile int *)&zero);
	else if (!strcmp(part, "wild"))
		wild();
	else if (!strcmp(part, "wild-tell")) {
		signal(SIGSEGV, tell);
		cuMemcpyHtoD_v2(device, (void *)(64 << 10), 4096);
	} else if (!strcmp(part, "fatal")) {
		OK(cuLaunchHostFunc(NULL, sends, NULL));
		OK(cuCtxSynchronize());
	}
	else if (!strcmp(part, "pipes"))
		pipes();
	else if (!strcmp(part, "pipe-default")) {
		int p[2];
		THAT(pipe(p) == 0 && close(p[0]) == 0);
		(void)!write(p[1], "x", 1);
	} else
		return 2;
	return 0;
}
