// Graphs that are built node by node. Each result is that of an H200 with driver 580.159.04.
#include "driver.h"
#include <string.h>

typedef struct CUgraphNode_st *CUgraphNode;
struct kernel_node {
	CUfunction fn;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
	CUkernel kernel;
	CUcontext ctx;
};
struct memset_node { CUdeviceptr dst; size_t pitch; unsigned value, element; size_t width, height; };
struct copy_end { size_t x, y, z, lod; int type; const void *host; CUdeviceptr device; void *array, *reserved; size_t pitch, height; };
struct memcpy_node { struct copy_end src, dst; size_t width, height, depth; };
struct host_node { CUhostFn fn; void *data; };
struct update_info { int result; CUgraphNode node, from; };

CUresult cuGraphCreate(CUgraph *, unsigned);
CUresult cuGraphClone(CUgraph *, CUgraph);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const struct kernel_node *);
CUresult cuGraphAddMemsetNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const struct memset_node *, CUcontext);
CUresult cuGraphAddMemcpyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const struct memcpy_node *, CUcontext);
CUresult cuGraphAddHostNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const struct host_node *);
CUresult cuGraphAddEmptyNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t);
CUresult cuGraphAddEventRecordNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent);
CUresult cuGraphAddEventWaitNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent);
CUresult cuGraphAddChildGraphNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph);
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode, CUgraph *);
CUresult cuGraphAddDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult cuGraphAddDependencies_v2(CUgraph, const CUgraphNode *, const CUgraphNode *, const void *, size_t);
CUresult cuGraphRemoveDependencies(CUgraph, const CUgraphNode *, const CUgraphNode *, size_t);
CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphGetRootNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphGetEdges(CUgraph, CUgraphNode *, CUgraphNode *, size_t *);
CUresult cuGraphNodeGetDependencies(CUgraphNode, CUgraphNode *, size_t *);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode, CUgraphNode *, size_t *);
CUresult cuGraphNodeGetType(CUgraphNode, int *);
CUresult cuGraphNodeFindInClone(CUgraphNode *, CUgraphNode, CUgraph);
CUresult cuGraphDestroyNode(CUgraphNode);
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode, struct kernel_node *);
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode, const struct kernel_node *);
CUresult cuGraphMemsetNodeGetParams(CUgraphNode, struct memset_node *);
CUresult cuGraphMemsetNodeSetParams(CUgraphNode, const struct memset_node *);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode, const struct kernel_node *);
CUresult cuGraphExecUpdate_v2(CUgraphExec, CUgraph, struct update_info *);
CUresult cuEventQuery(CUevent);

static const char store[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry store(.param .u64 to, .param .u32 value) {\n.reg .b64 %d<2>; .reg .b32 %r<2>;\n"
	"ld.param.u64 %d1, [to]; ld.param.u32 %r1, [value]; st.global.u32 [%d1], %r1; ret; }\n"
	".visible .entry more(.param .u64 to, .param .u32 value) {\n.reg .b64 %d<2>; .reg .b32 %r<2>;\n"
	"ld.param.u64 %d1, [to]; ld.param.u32 %r1, [value]; add.u32 %r1, %r1, 1000; st.global.u32 [%d1], %r1; ret; }\n";

static CUcontext ctx;
static CUfunction kernel, more;
static CUstream stream;
static CUdeviceptr p;
static unsigned got[32];

static void count(void *n) { ++*(int *)n; }

// want reads the memory after the stream.
static void want(int i, unsigned value) {
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(got, p, sizeof got));
	if (got[i] != value) {
		fprintf(stderr, "word %d is %u, want %u\n", i, got[i], value);
		exit(1);
	}
}

static void edges(CUgraph g, size_t nodes, size_t edges, size_t roots) {
	size_t a = 99, b = 99, c = 99;
	OK(cuGraphGetNodes(g, NULL, &a));
	OK(cuGraphGetEdges(g, NULL, NULL, &b));
	OK(cuGraphGetRootNodes(g, NULL, &c));
	THAT(a == nodes && b == edges && c == roots);
}

static struct kernel_node launch(CUfunction fn, void **params) {
	struct kernel_node k = {fn, {1, 1, 1}, {1, 1, 1}, 0, params, NULL, NULL, NULL};
	return k;
}

enum { fill, run, copy, call, nothing };

// build makes a chain: a fill, a kernel, a copy, a host function, and an empty node.
static CUgraph build(unsigned value, int *calls, CUgraphNode n[5]) {
	CUgraph g;
	void *params[] = {&p, &value};
	struct kernel_node k = launch(kernel, params);
	struct memset_node m = {p, 0, 3, 4, 8, 1};
	struct memcpy_node c = {{.type = 2, .device = p}, {.type = 2, .device = p + 64}, 32, 1, 1};
	struct host_node h = {count, calls};
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddMemsetNode(&n[fill], g, NULL, 0, &m, ctx));
	OK(cuGraphAddKernelNode_v2(&n[run], g, &n[fill], 1, &k));
	value = 99; // the node has copied it
	OK(cuGraphAddMemcpyNode(&n[copy], g, &n[run], 1, &c, ctx));
	OK(cuGraphAddHostNode(&n[call], g, &n[copy], 1, &h));
	OK(cuGraphAddEmptyNode(&n[nothing], g, &n[call], 1));
	return g;
}

