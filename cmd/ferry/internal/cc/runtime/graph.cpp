// Graphs: captured from streams, or made of nodes as far as the driver has these.
#include "runtime.h"

#undef cuStreamGetCaptureInfo // the first form is used too

using namespace ferry;

namespace {

// launched turns the parameters of a kernel's node into those of the driver.
cudaError_t launched(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *out) {
    if (!p)
        return cudaErrorInvalidValue;
    *out = {};
    if (cudaError_t e = function(p->func, &out->func))
        return e;
    dim3 g = p->gridDim, b = p->blockDim;
    out->gridDimX = g.x, out->gridDimY = g.y, out->gridDimZ = g.z;
    out->blockDimX = b.x, out->blockDimY = b.y, out->blockDimZ = b.z;
    out->sharedMemBytes = p->sharedMemBytes, out->kernelParams = p->kernelParams, out->extra = p->extra;
    return cudaSuccess;
}

CUresult current(CUcontext *context) { return CU(cuCtxGetCurrent)(context); }

} // namespace

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

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphGetNodes)(graph, nodes, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphGetRootNodes)(graph, nodes, count); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    return FERRY_CALL.in([&] { return CU(cuGraphNodeGetType)(node, (CUgraphNodeType *)type); });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *p) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        CUDA_KERNEL_NODE_PARAMS params;
        cudaError_t e = launched(p, &params);
        return e ? e : code(CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params));
    });
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

// Nodes.
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    return FERRY_CALL.in([&] { return CU(cuGraphCreate)(graph, flags); });
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    return FERRY_CALL.in([&] { return CU(cuGraphClone)(clone, graph); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddEmptyNode)(node, graph, after, count); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaKernelNodeParams *p) {
    return FERRY_CALL.in([&]() -> cudaError_t {
        CUDA_KERNEL_NODE_PARAMS params;
        cudaError_t e = launched(p, &params);
        return e ? e : code(CU(cuGraphAddKernelNode_v2)(node, graph, after, count, &params));
    });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaHostNodeParams *p) {
    return FERRY_CALL.in([&] {
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        CUDA_HOST_NODE_PARAMS params = {p->fn, p->userData};
        return CU(cuGraphAddHostNode)(node, graph, after, count, &params);
    });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaMemsetParams *p) {
    return FERRY_CALL.in([&] {
        CUcontext context;
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        if (CUresult r = current(&context))
            return r;
        CUDA_MEMSET_NODE_PARAMS params = {device(p->dst), p->pitch, p->value, p->elementSize, p->width, p->height};
        return CU(cuGraphAddMemsetNode)(node, graph, after, count, &params, context);
    });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, void *to, const void *from, size_t bytes, enum cudaMemcpyKind) {
    return FERRY_CALL.in([&] {
        CUcontext context;
        if (CUresult r = current(&context))
            return r;
        CUDA_MEMCPY3D c = {};
        c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
        c.srcDevice = device(from), c.dstDevice = device(to);
        c.WidthInBytes = bytes, c.Height = c.Depth = 1;
        return CU(cuGraphAddMemcpyNode)(node, graph, after, count, &c, context);
    });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *before, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphNodeGetDependencies)(node, before, count); });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *after, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphNodeGetDependentNodes)(node, after, count); });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphGetEdges)(graph, from, to, count); });
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

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, cudaGraph_t child) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddChildGraphNode)(node, graph, after, count, child); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddEventRecordNode)(node, graph, after, count, event); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddEventWaitNode)(node, graph, after, count, event); });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddDependencies)(graph, from, to, count); });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuGraphRemoveDependencies)(graph, from, to, count); });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
    return FERRY_CALL.in([&] { return CU(cuGraphDestroyNode)(node); });
}

} // extern "C"
