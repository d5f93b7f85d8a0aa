// Opens the driver library, and finds its functions.
#include "runtime.h"

#include <dlfcn.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ferry {
namespace {

// library returns the driver library, or null.
void *library() {
    static void *const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return handle;
}

// What a function is that the driver lacks, and that of a driver which is not there. They take any
// arguments, which they do not use.
CUresult lacking() { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult missing() { return (CUresult)cudaErrorInsufficientDriver; }

bool quiet() {
    const char *v = getenv("FERRY_QUIET");
    return v && !strcmp(v, "1");
}

} // namespace

void say(const char *form, ...) {
    if (quiet())
        return;
    char text[1024];
    va_list args;
    va_start(args, form);
    vsnprintf(text, sizeof text, form, args);
    va_end(args);
    fprintf(stderr, "ferry cc: %s\n", text);
}

void *driver(const char *name) {
    void *handle = library();
    if (!handle)
        return (void *)missing;
    if (void *f = dlsym(handle, name))
        return f;
    say("the driver has no %s", name);
    return (void *)lacking;
}

void *optional(const char *name) {
    void *handle = library();
    return handle ? dlsym(handle, name) : nullptr;
}

CUresult initialize() {
    static const CUresult result = [] {
        if (!library())
            say("%s: a program of CUDA needs a driver: LD_LIBRARY_PATH=\"$(ferry lib)\" names that of the software GPU", dlerror());
        return CU(cuInit)(0);
    }();
    return result;
}

cudaError_t refuse(const char *name) {
    say("%s is not in this runtime, and returns cudaErrorNotSupported", name);
    return note(cudaErrorNotSupported);
}

} // namespace ferry