static void structure(CUgraph g, CUgraphNode n[5]) {
	CUgraph second;
	CUgraphNode other;
	OK(cuGraphCreate(&second, 0));
	OK(cuGraphAddEmptyNode(&other, second, NULL, 0));
	CUgraphNode list[8], from[8], to[8], x = NULL, twice[] = {n[0], n[0]};
	static const int kinds[] = {2, 0, 1, 3, 5};
	edges(g, 5, 4, 1);
	size_t k = 8;
	memset(list, 0xff, sizeof list);
	OK(cuGraphGetNodes(g, list, &k));
	THAT(k == 5 && !memcmp(list, n, 5 * sizeof *n) && list[5] == NULL);
	k = 2;
	OK(cuGraphGetNodes(g, list, &k));
	THAT(k == 2);
	k = 0;
	WANT(1, cuGraphGetNodes(g, list, &k));
	k = 8;
	OK(cuGraphGetEdges(g, from, to, &k));
	THAT(k == 4 && from[0] == n[0] && to[0] == n[1] && from[4] == NULL);
	WANT(1, cuGraphGetEdges(g, from, NULL, &k));
	k = 8;
	OK(cuGraphNodeGetDependencies(n[run], list, &k));
	THAT(k == 1 && list[0] == n[fill]);
	k = 8;
	OK(cuGraphNodeGetDependentNodes(n[run], list, &k));
	THAT(k == 1 && list[0] == n[copy]);
	for (int i = 0; i < 5; i++) {
		int kind = 9;
		OK(cuGraphNodeGetType(n[i], &kind));
		THAT(kind == kinds[i]);
	}
	OK(cuGraphAddDependencies(g, &n[fill], &n[copy], 1));
	WANT(1, cuGraphAddDependencies(g, &n[fill], &n[copy], 1)); // there already
	WANT(1, cuGraphAddDependencies(g, &n[copy], &n[copy], 1));
	OK(cuGraphAddDependencies(g, &n[copy], &n[fill], 1)); // a cycle
	edges(g, 5, 6, 0);
	CUgraphExec exec;
	WANT(1, cuGraphInstantiateWithFlags(&exec, g, 0));
	OK(cuGraphRemoveDependencies(g, &n[copy], &n[fill], 1));
	WANT(1, cuGraphRemoveDependencies(g, &n[copy], &n[fill], 1));
	OK(cuGraphRemoveDependencies(g, &n[fill], &n[copy], 1));
	edges(g, 5, 4, 1);
	CUgraphNode ends[] = {n[fill], n[copy]}, loop[] = {n[call], n[copy]}, foreign[] = {n[call], other};
	WANT(1, cuGraphAddDependencies(g, ends, loop, 2)); // a wrong node in the list: none is added
	WANT(1, cuGraphAddDependencies(g, ends, foreign, 2));
	edges(g, 5, 4, 1);
	CUgraphNode same[] = {n[fill], n[fill]}, again[] = {n[call], n[call]}, missing[] = {n[call], n[nothing]};
	WANT(1, cuGraphAddDependencies(g, same, again, 2)); // an edge that is there: those before it are added
	edges(g, 5, 5, 1);
	WANT(1, cuGraphRemoveDependencies(g, same, missing, 2));
	edges(g, 5, 4, 1);
	WANT(1, cuGraphAddDependencies(g, NULL, NULL, 1));
	OK(cuGraphAddDependencies(g, NULL, NULL, 0));
	unsigned char data[8] = {0, 0, 9};
	WANT(1, cuGraphAddDependencies_v2(g, &n[fill], &n[call], data, 1));
	WANT(1, cuGraphAddEmptyNode(&x, g, twice, 2));
	WANT(1, cuGraphAddEmptyNode(NULL, g, NULL, 0));
	WANT(1, cuGraphAddEmptyNode(&x, g, NULL, 1));
	WANT(1, cuGraphAddEmptyNode(&x, g, &x, 1));
	WANT(1, cuGraphNodeGetType(NULL, (int *)data));
	WANT(1, cuGraphDestroyNode(NULL));
	OK(cuGraphDestroy(second));
}

