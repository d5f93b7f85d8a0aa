// Graphs: captured from streams, or made of nodes (nodes.cpp).
#include "runtime.h"

#undef cuStreamGetCaptureInfo // the first form is used too

using namespace ferry;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode) {
    return FERRY_CALL.in([&] { return CU(cuStreamBeginCapture_v2)(stream(s), (CUstreamCaptureMode)mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    return FERRY_CALL.in([&] { return CU(cuStreamEndCapture)(stream(s), graph); });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status) {
    return FERRY_CALL.in([&] { return CU(cuStreamIsCapturing)(stream(s), (CUstreamCaptureStatus *)status); });
}

// Without a graph or its nodes an old form is enough, which more drivers have.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count) {
    return FERRY_CALL.in([&] {
        cuuint64_t number = 0;
        if (graph || nodes || count)
            return CU(cuStreamGetCaptureInfo_v2)(stream(s), (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, nodes, count);
        CUresult r = CU(cuStreamGetCaptureInfo)(stream(s), (CUstreamCaptureStatus *)status, &number);
        if (id)
            *id = number;
        return r;
    });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    return FERRY_CALL.begun([&] { return CU(cuThreadExchangeStreamCaptureMode)((CUstreamCaptureMode *)mode); });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return FERRY_CALL.in([&] { return CU(cuGraphInstantiateWithFlags)(exec, graph, flags); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return FERRY_CALL.in([&] { return CU(cuGraphInstantiateWithFlags)(exec, graph, flags); });
}

// The stream of the upload is the only field that the thread's default stream changes.
cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *exec, cudaGraph_t graph, cudaGraphInstantiateParams *p) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {p->flags, stream(p->uploadStream)};
        CUresult r = CU(cuGraphInstantiateWithParams)(exec, graph, &params);
        p->errNode_out = params.hErrNode_out, p->result_out = (cudaGraphInstantiateResult)params.result_out;
        return r;
    });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuGraphLaunch)(exec, stream(s)); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t s) {
    return FERRY_CALL.in([&] { return CU(cuGraphUpload)(exec, stream(s)); });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    return FERRY_CALL.in([&] { return CU(cuGraphExecDestroy)(exec); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    return FERRY_CALL.in([&] { return CU(cuGraphDestroy)(graph); });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
    return FERRY_CALL.in([&] { return CU(cuGraphExecUpdate_v2)(exec, graph, (CUgraphExecUpdateResultInfo *)info); });
}

cudaError_t cudaDeviceGraphMemTrim(int device) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGraphMemTrim)(device); });
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceGetGraphMemAttribute)(device, (CUgraphMem_attribute)attribute, value); });
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value) {
    return FERRY_CALL.begun([&] { return CU(cuDeviceSetGraphMemAttribute)(device, (CUgraphMem_attribute)attribute, value); });
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuGraphCreate)(graph, flags); });
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    return FERRY_CALL.in([&] { return CU(cuGraphClone)(clone, graph); });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuGraphDebugDotPrint)(graph, path, flags); });
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *p, cudaHostFn_t destroy, unsigned count, unsigned flags) {
    return FERRY_CALL.begun([&] { return CU(cuUserObjectCreate)(object, p, destroy, count, flags); });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
    return FERRY_CALL.begun([&] { return CU(cuUserObjectRetain)(object, count); });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
    return FERRY_CALL.begun([&] { return CU(cuUserObjectRelease)(object, count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuGraphRetainUserObject)(graph, object, count, flags); });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
    return FERRY_CALL.in([&] { return CU(cuGraphReleaseUserObject)(graph, object, count); });
}

} // extern "C"
