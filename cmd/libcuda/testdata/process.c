// What forked children, functions at exit and destructors get.
#include "driver.h"
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUcontext ctx;

static void at_exit(void) {
	CUdevice dev;
	OK(cuCtxGetDevice(&dev)); // the library ends after what main registered
	OK(cuCtxDestroy_v2(ctx));
	puts("at exit: works");
	fflush(stdout);
}

__attribute__((destructor)) static void at_end(void) {
	CUdevice dev;
	CUcontext c;
	int n = cuCtxGetDevice(&dev), m = cuInit(0), k = cuCtxGetCurrent(&c);
	printf("destructor: %d %d %d\n", n, m, k);
	fflush(stdout);
}

static void child(void) {
	CUdeviceptr p;
	int n = 0;
	pid_t pid = fork();
	THAT(pid >= 0);
	if (pid == 0) {
		alarm(10); // a child that hangs ends by a signal
		int a = cuInit(0), b = cuMemAlloc_v2(&p, 4), c = cuDeviceGetCount(&n);
		_exit(a == 3 && b == 3 && c == 3 ? 33 : 1);
	}
	int status;
	THAT(waitpid(pid, &status, 0) == pid);
	THAT(WIFEXITED(status) && WEXITSTATUS(status) == 33);
}

int main(int argc, char **argv) {
	CUdeviceptr p;
	int n = 0;
	child(); // before cuInit
	THAT(setenv("FERRY_DEVICE", "soft:h200*2", 1) == 0);
	THAT(unsetenv("FERRY_SCHEDULE") == 0); // the test has set one that is unknown
	OK(cuInit(0));
	OK(cuDeviceGetCount(&n));
	THAT(n == 2);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemAlloc_v2(&p, 1 << 20));
	for (int i = 0; i < 60; i++) {
		OK(cuMemsetD32Async(p, i, 1 << 18, 0)); // so that threads of the library work
		child();
	}
	// A program that a child starts is no child of this kind.
	pid_t pid = fork();
	if (pid == 0) {
		unsetenv("FERRY_DEVICE");
		execl(argv[0], argv[0], "again", NULL);
		_exit(1);
	}
	int status;
	THAT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	atexit(at_exit);
	return 0;
}

// again runs in the program that a child started.
__attribute__((constructor)) static void again(int argc, char **argv) {
	if (argc < 2 || strcmp(argv[1], "again"))
		return;
	OK(cuInit(0));
	int n = 0;
	OK(cuDeviceGetCount(&n));
	_exit(n == 1 ? 0 : 1);
}