static void refused(CUgraphNode kernel_of_another) {
	CUgraph g;
	CUgraphNode x;
	void *params[] = {&p, &p};
	struct kernel_node k = launch(kernel, params);
	struct memset_node m = {p, 0, 3, 3, 8, 1};
	struct memcpy_node c = {{.type = 2, .device = p}, {.type = 2, .device = p + 64}, 32, 0, 0};
	struct host_node h = {NULL, NULL};
	WANT(1, cuGraphCreate(&g, 1));
	WANT(1, cuGraphCreate(NULL, 0));
	OK(cuGraphCreate(&g, 0));
	WANT(1, cuGraphAddEmptyNode(&x, g, &kernel_of_another, 1));
	k.grid[0] = 0;
	WANT(1, cuGraphAddKernelNode_v2(&x, g, NULL, 0, &k));
	k.grid[0] = 1, k.block[0] = 4096;
	WANT(1, cuGraphAddKernelNode_v2(&x, g, NULL, 0, &k));
	k = launch(NULL, params);
	WANT(400, cuGraphAddKernelNode_v2(&x, g, NULL, 0, &k));
	k = launch(kernel, NULL);
	WANT(1, cuGraphAddKernelNode_v2(&x, g, NULL, 0, &k));
	WANT(1, cuGraphAddMemsetNode(&x, g, NULL, 0, &m, ctx));
	m.element = 4, m.height = 0;
	WANT(1, cuGraphAddMemsetNode(&x, g, NULL, 0, &m, ctx));
	m.height = 1, m.width = 0;
	WANT(1, cuGraphAddMemsetNode(&x, g, NULL, 0, &m, ctx));
	m.width = 8, m.dst = 0x10;
	WANT(1, cuGraphAddMemsetNode(&x, g, NULL, 0, &m, ctx));
	m.dst = p, m.width = 1 << 20;
	WANT(1, cuGraphAddMemsetNode(&x, g, NULL, 0, &m, ctx));
	WANT(1, cuGraphAddMemcpyNode(&x, g, NULL, 0, &c, ctx));
	c.height = c.depth = 1, c.src.device = 0x10;
	WANT(1, cuGraphAddMemcpyNode(&x, g, NULL, 0, &c, ctx));
	WANT(1, cuGraphAddHostNode(&x, g, NULL, 0, &h));
	WANT(1, cuGraphAddEventRecordNode(&x, g, NULL, 0, NULL));
	WANT(1, cuGraphAddChildGraphNode(&x, g, NULL, 0, NULL));
	edges(g, 0, 0, 0);
	OK(cuGraphDestroy(g));
	WANT(1, cuGraphAddEmptyNode(&x, g, NULL, 0));
}

