// Devices and their primary contexts.
#include "runtime.h"

#include <mutex>
#include <vector>

namespace ferry {

thread_local Thread self;

namespace {

// A Primary is the primary context of a device.
struct Primary {
    CUcontext context = 0; // null until it is retained, and after a reset
    unsigned generation = 1;
};

std::mutex &mutex() {
    static auto *m = new std::mutex;
    return *m;
}

// at returns the entry of a device. The caller holds the mutex.
Primary &at(int device) {
    static auto *all = new std::vector<Primary>;
    if ((size_t)device >= all->size())
        all->resize(device + 1);
    return (*all)[device];
}

} // namespace

CUresult primary(int device, CUcontext *context) {
    if (device < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard<std::mutex> lock(mutex());
    int count = 0;
    if (CUresult r = CU(cuDeviceGetCount)(&count))
        return r;
    if (device >= count)
        return CUDA_ERROR_INVALID_DEVICE;
    Primary &p = at(device);
    if (!p.context)
        if (CUresult r = CU(cuDevicePrimaryCtxRetain)(&p.context, device))
            return r;
    *context = p.context;
    return CUDA_SUCCESS;
}

unsigned generation(int device) {
    std::lock_guard<std::mutex> lock(mutex());
    return at(device).generation;
}

// bind makes the primary context of a device current.
static CUresult bind(int device) {
    CUcontext context;
    if (CUresult r = primary(device, &context))
        return r;
    if (CUresult r = CU(cuCtxSetCurrent)(context))
        return r;
    self.bound = context;
    self.generation = generation(device);
    self.prepared = 0;
    return CUDA_SUCCESS;
}

CUresult ready() {
    if (CUresult r = initialize())
        return r;
    CUcontext current = 0;
    if (CUresult r = CU(cuCtxGetCurrent)(&current))
        return r;
    bool reset = current && current == self.bound && self.generation != generation(self.device);
    if (!current || reset) {
        if (CUresult r = bind(self.device))
            return r;
        current = self.bound;
    }
    if (current != self.prepared) {
        prepare(current);
        self.prepared = current;
    }
    return CUDA_SUCCESS;
}

static cudaError_t chooseDevice(int device) {
    if (CUresult r = bind(device))
        return code(r);
    self.device = device;
    return cudaSuccess;
}

// resetDevice ends the primary context of the device. A later call makes a new one.
static cudaError_t resetDevice() {
    int device = self.device;
    CUcontext context = 0;
    {
        std::lock_guard<std::mutex> lock(mutex());
        Primary &p = at(device);
        context = p.context;
        p.context = 0;
        p.generation++;
    }
    if (!context)
        return cudaSuccess;
    forget(context);
    CUcontext current = 0;
    if (!CU(cuCtxGetCurrent)(&current) && current == context)
        CU(cuCtxSetCurrent)(0);
    CU(cuDevicePrimaryCtxRelease_v2)(device);
    return code(CU(cuDevicePrimaryCtxReset_v2)(device));
}

} // namespace ferry

using namespace ferry;

extern "C" {

cudaError_t cudaSetDevice(int device) {
    return FERRY_CALL.begun([&] { return chooseDevice(device); });
}

cudaError_t cudaGetDevice(int *device) {
    return FERRY_CALL.begun([&]() -> cudaError_t {
        if (!device)
            return cudaErrorInvalidValue;
        CUcontext current = 0;
        CUdevice d;
        *device = self.device;
        if (!CU(cuCtxGetCurrent)(&current) && current && !CU(cuCtxGetDevice)(&d))
            *device = d;
        return cudaSuccess;
    });
}

cudaError_t cudaGetDeviceCount(int *count) {
    if (count)
        *count = 0;
    return FERRY_CALL.begun([&] { return count ? CU(cuDeviceGetCount)(count) : CUDA_ERROR_INVALID_VALUE; });
}

cudaError_t cudaInitDevice(int device, unsigned flags, unsigned valid) {
    return FERRY_CALL.begun([&] {
        CUcontext context;
        if (valid & cudaInitDeviceFlagsAreValid)
            if (CUresult r = CU(cuDevicePrimaryCtxSetFlags_v2)(device, flags & ~cudaDeviceMapHost))
                return r;
        return primary(device, &context);
    });
}

// Mapped memory needs no flag of a context: it is always on.
cudaError_t cudaSetDeviceFlags(unsigned flags) {
    return FERRY_CALL.begun([&] { return CU(cuDevicePrimaryCtxSetFlags_v2)(self.device, flags & ~cudaDeviceMapHost); });
}

cudaError_t cudaGetDeviceFlags(unsigned *flags) {
    return FERRY_CALL.begun([&] {
        int active = 0;
        if (!flags)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = CU(cuDevicePrimaryCtxGetState)(self.device, flags, &active);
        *flags |= cudaDeviceMapHost;
        return r;
    });
}

cudaError_t cudaSetValidDevices(int *, int) { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize(void) {
    return FERRY_CALL.in([] { return CU(cuCtxSynchronize)(); });
}

cudaError_t cudaDeviceReset(void) {
    return FERRY_CALL.begun(resetDevice);
}

cudaError_t cudaThreadSynchronize(void) {
    return FERRY_CALL.in([] { return CU(cuCtxSynchronize)(); });
}

cudaError_t cudaThreadExit(void) {
    return FERRY_CALL.begun(resetDevice);
}

} // extern "C"
