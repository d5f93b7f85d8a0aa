// The nodes of graphs that programs make by hand.
#include "runtime.h"

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

// current returns the current context. There is one in all functions that take nodes.
CUcontext current() {
    CUcontext context = 0;
    CU(cuCtxGetCurrent)(&context);
    return context;
}

// withKernel calls f with the parameters of a kernel's node for the driver.
template <class F> cudaError_t withKernel(const struct cudaKernelNodeParams *p, F f) {
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t e = launched(p, &params);
    return e ? e : code(f(params));
}

// withFill and withHost do so for nodes that fill memory or call a function.
template <class F> CUresult withFill(const struct cudaMemsetParams *p, F f) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS params = {device(p->dst), p->pitch, p->value, p->elementSize, p->width, p->height};
    return f(params);
}

template <class F> CUresult withHost(const struct cudaHostNodeParams *p, F f) {
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_HOST_NODE_PARAMS params = {p->fn, p->userData};
    return f(params);
}

// A Copy is where a node copies. Each kind of node says so in its own way.
typedef CUDA_MEMCPY3D Copy;

cudaError_t toSymbol(const void *variable, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind, Copy *c) {
    void *at;
    cudaError_t e = part(variable, bytes, offset, kind, cudaMemcpyDeviceToHost, &at);
    return e ? e : row(at, from, bytes, kind, c);
}

cudaError_t fromSymbol(void *to, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind, Copy *c) {
    void *at;
    cudaError_t e = part(variable, bytes, offset, kind, cudaMemcpyHostToDevice, &at);
    return e ? e : row(to, at, bytes, kind, c);
}

} // namespace

extern "C" {

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphGetNodes)(graph, nodes, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return FERRY_CALL.in([&] { return CU(cuGraphGetRootNodes)(graph, nodes, count); });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    return FERRY_CALL.in([&] { return CU(cuGraphNodeGetType)(node, (CUgraphNodeType *)type); });
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

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddDependencies)(graph, from, to, count); });
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuGraphRemoveDependencies)(graph, from, to, count); });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
    return FERRY_CALL.in([&] { return CU(cuGraphDestroyNode)(node); });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t of, cudaGraph_t clone) {
    return FERRY_CALL.in([&] { return CU(cuGraphNodeFindInClone)(node, of, clone); });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddEmptyNode)(node, graph, after, count); });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, cudaGraph_t child) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddChildGraphNode)(node, graph, after, count, child); });
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *child) {
    return FERRY_CALL.in([&] { return CU(cuGraphChildGraphNodeGetGraph)(node, child); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddEventRecordNode)(node, graph, after, count, event); });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, cudaEvent_t event) {
    return FERRY_CALL.in([&] { return CU(cuGraphAddEventWaitNode)(node, graph, after, count, event); });
}

// Kernels.
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaKernelNodeParams *p) {
    return FERRY_CALL.in([&] {
        return withKernel(p, [&](auto &params) { return CU(cuGraphAddKernelNode_v2)(node, graph, after, count, &params); });
    });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *p) {
    return FERRY_CALL.in([&] {
        return withKernel(p, [&](auto &params) { return CU(cuGraphKernelNodeSetParams_v2)(node, &params); });
    });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *p) {
    return FERRY_CALL.in([&] {
        return withKernel(p, [&](auto &params) { return CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params); });
    });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *p) {
    return FERRY_CALL.in([&] {
        CUDA_KERNEL_NODE_PARAMS is = {};
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = CU(cuGraphKernelNodeGetParams_v2)(node, &is);
        *p = {(void *)kernelOf(is.func), dim3(is.gridDimX, is.gridDimY, is.gridDimZ), dim3(is.blockDimX, is.blockDimY, is.blockDimZ), is.sharedMemBytes, is.kernelParams, is.extra};
        return r;
    });
}

// Fills.
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaMemsetParams *p) {
    return FERRY_CALL.in([&] {
        return withFill(p, [&](auto &params) { return CU(cuGraphAddMemsetNode)(node, graph, after, count, &params, current()); });
    });
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *p) {
    return FERRY_CALL.in([&] {
        return withFill(p, [&](auto &params) { return CU(cuGraphMemsetNodeSetParams)(node, &params); });
    });
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemsetParams *p) {
    return FERRY_CALL.in([&] {
        return withFill(p, [&](auto &params) { return CU(cuGraphExecMemsetNodeSetParams)(exec, node, &params, current()); });
    });
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *p) {
    return FERRY_CALL.in([&] {
        CUDA_MEMSET_NODE_PARAMS is = {};
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = CU(cuGraphMemsetNodeGetParams)(node, &is);
        *p = {(void *)(size_t)is.dst, is.pitch, is.value, is.elementSize, is.width, is.height};
        return r;
    });
}

// Functions of the host.
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaHostNodeParams *p) {
    return FERRY_CALL.in([&] {
        return withHost(p, [&](auto &params) { return CU(cuGraphAddHostNode)(node, graph, after, count, &params); });
    });
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *p) {
    return FERRY_CALL.in([&] {
        return withHost(p, [&](auto &params) { return CU(cuGraphHostNodeSetParams)(node, &params); });
    });
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaHostNodeParams *p) {
    return FERRY_CALL.in([&] {
        return withHost(p, [&](auto &params) { return CU(cuGraphExecHostNodeSetParams)(exec, node, &params); });
    });
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *p) {
    return FERRY_CALL.in([&] {
        CUDA_HOST_NODE_PARAMS is = {};
        if (!p)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = CU(cuGraphHostNodeGetParams)(node, &is);
        *p = {is.fn, is.userData};
        return r;
    });
}

// Copies.
cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const struct cudaMemcpy3DParms *p) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = code(box(p, &c));
        return e ? e : code(CU(cuGraphAddMemcpyNode)(node, graph, after, count, &c, current()));
    });
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *p) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = code(box(p, &c));
        return e ? e : code(CU(cuGraphMemcpyNodeSetParams)(node, &c));
    });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemcpy3DParms *p) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = code(box(p, &c));
        return e ? e : code(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &c, current()));
    });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = row(to, from, bytes, kind, &c);
        return e ? e : code(CU(cuGraphAddMemcpyNode)(node, graph, after, count, &c, current()));
    });
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = row(to, from, bytes, kind, &c);
        return e ? e : code(CU(cuGraphMemcpyNodeSetParams)(node, &c));
    });
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = row(to, from, bytes, kind, &c);
        return e ? e : code(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &c, current()));
    });
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const void *variable, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = toSymbol(variable, from, bytes, offset, kind, &c);
        return e ? e : code(CU(cuGraphAddMemcpyNode)(node, graph, after, count, &c, current()));
    });
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *variable, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = toSymbol(variable, from, bytes, offset, kind, &c);
        return e ? e : code(CU(cuGraphMemcpyNodeSetParams)(node, &c));
    });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, const void *variable, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = toSymbol(variable, from, bytes, offset, kind, &c);
        return e ? e : code(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &c, current()));
    });
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, void *to, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = fromSymbol(to, variable, bytes, offset, kind, &c);
        return e ? e : code(CU(cuGraphAddMemcpyNode)(node, graph, after, count, &c, current()));
    });
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = fromSymbol(to, variable, bytes, offset, kind, &c);
        return e ? e : code(CU(cuGraphMemcpyNodeSetParams)(node, &c));
    });
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void *to, const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return FERRY_CALL.in([&] {
        Copy c;
        cudaError_t e = fromSymbol(to, variable, bytes, offset, kind, &c);
        return e ? e : code(CU(cuGraphExecMemcpyNodeSetParams)(exec, node, &c, current()));
    });
}

} // extern "C"