// parameters changes a kernel in the graph and in the executable graph.
static void parameters(CUgraph g, CUgraphNode n[5], int *calls) {
	CUgraphExec exec;
	struct kernel_node k;
	OK(cuGraphInstantiateWithFlags(&exec, g, 0));
	*calls = 0;
	OK(cuGraphLaunch(exec, stream));
	want(0, 11);
	THAT(got[1] == 3 && got[16] == 11 && *calls == 1);
	OK(cuGraphKernelNodeGetParams_v2(n[run], &k));
	THAT(k.fn == kernel && k.grid[0] == 1 && k.block[2] == 1 && !k.extra && !k.kernel && k.ctx == ctx);
	THAT(*(CUdeviceptr *)k.params[0] == p && *(unsigned *)k.params[1] == 11);
	WANT(1, cuGraphKernelNodeGetParams_v2(n[fill], &k));
	unsigned value = 22;
	void *params[] = {&p, &value};
	k = launch(kernel, params);
	OK(cuGraphKernelNodeSetParams_v2(n[run], &k));
	OK(cuGraphLaunch(exec, stream));
	want(0, 11); // the executable graph is as it was
	OK(cuGraphExecKernelNodeSetParams_v2(exec, n[run], &k));
	OK(cuGraphLaunch(exec, stream));
	want(0, 22);
	k = launch(more, params);
	OK(cuGraphExecKernelNodeSetParams_v2(exec, n[run], &k));
	OK(cuGraphLaunch(exec, stream));
	want(0, 1022);
	struct memset_node m;
	OK(cuGraphMemsetNodeGetParams(n[fill], &m));
	THAT(m.dst == p && m.value == 3 && m.element == 4 && m.width == 8 && m.height == 1);
	m.pitch = 64, m.width = 2, m.height = 2, m.value = 5; // two rows, before the copy to the second
	OK(cuGraphMemsetNodeSetParams(n[fill], &m));
	CUgraphExec other;
	OK(cuGraphInstantiateWithFlags(&other, g, 0));
	OK(cuMemsetD32_v2(p, 0, 32));
	OK(cuCtxSynchronize());
	OK(cuGraphLaunch(other, stream));
	want(0, 22);
	THAT(got[1] == 5 && got[2] == 0 && got[16] == 22 && got[17] == 5);
	k = launch(kernel, params), value = 7;
	OK(cuGraphExecKernelNodeSetParams_v2(other, n[run], &k));
	OK(cuGraphLaunch(other, stream));
	want(0, 7);
	OK(cuGraphExecDestroy(other));
	OK(cuGraphExecDestroy(exec));
}

// update gives an executable graph the parameters of others.
static void update(void) {
	CUgraphNode a[5], b[5], x, before = NULL;
	int calls = 0;
	CUgraph first = build(44, &calls, a), same = build(33, &calls, b), fewer, other;
	CUgraphExec exec;
	struct update_info info;
	OK(cuGraphInstantiateWithFlags(&exec, first, 0));
	OK(cuGraphExecUpdate_v2(exec, same, &info));
	THAT(info.result == 0);
	OK(cuGraphLaunch(exec, stream));
	want(0, 33);
	OK(cuGraphCreate(&fewer, 0));
	OK(cuGraphAddEmptyNode(&x, fewer, NULL, 0));
	WANT(910, cuGraphExecUpdate_v2(exec, fewer, &info)); // CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
	THAT(info.result == 2 && !info.node && !info.from);
	OK(cuGraphCreate(&other, 0));
	for (int i = 0; i < 5; i++) {
		OK(cuGraphAddEmptyNode(&x, other, &before, before ? 1 : 0));
		before = x;
	}
	WANT(910, cuGraphExecUpdate_v2(exec, other, &info));
	THAT(info.result == 3 && info.node);
	OK(cuGraphDestroyNode(a[run]));
	edges(first, 4, 2, 2);
	OK(cuGraphDestroy(first));
	OK(cuGraphLaunch(exec, stream)); // lives on
	want(0, 33);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(same));
}

