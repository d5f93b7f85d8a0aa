// A program that finds the driver while it runs.
#include <dlfcn.h>

#include "driver.h"

int main(void) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	CUresult (*init)(unsigned) = (CUresult (*)(unsigned))dlsym(library, "cuInit");
	CUresult (*count)(int *) = (CUresult (*)(int *))dlsym(library, "cuDeviceGetCount");
	int devices = 0;
	if (!init || !count || init(0) || count(&devices))
		return 1;
	printf("%d devices\n", devices);
	return 0;
}
