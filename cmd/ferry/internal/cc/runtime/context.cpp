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
    unsigned long long number = 0;
    unsigned generation = 1;
};

std::mutex &mutex() {
    static auto *m = new std::mutex;
    return *m;
}

// primaries has an entry for each device. The caller holds the mutex.
std::vector<Primary> &primaries() {
    static auto *all = new std::vector<Primary>;
    return *all;
}

// at returns the entry of a device. The caller holds the mutex.
Primary &at(int device) {
    if ((size_t)device >= primaries().size())
        primaries().resize(device + 1);
    return primaries()[device];
}

// ended notes that a primary context is gone. The caller holds the mutex.
void ended(Primary &p) {
    p.context = 0;
    p.generation++;
    forget(p.number);
}

} // namespace

// retained makes sure that a primary context is retained. The caller holds the mutex. A context that
// the driver has ended, by the hand of the program or of another runtime, begins again.
static CUresult retained(int device, Primary &p) {
    unsigned flags;
    int active = 1;
    if (p.context && !CU(cuDevicePrimaryCtxGetState)(device, &flags, &active) && active)
        return CUDA_SUCCESS;
    if (p.context)
        ended(p);
    CUresult r = CU(cuDevicePrimaryCtxRetain)(&p.context, device);
    if (!r)
        p.number = number(p.context);
    return r;
}

CUresult primary(int device, CUcontext *context, unsigned *generation) {
    if (device < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard<std::mutex> lock(mutex());
    int count = 0;
    if (CUresult r = CU(cuDeviceGetCount)(&count))
        return r;
    if (device >= count)
        return CUDA_ERROR_INVALID_DEVICE;
    Primary &p = at(device);
    if (CUresult r = retained(device, p))
        return r;
    *context = p.context;
    if (generation)
        *generation = p.generation;
    return CUDA_SUCCESS;
}

void unload(unsigned long long context, CUmodule module) {
    std::lock_guard<std::mutex> lock(mutex());
    for (Primary &p : primaries()) {
        CUcontext before;
        if (p.context && p.number == context && !CU(cuCtxPushCurrent_v2)(p.context)) {
            CU(cuModuleUnload)(module);
            CU(cuCtxPopCurrent_v2)(&before);
        }
    }
}

unsigned generation(int device) {
    std::lock_guard<std::mutex> lock(mutex());
    return at(device).generation;
}

// bind makes the primary context of a device current.
static CUresult bind(int device) {
    CUcontext context;
    unsigned generation;
    if (CUresult r = primary(device, &context, &generation))
        return r;
    if (CUresult r = CU(cuCtxSetCurrent)(context))
        return r;
    self.bound = context;
    self.generation = generation;
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
        prepare();
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

// resetDevice ends the primary context of the device. A later call makes a new one. Other threads get
// neither before the old one is gone.
static cudaError_t resetDevice() {
    int device = self.device;
    std::lock_guard<std::mutex> lock(mutex());
    Primary &p = at(device);
    if (!p.context)
        return cudaSuccess;
    CUcontext current = 0;
    if (!CU(cuCtxGetCurrent)(&current) && current == p.context)
        CU(cuCtxSetCurrent)(0);
    CU(cuDevicePrimaryCtxRelease_v2)(device);
    CUresult r = CU(cuDevicePrimaryCtxReset_v2)(device);
    ended(p);
    return code(r);
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