// nested has a graph in a graph, and events.
static void nested(void) {
	CUgraphNode n[5], child, record, wait, x;
	int calls = 0;
	CUgraph g = build(66, &calls, n), clone, outer, in = NULL;
	CUevent event;
	CUgraphExec exec;
	OK(cuEventCreate(&event, 0));
	OK(cuGraphClone(&clone, g));
	edges(clone, 5, 4, 1);
	OK(cuGraphNodeFindInClone(&x, n[run], clone));
	THAT(x && x != n[run]);
	WANT(1, cuGraphNodeFindInClone(&x, n[run], g));
	OK(cuGraphCreate(&outer, 0));
	OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, clone));
	OK(cuGraphAddEmptyNode(&x, clone, NULL, 0));
	OK(cuGraphChildGraphNodeGetGraph(child, &in));
	THAT(in != clone);
	edges(in, 5, 4, 1); // a copy, without the last node
	WANT(1, cuGraphDestroy(in)); // its node owns it
	WANT(801, cuGraphInstantiateWithFlags(&exec, in, 0));
	edges(in, 5, 4, 1);
	OK(cuGraphAddEventRecordNode(&record, outer, &child, 1, event));
	OK(cuGraphAddEventWaitNode(&wait, outer, &record, 1, event));
	OK(cuGraphInstantiateWithFlags(&exec, outer, 0));
	OK(cuGraphDestroy(outer));
	OK(cuMemsetD32_v2(p, 0, 32));
	OK(cuCtxSynchronize());
	OK(cuGraphLaunch(exec, stream));
	want(0, 66);
	THAT(got[16] == 66 && calls == 1);
	OK(cuEventQuery(event));
	OK(cuGraphExecDestroy(exec));
}

// contexts has nodes of events that are made in one context, in a graph that is instantiated in another.
static void contexts(void) {
	CUgraph g;
	CUgraphNode record, wait;
	CUgraphExec exec;
	CUevent event;
	CUcontext other;
	OK(cuGraphCreate(&g, 0));
	OK(cuEventCreate(&event, 0));
	OK(cuGraphAddEventRecordNode(&record, g, NULL, 0, event));
	OK(cuGraphAddEventWaitNode(&wait, g, &record, 1, event));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuGraphAddEventRecordNode(&record, g, &wait, 1, event)); // the event is not of the current context
	OK(cuGraphInstantiateWithFlags(&exec, g, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuCtxPopCurrent_v2(&other));
	OK(cuStreamSynchronize(stream));
	OK(cuEventQuery(event));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
	OK(cuEventDestroy_v2(event));
	OK(cuCtxDestroy_v2(other));
}

// wide has nodes that nothing orders, and one behind all.
static void wide(void) {
	enum { n = 16 };
	CUgraph g;
	CUgraphNode nodes[n], last;
	CUgraphExec exec;
	int calls = 0;
	struct host_node h = {count, &calls};
	OK(cuGraphCreate(&g, 0));
	for (unsigned i = 0; i < n; i++) {
		CUdeviceptr at = p + 4 * i;
		unsigned value = 100 + i;
		void *params[] = {&at, &value};
		struct kernel_node k = launch(kernel, params);
		OK(cuGraphAddKernelNode_v2(&nodes[i], g, NULL, 0, &k));
	}
	OK(cuGraphAddHostNode(&last, g, nodes, n, &h));
	edges(g, n + 1, n, n);
	OK(cuGraphInstantiateWithFlags(&exec, g, 0));
	for (int i = 0; i < 3; i++)
		OK(cuGraphLaunch(exec, stream));
	want(0, 100);
	for (unsigned i = 0; i < n; i++)
		THAT(got[i] == 100 + i);
	THAT(calls == 3);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(g));
}

int main(void) {
	CUmodule module;
	CUgraphNode n[5];
	int calls = 0;
	OK(cuInit(0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuModuleLoadData(&module, store));
	OK(cuModuleGetFunction(&kernel, module, "store"));
	OK(cuModuleGetFunction(&more, module, "more"));
	OK(cuStreamCreate(&stream, 1));
	OK(cuMemAlloc_v2(&p, sizeof got));
	CUgraph g = build(11, &calls, n);
	structure(g, n);
	refused(n[run]);
	parameters(g, n, &calls);
	update();
	nested();
	contexts();
	wide();
	OK(cuGraphDestroy(g));
	OK(cuMemFree_v2(p));
	OK(cuCtxDestroy_v2(ctx));
	puts("graphs: right");
	return 0;
}
