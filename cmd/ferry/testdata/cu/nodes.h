// Graphs that are made node by node, and copies in one call. It is a part of rules.cu.

__global__ void addIndex(int *p, int factor) { p[threadIdx.x] += factor * (int)threadIdx.x; }
__constant__ int weights[4];
__global__ void weigh(int *p) { p[threadIdx.x] *= weights[threadIdx.x]; }

static void CUDART_CB count(void *p) { ++*(int *)p; }

// A Chain is a graph: fill, a kernel, a copy of a variable, another kernel, a copy to the host, a function.
struct Chain {
    enum { fill, add, symbol, kernel, copy, function, nodes };
    cudaGraph_t graph;
    cudaGraphNode_t node[nodes];
    int *p, *back, factors[4] = {1, 2, 3, 4}, calls = 0, factor = 1;
    void *addArgs[2] = {&p, &factor}, *args[1] = {&p};
    cudaKernelNodeParams adds = {(void *)addIndex, 1, 4, 0, addArgs, nullptr};

    Chain() {
        cudaMemsetParams fills = {nullptr, 0, 100, 4, 4, 1};
        cudaKernelNodeParams weighs = {(void *)weigh, 1, 4, 0, args, nullptr};
        cudaHostNodeParams counts = {count, &calls};
        WANT(!cudaMalloc(&p, 16) && !cudaHostAlloc(&back, 16, 0) && !cudaGraphCreate(&graph, 0));
        fills.dst = p;
        WANT(!cudaGraphAddMemsetNode(&node[fill], graph, nullptr, 0, &fills));
        WANT(!cudaGraphAddKernelNode(&node[add], graph, &node[fill], 1, &adds));
        WANT(!cudaGraphAddMemcpyNodeToSymbol(&node[symbol], graph, nullptr, 0, weights, factors, 16, 0, cudaMemcpyHostToDevice));
        WANT(!cudaGraphAddKernelNode(&node[kernel], graph, &node[add], 1, &weighs));
        WANT(!cudaGraphAddDependencies(graph, &node[symbol], &node[kernel], 1));
        WANT(!cudaGraphAddMemcpyNode1D(&node[copy], graph, &node[kernel], 1, back, p, 16, cudaMemcpyDeviceToHost));
        WANT(!cudaGraphAddHostNode(&node[function], graph, &node[copy], 1, &counts));
    }
    // gives runs the graph, and reports whether it gives values that grow from 100 by a step, weighed.
    bool gives(cudaGraph_t g, int step) {
        cudaGraphExec_t exec;
        std::memset(back, 0, 16);
        bool good = !cudaGraphInstantiate(&exec, g, 0) && run(exec);
        WANT(!cudaGraphExecDestroy(exec));
        return good && has(step);
    }
    bool run(cudaGraphExec_t exec) { return !cudaGraphLaunch(exec, 0) && !cudaStreamSynchronize(0); }
    bool has(int step) {
        for (int i = 0; i < 4; i++)
            if (back[i] != (100 + step * i) * factors[i])
                return false;
        return true;
    }
};

