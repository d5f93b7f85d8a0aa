// Names and texts of errors. Programs show and compare them, so they are those of CUDA.
#include "runtime.h"

namespace {

struct Text {
    int code;
    const char *text;
};

const Text texts[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidValue, "invalid argument"},
    {cudaErrorMemoryAllocation, "out of memory"},
    {cudaErrorInitializationError, "initialization error"},
    {cudaErrorCudartUnloading, "driver shutting down"},
    {cudaErrorProfilerDisabled, "profiler disabled while using external profiling tool"},
    {cudaErrorProfilerNotInitialized, "profiler not initialized: call cudaProfilerInitialize()"},
    {cudaErrorProfilerAlreadyStarted, "profiler already started"},
    {cudaErrorProfilerAlreadyStopped, "profiler already stopped"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidHostPointer, "invalid host pointer"},
    {cudaErrorInvalidDevicePointer, "invalid device pointer"},
    {cudaErrorInvalidTexture, "invalid texture reference"},
    {cudaErrorInvalidTextureBinding, "texture is not bound to a pointer"},
    {cudaErrorInvalidChannelDescriptor, "invalid channel descriptor"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorNotYetImplemented, "feature not yet implemented"},
    {cudaErrorStubLibrary, "CUDA driver is a stub library"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorCallRequiresNewerDriver, "API call is not supported in the installed CUDA driver"},
    {cudaErrorDevicesUnavailable, "all CUDA-capable devices are busy or unavailable"},
    {cudaErrorIncompatibleDriverContext, "incompatible driver context"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorLaunchMaxDepthExceeded, "launch would exceed maximum depth of nested launches"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorNoDevice, "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "invalid device ordinal"},
    {cudaErrorDeviceNotLicensed, "device doesn't have valid Grid license"},
    {cudaErrorStartupFailure, "startup failure in cuda runtime"},
    {cudaErrorInvalidKernelImage, "device kernel image is invalid"},
    {cudaErrorDeviceUninitialized, "invalid device context"},
    {cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"},
    {cudaErrorUnmapBufferObjectFailed, "unmapping of buffer object failed"},
    {cudaErrorArrayIsMapped, "array is mapped"},
    {cudaErrorAlreadyMapped, "resource already mapped"},
    {cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"},
    {cudaErrorAlreadyAcquired, "resource already acquired"},
    {cudaErrorNotMapped, "resource not mapped"},
    {cudaErrorNotMappedAsArray, "resource not mapped as array"},
    {cudaErrorNotMappedAsPointer, "resource not mapped as pointer"},
    {cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"},
    {cudaErrorUnsupportedLimit, "limit is not supported on this architecture"},
    {cudaErrorDeviceAlreadyInUse, "exclusive-thread device already in use by a different thread"},
    {cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"},
    {cudaErrorInvalidPtx, "a PTX JIT compilation failed"},
    {cudaErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"},
    {cudaErrorNvlinkUncorrectable, "uncorrectable NVLink error detected during the execution"},
    {cudaErrorJitCompilerNotFound, "PTX JIT compiler library not found"},
    {cudaErrorUnsupportedPtxVersion, "the provided PTX was compiled with an unsupported toolchain."},
    {cudaErrorJitCompilationDisabled, "PTX JIT compilation was disabled"},
    {cudaErrorUnsupportedExecAffinity, "the provided execution affinity is not supported"},
    {cudaErrorInvalidSource, "device kernel image is invalid"},
    {cudaErrorFileNotFound, "file not found"},
    {cudaErrorSharedObjectSymbolNotFound, "shared object symbol not found"},
    {cudaErrorSharedObjectInitFailed, "shared object initialization failed"},
    {cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"},
    {cudaErrorInvalidResourceHandle, "invalid resource handle"},
    {cudaErrorIllegalState, "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "named symbol not found"},
    {cudaErrorNotReady, "device not ready"},
    {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
    {cudaErrorLaunchTimeout, "the launch timed out and was terminated"},
    {cudaErrorLaunchIncompatibleTexturing, "launch uses incompatible texturing mode"},
    {cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"},
    {cudaErrorSetOnActiveProcess, "cannot set while device is active in this process"},
    {cudaErrorContextIsDestroyed, "context is destroyed"},
    {cudaErrorAssert, "device-side assert triggered"},
    {cudaErrorTooManyPeers, "peer mapping resources exhausted"},
    {cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
    {cudaErrorHardwareStackError, "hardware stack error"},
    {cudaErrorIllegalInstruction, "an illegal instruction was encountered"},
    {cudaErrorMisalignedAddress, "misaligned address"},
    {cudaErrorInvalidAddressSpace, "operation not supported on global/shared address space"},
    {cudaErrorInvalidPc, "invalid program counter"},
    {cudaErrorLaunchFailure, "unspecified launch failure"},
    {cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"},
    {cudaErrorNotPermitted, "operation not permitted"},
    {cudaErrorNotSupported, "operation not supported"},
    {cudaErrorSystemNotReady, "system not yet initialized"},
    {cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver combination"},
    {cudaErrorCompatNotSupportedOnDevice, "forward compatibility was attempted on non supported HW"},
    {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"},
    {cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorTimeout, "wait operation timed out"},
    {cudaErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
    {cudaErrorExternalDevice, "an async error has occured in external entity outside of CUDA"},
    {cudaErrorInvalidClusterSize, "a kernel launch error has occurred due to cluster misconfiguration"},
    {cudaErrorFunctionNotLoaded, "the function handle is not loaded when calling an API that requires a loaded function"},
    {cudaErrorInvalidResourceType, "one or more resources passed in are not valid resource types for the operation"},
    {cudaErrorInvalidResourceConfiguration, "one or more resources are insufficient or non-applicable for the operation"},
    {cudaErrorUnknown, "unknown error"},
};

const Text names[] = {
#define FERRY_ERROR(NAME) {NAME, #NAME},
#include "zz_errors.h"
#undef FERRY_ERROR
};

template <size_t n> const char *find(const Text (&all)[n], int code) {
    for (const Text &t : all)
        if (t.code == code)
            return t.text;
    return "unrecognized error code";
}

} // namespace

extern "C" {

const char *cudaGetErrorString(cudaError_t e) { return find(texts, e); }
const char *cudaGetErrorName(cudaError_t e) { return find(names, e); }

} // extern "C"
