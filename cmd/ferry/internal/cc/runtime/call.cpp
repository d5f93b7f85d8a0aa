// Calls of the runtime, their errors, and the places of the program that made them.
#include "runtime.h"

namespace ferry {
namespace {

// slot returns where the driver library of the software GPU reads the caller of the thread, or null
// with another driver.
void **slot() {
    static void **(*const find)() = [] {
        void *f = nullptr;
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        if (initialize() || CU(cuGetProcAddress_v2)("ferryCaller", &f, CUDA_VERSION, 0, &found) || found != CU_GET_PROC_ADDRESS_SUCCESS)
            f = nullptr;
        return (void **(*)())f;
    }();
    static thread_local void **mine = find ? find() : nullptr;
    return mine;
}

// sticky reports whether an error stays with the context: no call makes it good.
bool sticky(cudaError_t e) {
    switch ((int)e) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return true;
    }
    return false;
}

} // namespace

Call::Call(void *caller) {
    if (self.depth++ == 0)
        if (void **s = slot())
            *s = caller;
}

Call::~Call() {
    if (--self.depth == 0)
        if (void **s = slot())
            *s = nullptr;
}

cudaError_t note(cudaError_t e) {
    if (e)
        self.last = e;
    return e;
}

} // namespace ferry

using namespace ferry;

extern "C" {

cudaError_t cudaPeekAtLastError(void) { return self.last; }

cudaError_t cudaGetLastError(void) {
    cudaError_t e = self.last;
    if (!sticky(e))
        self.last = cudaSuccess;
    return e;
}

} // extern "C"
