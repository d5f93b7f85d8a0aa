// Streams and events.
#include "runtime.h"

using namespace ferry;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t *s) {
    return FERRY_CALL.in([&] { return CU(cuStreamCreate)(s, CU_STREAM_DEFAULT); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuStreamCreate)(s, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority) {
    return FERRY_CALL.in([&] { return CU(cuStreamCreateWithPriority)(s, flags, priority); });
}

// The handles of the default streams cannot be destroyed.
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    return FERRY_CALL.in([&] { return (size_t)s <= 2 ? CUDA_ERROR_INVALID_HANDLE : CU(cuStreamDestroy_v2)(s); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuStreamSynchronize)(stream(s)); });
}

cudaError_t cudaStreamQuery(cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuStreamQuery)(stream(s)); });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuStreamWaitEvent)(stream(s), event, flags); });
}

cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
    return FERRY_CALL.in([&] { return CU(cuStreamGetPriority)(stream(s), priority); });
}

cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned *flags) {
    return FERRY_CALL.in([&] { return CU(cuStreamGetFlags)(stream(s), flags); });
}

cudaError_t cudaStreamGetId(cudaStream_t s, unsigned long long *id) {
    return FERRY_CALL.in([&] { return CU(cuStreamGetId)(stream(s), id); });
}

cudaError_t cudaStreamGetDevice(cudaStream_t s, int *device) {
    return FERRY_CALL.in([&] { return CU(cuStreamGetDevice)(stream(s), device); });
}

// The driver's callback has the same form: its codes are those of the runtime.
cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t callback, void *data, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuStreamAddCallback)(stream(s), (CUstreamCallback)(void *)callback, data, flags); });
}

// Attributes have the numbers and the layout of the driver's.
cudaError_t cudaStreamGetAttribute(cudaStream_t s, cudaLaunchAttributeID name, cudaLaunchAttributeValue *value) {
    return FERRY_CALL.in([&] { return CU(cuStreamGetAttribute)(stream(s), (CUlaunchAttributeID)name, (CUlaunchAttributeValue *)value); });
}

cudaError_t cudaStreamSetAttribute(cudaStream_t s, cudaLaunchAttributeID name, const cudaLaunchAttributeValue *value) {
    return FERRY_CALL.in([&] { return CU(cuStreamSetAttribute)(stream(s), (CUlaunchAttributeID)name, (const CUlaunchAttributeValue *)value); });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) {
    return FERRY_CALL.in([&] { return CU(cuStreamCopyAttributes)(stream(to), stream(from)); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    return FERRY_CALL.in([&] { return CU(cuCtxGetStreamPriorityRange)(least, greatest); });
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return FERRY_CALL.in([&] { return CU(cuEventCreate)(event, CU_EVENT_DEFAULT); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuEventCreate)(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuEventDestroy_v2)(event); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuEventRecord)(event, stream(s)); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t s, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuEventRecordWithFlags)(event, stream(s), flags); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuEventSynchronize)(event); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuEventQuery)(event); });
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    return FERRY_CALL.in([&] { return CU(cuEventElapsedTime)(ms, from, to); });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuIpcGetEventHandle)((CUipcEventHandle *)handle, event); });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    return FERRY_CALL.in([&] { return CU(cuIpcOpenEventHandle)(event, __builtin_bit_cast(CUipcEventHandle, handle)); });
}

} // extern "C"
