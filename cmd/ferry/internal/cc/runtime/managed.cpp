// Managed variables. A file that has some is compiled for the host with HIP's rules for them, by the
// same clang: the variable is a pointer, which the runtime fills, and each use reads it. So the code
// that clang writes for such a file calls functions of HIP's names.
#include "runtime.h"

using namespace ferry;

namespace ferry {

bool hasManaged;

} // namespace ferry

// Managed variables must be where the host and the device see them before main uses them. What static
// constructors wrote before goes along. Without a driver they stay in the host's memory.
static void __attribute__((constructor)) place() {
    if (hasManaged)
        ready();
}

extern "C" {

void **__hipRegisterFatBinary(void *wrapper) { return __cudaRegisterFatBinary(wrapper); }
void __hipUnregisterFatBinary(void **handle) { __cudaUnregisterFatBinary(handle); }

void __hipRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *a, void *b, void *c, void *d, int *e) {
    __cudaRegisterFunction(handle, host, device, name, threads, a, b, c, d, e);
}

void __hipRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes, int constant, int global) {
    __cudaRegisterVar(handle, host, device, name, external, bytes, constant, global);
}

void __hipRegisterManagedVar(void **handle, void **pointer, void *initial, const char *name, size_t bytes, unsigned) {
    hasManaged = true;
    *pointer = initial;
    registerManaged(handle, pointer, name, bytes);
}

} // extern "C"