static void nodes() {
    Chain c;
    cudaGraphNode_t some[8], to[8];
    size_t count = 8;
    cudaGraphNodeType type;
    WANT(c.gives(c.graph, 1) && c.calls == 1 && c.gives(c.graph, 1) && c.calls == 2);
    WANT(!cudaGraphGetNodes(c.graph, nullptr, &count) && count == Chain::nodes);
    WANT(!cudaGraphGetRootNodes(c.graph, some, &(count = 8)) && count == 2);
    WANT(!cudaGraphGetEdges(c.graph, some, to, &(count = 8)) && count == 5);
    WANT(!cudaGraphNodeGetDependencies(c.node[Chain::kernel], some, &(count = 8)) && count == 2);
    WANT(!cudaGraphNodeGetDependentNodes(c.node[Chain::fill], some, &(count = 8)) && count == 1 && some[0] == c.node[Chain::add]);
    WANT(!cudaGraphNodeGetType(c.node[Chain::copy], &type) && type == cudaGraphNodeTypeMemcpy);

    // Parameters of nodes, in the graph and in what was made of it.
    cudaKernelNodeParams is = {};
    cudaMemsetParams fills = {};
    cudaHostNodeParams counts = {};
    WANT(!cudaGraphKernelNodeGetParams(c.node[Chain::add], &is) && is.func == (void *)addIndex && is.blockDim.x == 4 && **(int ***)is.kernelParams == c.p);
    WANT(!cudaGraphMemsetNodeGetParams(c.node[Chain::fill], &fills) && fills.dst == c.p && fills.value == 100 && fills.width == 4);
    WANT(!cudaGraphHostNodeGetParams(c.node[Chain::function], &counts) && counts.userData == &c.calls);
    c.factor = 5;
    WANT(c.gives(c.graph, 1) && !cudaGraphKernelNodeSetParams(c.node[Chain::add], &c.adds) && c.gives(c.graph, 5));
    cudaGraphExec_t exec;
    WANT(!cudaGraphInstantiate(&exec, c.graph, 0));
    c.factor = 7;
    WANT(!cudaGraphExecKernelNodeSetParams(exec, c.node[Chain::add], &c.adds) && c.run(exec) && c.has(7) && !cudaGraphExecDestroy(exec));
    WANT(c.gives(c.graph, 5));
    int other[4] = {2, 2, 2, 2};
    WANT(!cudaGraphMemcpyNodeSetParams1D(c.node[Chain::copy], c.back, c.p, 8, cudaMemcpyDeviceToHost) && !c.gives(c.graph, 5) && c.back[1] == 210 && !c.back[2]);
    WANT(!cudaGraphMemcpyNodeSetParams1D(c.node[Chain::copy], c.back, c.p, 16, cudaMemcpyDeviceToHost));
    WANT(!cudaGraphMemcpyNodeSetParamsToSymbol(c.node[Chain::symbol], weights, other, 16, 0, cudaMemcpyHostToDevice) && !c.gives(c.graph, 5) && c.back[3] == 230);
    WANT(!cudaGraphMemcpyNodeSetParamsToSymbol(c.node[Chain::symbol], weights, c.factors, 16, 0, cudaMemcpyHostToDevice));
    WANT(cudaGraphMemcpyNodeSetParamsToSymbol(c.node[Chain::symbol], weights, other, 16, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);

    // A graph in a graph, a copy of a graph, and a copy of a variable to the host.
    cudaGraph_t clone, outer, child;
    cudaGraphNode_t in, behind;
    int read[4] = {};
    WANT(!cudaGraphClone(&clone, c.graph) && !cudaGraphNodeFindInClone(&in, c.node[Chain::add], clone) && in != c.node[Chain::add]);
    WANT(!cudaGraphKernelNodeSetParams(in, &c.adds) && c.gives(clone, 7) && c.gives(c.graph, 5));
    WANT(!cudaGraphCreate(&outer, 0) && !cudaGraphAddChildGraphNode(&in, outer, nullptr, 0, clone) && !cudaGraphChildGraphNodeGetGraph(in, &child) && child);
    WANT(!cudaGraphAddMemcpyNodeFromSymbol(&behind, outer, &in, 1, read, weights, 16, 0, cudaMemcpyDeviceToHost));
    WANT(c.gives(outer, 7) && read[3] == 4 && !cudaGraphDestroy(clone));
    WANT(!cudaGraphDestroyNode(behind) && !cudaGraphGetNodes(outer, nullptr, &(count = 0)) && count == 1 && !cudaGraphDestroy(outer));
    cudaGraphInstantiateParams how = {};
    WANT(!cudaGraphInstantiateWithParams(&exec, c.graph, &how) && how.result_out == cudaGraphInstantiateSuccess && !cudaGraphExecDestroy(exec));
    WANT(!cudaGraphRemoveDependencies(c.graph, &c.node[Chain::symbol], &c.node[Chain::kernel], 1) && !cudaGraphGetEdges(c.graph, nullptr, nullptr, &(count = 0)) && count == 4);
    WANT(!cudaGraphDestroy(c.graph) && !cudaFree(c.p) && !cudaFreeHost(c.back));
    cudaGetLastError();
}

// A node that copies a box: the middle of three rows.
static void boxes() {
    char rows[3][10] = {"abcdefghi", "ABCDEFGHI", "123456789"}, got[3][10] = {}, *p;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t in, out;
    size_t pitch;
    cudaMemcpy3DParms c = {}, back = {};
    WANT(!cudaMallocPitch(&p, &pitch, 10, 3) && !cudaMemset2D(p, pitch, '.', 10, 3) && !cudaGraphCreate(&graph, 0));
    c.srcPtr = make_cudaPitchedPtr(rows, 10, 10, 3), c.dstPtr = make_cudaPitchedPtr(p, pitch, 10, 3);
    c.srcPos = c.dstPos = make_cudaPos(2, 1, 0), c.extent = make_cudaExtent(4, 1, 1), c.kind = cudaMemcpyHostToDevice;
    back.srcPtr = c.dstPtr, back.dstPtr = make_cudaPitchedPtr(got, 10, 10, 3), back.extent = make_cudaExtent(9, 3, 1), back.kind = cudaMemcpyDeviceToHost;
    WANT(!cudaGraphAddMemcpyNode(&in, graph, nullptr, 0, &c) && !cudaGraphAddMemcpyNode(&out, graph, &in, 1, &back));
    WANT(!cudaGraphInstantiate(&exec, graph, 0) && !cudaGraphLaunch(exec, 0) && !cudaDeviceSynchronize());
    WANT(!std::strcmp(got[0], ".........") && !std::strcmp(got[1], "..CDEF...") && !std::strcmp(got[2], "........."));
    WANT(!cudaGraphExecDestroy(exec) && !cudaGraphDestroy(graph) && !cudaFree(p));
}

// Several copies in one call.
static void batches() {
    int *p, *q, from[4] = {1, 2, 3, 4}, got[2] = {};
    cudaStream_t s;
    WANT(!cudaMalloc(&p, 16) && !cudaMalloc(&q, 16) && !cudaMemset(q, 0, 16) && !cudaStreamCreate(&s));
    cudaMemcpyAttributes a = {};
    a.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0, sizes[] = {8, 8}, back[] = {4, 4};
    void *to[] = {p, q + 2}, *of[] = {from + 2, from}, *here[] = {&got[0], &got[1]}, *there[] = {p + 1, q + 3};
    WANT(!cudaMemcpyBatchAsync(to, of, sizes, 2, &a, &first, 1, s) && !cudaMemcpyBatchAsync(here, there, back, 2, &a, &first, 1, s));
    WANT(!cudaStreamSynchronize(s) && got[0] == 4 && got[1] == 2);
    WANT(!cudaStreamDestroy(s) && !cudaFree(p) && !cudaFree(q));
}
