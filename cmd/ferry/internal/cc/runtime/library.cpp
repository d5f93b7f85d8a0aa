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
    return FERRY_CALL.begun([&] {
        CUresult r = CU(cuLibraryUnload)(library);
        if (!r)
            forgetLibrary(library);
        return r;
    });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
    return FERRY_CALL.begun([&] {
        CUresult r = CU(cuLibraryGetKernel)(kernel, library, name);
        if (!r)
            addKernel(*kernel, library);
        return r;
    });
}

cudaError_t cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library) {
    return FERRY_CALL.begun([&] { return CU(cuLibraryGetKernelCount)(count, library); });
}

cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned count, cudaLibrary_t library) {
    return FERRY_CALL.begun([&] {
        unsigned has = 0;
        CUresult r = CU(cuLibraryEnumerateKernels)(kernels, count, library);
        if (!r)
            r = CU(cuLibraryGetKernelCount)(&has, library);
        for (unsigned i = 0; !r && i < count && i < has; i++)
            addKernel(kernels[i], library);
        return r;
    });
}

cudaError_t cudaLibraryGetGlobal(void **p, size_t *bytes, cudaLibrary_t library, const char *name) {
    return FERRY_CALL.in([&] { return CU(cuLibraryGetGlobal)((CUdeviceptr *)p, bytes, library, name); });
}

cudaError_t cudaLibraryGetManaged(void **p, size_t *bytes, cudaLibrary_t library, const char *name) {
    return FERRY_CALL.in([&] { return CU(cuLibraryGetManaged)((CUdeviceptr *)p, bytes, library, name); });
}

// The handle of a kernel of the program is its address: modules have their kernels in each context.
cudaError_t cudaGetKernel(cudaKernel_t *handle, const void *kernel) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        CUfunction f;
        if (!handle)
            return cudaErrorInvalidValue;
        cudaError_t e = function(kernel, &f);
        if (!e)
            *handle = (cudaKernel_t)kernel;
        return e;
    });
}

// setIn sets an attribute of a kernel of the program in the primary context of a device.
static cudaError_t setIn(int device, const void *kernel, CUfunction_attribute attribute, int value) {
    CUcontext context, before;
    CUfunction f;
    if (CUresult r = primary(device, &context))
        return code(r);
    if (CUresult r = CU(cuCtxPushCurrent_v2)(context))
        return code(r);
    cudaError_t e = function(kernel, &f);
    if (!e)
        e = code(CU(cuFuncSetAttribute)(f, attribute, value));
    CU(cuCtxPopCurrent_v2)(&before);
    return e;
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device) {
    return FERRY_CALL.begun([&]() -> cudaError_t {
        if (hasKernel(kernel))
            return setIn(device, kernel, (CUfunction_attribute)attribute, value);
        return code(CU(cuKernelSetAttribute)((CUfunction_attribute)attribute, value, kernel, device));
    });
}

} // extern "C"
