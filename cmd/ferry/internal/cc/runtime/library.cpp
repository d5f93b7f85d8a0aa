// Libraries of device code that the program loads itself, and their kernels. Handles are the driver's.
#include "runtime.h"

using namespace ferry;

extern "C" {

// The driver has the same options with the same numbers.
cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *options, void **values, unsigned count, enum cudaLibraryOption *own, void **ownValues, unsigned ownCount) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryLoadData)(library, code, (CUjit_option *)options, values, count, (CUlibraryOption *)own, ownValues, ownCount); });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *file, enum cudaJitOption *options, void **values, unsigned count, enum cudaLibraryOption *own, void **ownValues, unsigned ownCount) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryLoadFromFile)(library, file, (CUjit_option *)options, values, count, (CUlibraryOption *)own, ownValues, ownCount); });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryUnload)(library); });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryGetKernel)(kernel, library, name); });
}

cudaError_t cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryGetKernelCount)(count, library); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned count, cudaLibrary_t library) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryEnumerateKernels)(kernels, count, library); });
}

cudaError_t cudaLibraryGetGlobal(void **p, size_t *bytes, cudaLibrary_t library, const char *name) {
    return FERRY_CALL.in([&] { return CU(cuLibraryGetGlobal)((CUdeviceptr *)p, bytes, library, name); });
}

cudaError_t cudaLibraryGetManaged(void **p, size_t *bytes, cudaLibrary_t library, const char *name) {
    return FERRY_CALL.in([&] { return CU(cuLibraryGetManaged)((CUdeviceptr *)p, bytes, library, name); });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device) {
    return FERRY_CALL.begun([&] { return CU(cuKernelSetAttribute)((CUfunction_attribute)attribute, value, kernel, device); });
}

} // extern "C"
