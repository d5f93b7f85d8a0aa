// Errors that a sanitizer must find in the stubs, to show that it watches them. The argument names the error.
#include "driver.h"
#include <pthread.h>
#include <string.h>

static size_t shared, total[2];

static CUcontext ctx;

static void *both(void *arg) {
	OK(cuCtxSetCurrent(ctx));
	for (int i = 0; i < 100000; i++)
		OK(cuMemGetInfo_v2(&shared, &total[(long)arg]));
	return NULL;
}

int main(int argc, char **argv) {
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	if (argc > 1 && !strcmp(argv[1], "overflow")) {
		size_t *small = malloc(sizeof(int)); // the stub writes a size_t
		OK(cuCtxSetCurrent(ctx));
		OK(cuMemGetInfo_v2(small, &total[0]));
		free(small);
	} else {
		pthread_t t[2];
		for (long i = 0; i < 2; i++)
			THAT(pthread_create(&t[i], NULL, both, (void *)i) == 0);
		for (int i = 0; i < 2; i++)
			THAT(pthread_join(t[i], NULL) == 0);
	}
	return 0;
}
