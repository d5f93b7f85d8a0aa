//go:build cgo && linux

#include "library.h"
#include "zz_numbers.h"
#include "_cgo_export.h"

// The stubs that change the state of the thread, answer without Go, or put other calls together.

CUresult cuInit(unsigned flags) {
	struct frame f;
	CUresult r = ferry_enter_early(&f, call_cuInit);
	if (r)
		return r;
	f.in[0] = flags;
	ferry_handlers_on_stack();
	r = ferry_call(&f);
	int from = NOT_STARTED;
	if (!r && __atomic_compare_exchange_n(&ferry_state, &from, READY, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		ferry_end_at_exit();
	return r;
}

CUresult cuDriverGetVersion(int *version) {
	struct frame f;
	CUresult r = ferry_enter_early(&f, call_cuDriverGetVersion);
	if (r)
		return r;
	if (!version)
		return INVALID_VALUE;
	r = ferry_call(&f);
	if (!r)
		*version = (int)f.out[0];
	return r;
}

static const struct result_text *result_text(int code) {
	for (unsigned i = 0; i < ferry_result_count; i++)
		if (ferry_results[i].code == code)
			return &ferry_results[i];
	return NULL;
}

CUresult cuGetErrorName(int code, const char **name) {
	if (!name)
		return INVALID_VALUE;
	const struct result_text *t = result_text(code);
	*name = t ? t->name : NULL;
	return t ? 0 : INVALID_VALUE;
}

CUresult cuGetErrorString(int code, const char **text) {
	if (!text)
		return INVALID_VALUE;
	const struct result_text *t = result_text(code);
	*text = t ? t->text : NULL;
	return t ? 0 : INVALID_VALUE;
}

// Answers of cuGetProcAddress_v2.
enum { FOUND, SYMBOL_NOT_FOUND, VERSION_NOT_SUFFICIENT };

// Functions that only this library has, for cuGetProcAddress alone: it exports no names but CUDA's.

// profile_name gives the name of the emulated machine.
static CUresult profile_name(char *name, size_t bytes) {
	struct frame f;
	CUresult r = ferry_enter_early(&f, call_profileName);
	if (r)
		return r;
	f.in[0] = (uintptr_t)name;
	f.in[1] = bytes;
	return ferry_call(&f);
}

// virtual_now gives the virtual time of the host in nanoseconds.
static CUresult virtual_now(int64_t *ns) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_virtualNow);
	if (r)
		return r;
	if (!ns)
		return INVALID_VALUE;
	r = ferry_call(&f);
	*ns = (int64_t)f.out[0];
	return r;
}

// host_access announces that the host is about to read or write managed memory.
static CUresult host_access(void *p, size_t bytes, int write) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_hostAccess);
	if (r)
		return r;
	f.in[0] = (uintptr_t)p;
	f.in[1] = bytes;
	f.in[2] = write != 0;
	return ferry_call(&f);
}

// caller_slot gives where the thread reads the place of the program that makes a call. A library
// between the two, such as the runtime of ferry cc, writes it before its calls and NULL after them.
static void **caller_slot(void) { return &ferry_self.handed; }

static void *own_function(const char *symbol) {
	if (!strcmp(symbol, "ferryProfile"))
		return (void *)profile_name;
	if (!strcmp(symbol, "ferryNow"))
		return (void *)virtual_now;
	if (!strcmp(symbol, "ferryHostAccess"))
		return (void *)host_access;
	if (!strcmp(symbol, "ferryCaller"))
		return (void *)caller_slot;
	if (!strcmp(symbol, "ferryNothing"))
		return (void *)ferryBegin;
	return NULL;
}

// find_form returns the newest form that a version of CUDA has. With per_thread it prefers, in that
// form, the one for the default stream of threads.
static void *find_form(const char *symbol, int version, int per_thread, int *status) {
	const struct form *best = NULL;
	*status = SYMBOL_NOT_FOUND;
	for (unsigned i = 0; i < ferry_form_count; i++) {
		const struct form *f = &ferry_forms[i];
		if (strcmp(f->symbol, symbol))
			continue;
		if (*status == SYMBOL_NOT_FOUND)
			*status = VERSION_NOT_SUFFICIENT;
		if (f->version > version || (f->per_thread && !per_thread))
			continue;
		if (!best || f->per_thread > best->per_thread || (f->per_thread == best->per_thread && f->version > best->version))
			best = f;
		*status = FOUND;
	}
	return best ? best->fn : NULL;
}

enum { LEGACY_STREAM = 1, PER_THREAD_STREAM = 2 };

CUresult cuGetProcAddress_v2(const char *symbol, void **fn, int version, uint64_t flags, int *status) {
	int found;
	if (!symbol || !fn || flags > PER_THREAD_STREAM)
		return INVALID_VALUE;
	*fn = find_form(symbol, version, flags == PER_THREAD_STREAM, &found);
	if (found == SYMBOL_NOT_FOUND && (*fn = own_function(symbol)))
		found = FOUND;
	if (status)
		*status = found;
	return *fn || status ? 0 : NOT_FOUND;
}

CUresult cuGetProcAddress(const char *symbol, void **fn, int version, uint64_t flags) {
	return cuGetProcAddress_v2(symbol, fn, version, flags, NULL);
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **fn, int version, uint64_t flags, int *status) {
	return cuGetProcAddress_v2(symbol, fn, version, flags ? flags : PER_THREAD_STREAM, status);
}

// The stack of current contexts.

// check_context asks Go whether a context is alive. It is part of each stub: see ferry_enter.
static inline __attribute__((always_inline)) CUresult check_context(uint64_t ctx) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_checkContext);
	if (r)
		return r;
	f.in[0] = ctx;
	return ferry_call(&f);
}

// ready reports why the library cannot be used.
static inline __attribute__((always_inline)) CUresult ready(void) {
	struct frame f;
	return ferry_enter(&f, 0);
}

CUresult cuCtxGetCurrent(uint64_t *ctx) {
	CUresult r = ready();
	if (r)
		return r;
	if (!ctx)
		return INVALID_VALUE;
	struct thread *t = &ferry_self;
	*ctx = t->depth ? t->stack[t->depth - 1] : 0;
	return 0;
}

CUresult cuCtxSetCurrent(uint64_t ctx) {
	CUresult r = ready();
	if (r)
		return r;
	struct thread *t = &ferry_self;
	if (!ctx) {
		if (t->depth)
			t->depth--;
		return 0;
	}
	if ((r = check_context(ctx)))
		return r;
	if (!t->depth)
		return ferry_push(ctx);
	t->stack[t->depth - 1] = ctx;
	return 0;
}

CUresult cuCtxPushCurrent_v2(uint64_t ctx) {
	CUresult r = ready();
	if (!r)
		r = ctx ? check_context(ctx) : INVALID_VALUE;
	return r ? r : ferry_push(ctx);
}

CUresult cuCtxPopCurrent_v2(uint64_t *ctx) {
	CUresult r = ready();
	if (r)
		return r;
	struct thread *t = &ferry_self;
	if (!t->depth)
		return INVALID_CONTEXT;
	uint64_t top = t->stack[--t->depth];
	if (ctx)
		*ctx = top;
	return 0;
}

CUresult cuCtxCreate_v2(uint64_t *ctx, unsigned flags, int dev) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_createContext);
	if (r)
		return r;
	if (!ctx)
		return INVALID_VALUE;
	f.in[0] = flags;
	f.in[1] = (unsigned)dev;
	if ((r = ferry_call(&f)))
		return r;
	if ((r = ferry_push(f.out[0])))
		return r;
	*ctx = f.out[0];
	return 0;
}

CUresult cuCtxDestroy_v2(uint64_t ctx) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_destroyContext);
	if (r)
		return r;
	if (!ctx)
		return INVALID_VALUE;
	f.in[0] = ctx;
	if ((r = ferry_call(&f)))
		return r;
	struct thread *t = &ferry_self;
	if (t->depth && t->stack[t->depth - 1] == ctx)
		t->depth--;
	return 0;
}

// Attributes of pools up to this one are an int, the others 64 bits.
enum { LAST_INT_ATTRIBUTE = 3 };

CUresult cuMemPoolGetAttribute(uintptr_t pool, unsigned attribute, void *value) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_memPoolGetAttribute);
	if (r)
		return r;
	if (!value)
		return INVALID_VALUE;
	f.in[0] = pool;
	f.in[1] = attribute;
	if ((r = ferry_call(&f)))
		return r;
	memcpy(value, &f.out[0], attribute <= LAST_INT_ATTRIBUTE ? 4 : 8);
	return 0;
}

CUresult cuMemPoolSetAttribute(uintptr_t pool, unsigned attribute, void *value) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_memPoolSetAttribute);
	if (r)
		return r;
	if (!value)
		return INVALID_VALUE;
	f.in[0] = pool;
	f.in[1] = attribute;
	f.in[2] = 0;
	memcpy(&f.in[2], value, attribute <= LAST_INT_ATTRIBUTE ? 4 : 8);
	return ferry_call(&f);
}

CUresult cuThreadExchangeStreamCaptureMode(unsigned *mode) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_exchangeCaptureMode);
	if (r)
		return r;
	if (!mode)
		return INVALID_VALUE;
	f.in[0] = *mode;
	if ((r = ferry_call(&f)))
		return r;
	*mode = (unsigned)f.out[0];
	return 0;
}

// Copies and fills in the default stream of the thread. A copy returns when it is done; a fill, and a
// copy within a device, need not be.

CUresult cuMemcpyAsync(uint64_t, uint64_t, size_t, uintptr_t);
CUresult cuMemcpyHtoDAsync_v2(uint64_t, uintptr_t, size_t, uintptr_t);
CUresult cuMemcpyDtoHAsync_v2(uintptr_t, uint64_t, size_t, uintptr_t);
CUresult cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, uintptr_t);
CUresult cuMemcpyPeerAsync(uint64_t, uintptr_t, uint64_t, uintptr_t, size_t, uintptr_t);
CUresult cuMemcpy2DAsync_v2(const void *, uintptr_t);
CUresult cuMemcpy3DAsync_v2(const void *, uintptr_t);
CUresult cuMemsetD8Async(uint64_t, uint8_t, size_t, uintptr_t);
CUresult cuMemsetD16Async(uint64_t, uint16_t, size_t, uintptr_t);
CUresult cuMemsetD32Async(uint64_t, unsigned, size_t, uintptr_t);
CUresult cuMemsetD2D8Async(uint64_t, size_t, uint8_t, size_t, size_t, uintptr_t);
CUresult cuMemsetD2D16Async(uint64_t, size_t, uint16_t, size_t, size_t, uintptr_t);
CUresult cuMemsetD2D32Async(uint64_t, size_t, unsigned, size_t, size_t, uintptr_t);
CUresult cuStreamSynchronize(uintptr_t);

// THEN_WAIT makes an asynchronous call and waits for it. Both belong to the line that has called
// the stub.
#define THEN_WAIT(call) \
	ferry_self.within = __builtin_return_address(0); \
	CUresult r_ = (call); \
	if (!r_) \
		r_ = cuStreamSynchronize(PER_THREAD); \
	ferry_self.within = NULL; \
	return r_

CUresult cuMemcpy_ptds(uint64_t dst, uint64_t src, size_t bytes) {
	THEN_WAIT(cuMemcpyAsync(dst, src, bytes, PER_THREAD));
}
CUresult cuMemcpyHtoD_v2_ptds(uint64_t dst, uintptr_t src, size_t bytes) {
	THEN_WAIT(cuMemcpyHtoDAsync_v2(dst, src, bytes, PER_THREAD));
}
CUresult cuMemcpyDtoH_v2_ptds(uintptr_t dst, uint64_t src, size_t bytes) {
	THEN_WAIT(cuMemcpyDtoHAsync_v2(dst, src, bytes, PER_THREAD));
}
CUresult cuMemcpyDtoD_v2_ptds(uint64_t dst, uint64_t src, size_t bytes) {
	return cuMemcpyDtoDAsync_v2(dst, src, bytes, PER_THREAD);
}
CUresult cuMemcpyPeer_ptds(uint64_t dst, uintptr_t to, uint64_t src, uintptr_t from, size_t bytes) {
	THEN_WAIT(cuMemcpyPeerAsync(dst, to, src, from, bytes, PER_THREAD));
}
CUresult cuMemcpy2D_v2_ptds(const void *p) { THEN_WAIT(cuMemcpy2DAsync_v2(p, PER_THREAD)); }
CUresult cuMemcpy2DUnaligned_v2_ptds(const void *p) { THEN_WAIT(cuMemcpy2DAsync_v2(p, PER_THREAD)); }
CUresult cuMemcpy3D_v2_ptds(const void *p) { THEN_WAIT(cuMemcpy3DAsync_v2(p, PER_THREAD)); }
CUresult cuMemsetD8_v2_ptds(uint64_t dst, uint8_t value, size_t n) { return cuMemsetD8Async(dst, value, n, PER_THREAD); }
CUresult cuMemsetD16_v2_ptds(uint64_t dst, uint16_t value, size_t n) { return cuMemsetD16Async(dst, value, n, PER_THREAD); }
CUresult cuMemsetD32_v2_ptds(uint64_t dst, unsigned value, size_t n) { return cuMemsetD32Async(dst, value, n, PER_THREAD); }
CUresult cuMemsetD2D8_v2_ptds(uint64_t dst, size_t pitch, uint8_t value, size_t width, size_t height) {
	return cuMemsetD2D8Async(dst, pitch, value, width, height, PER_THREAD);
}
CUresult cuMemsetD2D16_v2_ptds(uint64_t dst, size_t pitch, uint16_t value, size_t width, size_t height) {
	return cuMemsetD2D16Async(dst, pitch, value, width, height, PER_THREAD);
}
CUresult cuMemsetD2D32_v2_ptds(uint64_t dst, size_t pitch, unsigned value, size_t width, size_t height) {
	return cuMemsetD2D32Async(dst, pitch, value, width, height, PER_THREAD);
}

// Old forms that have the arguments of a newer one.

CUresult cuDevicePrimaryCtxRelease_v2(int);
CUresult cuDevicePrimaryCtxReset_v2(int);
CUresult cuDevicePrimaryCtxSetFlags_v2(int, unsigned);
CUresult cuDeviceGetUuid_v2(void *, int);
CUresult cuEventDestroy_v2(uintptr_t);
CUresult cuEventElapsedTime(float *, uintptr_t, uintptr_t);
CUresult cuStreamDestroy_v2(uintptr_t);
CUresult cuMemHostRegister_v2(uintptr_t, size_t, unsigned);
CUresult cuStreamBeginCapture_v2(uintptr_t, unsigned);
CUresult cuGraphInstantiateWithFlags(uintptr_t *, uintptr_t, uint64_t);
CUresult cuLinkCreate_v2(unsigned, uintptr_t, uintptr_t, uintptr_t *);
CUresult cuLinkAddData_v2(uintptr_t, unsigned, uintptr_t, size_t, uintptr_t, unsigned, uintptr_t, uintptr_t);
CUresult cuLinkAddFile_v2(uintptr_t, unsigned, uintptr_t, unsigned, uintptr_t, uintptr_t);

CUresult cuCtxCreate(uint64_t *ctx, unsigned flags, int dev) { return cuCtxCreate_v2(ctx, flags, dev); }
CUresult cuCtxDestroy(uint64_t ctx) { return cuCtxDestroy_v2(ctx); }
CUresult cuCtxPushCurrent(uint64_t ctx) { return cuCtxPushCurrent_v2(ctx); }
CUresult cuCtxPopCurrent(uint64_t *ctx) { return cuCtxPopCurrent_v2(ctx); }
CUresult cuDevicePrimaryCtxRelease(int dev) { return cuDevicePrimaryCtxRelease_v2(dev); }
CUresult cuDevicePrimaryCtxReset(int dev) { return cuDevicePrimaryCtxReset_v2(dev); }
CUresult cuDevicePrimaryCtxSetFlags(int dev, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(dev, flags); }
CUresult cuDeviceGetUuid(void *uuid, int dev) { return cuDeviceGetUuid_v2(uuid, dev); }
CUresult cuEventDestroy(uintptr_t event) { return cuEventDestroy_v2(event); }
CUresult cuEventElapsedTime_v2(float *ms, uintptr_t start, uintptr_t end) { return cuEventElapsedTime(ms, start, end); }
CUresult cuStreamDestroy(uintptr_t stream) { return cuStreamDestroy_v2(stream); }
CUresult cuMemHostRegister(uintptr_t p, size_t bytes, unsigned flags) { return cuMemHostRegister_v2(p, bytes, flags); }
CUresult cuStreamBeginCapture(uintptr_t stream) { return cuStreamBeginCapture_v2(stream, 0); }
CUresult cuStreamBeginCapture_ptsz(uintptr_t stream) { return cuStreamBeginCapture_v2(stream ? stream : PER_THREAD, 0); }
CUresult cuLinkCreate(unsigned n, uintptr_t options, uintptr_t values, uintptr_t *link) {
	return cuLinkCreate_v2(n, options, values, link);
}
CUresult cuLinkAddData(uintptr_t link, unsigned type, uintptr_t data, size_t bytes, uintptr_t name, unsigned n, uintptr_t options, uintptr_t values) {
	return cuLinkAddData_v2(link, type, data, bytes, name, n, options, values);
}
CUresult cuLinkAddFile(uintptr_t link, unsigned type, uintptr_t path, unsigned n, uintptr_t options, uintptr_t values) {
	return cuLinkAddFile_v2(link, type, path, n, options, values);
}

// A float goes to Go as its bits.
CUresult cuParamSeti(uintptr_t, int, unsigned);
CUresult cuParamSetf(uintptr_t f, int offset, float value) {
	unsigned bits;
	memcpy(&bits, &value, sizeof bits);
	return cuParamSeti(f, offset, bits);
}

// The first forms of cuGraphInstantiate also give the node that failed and a log, which are empty.
CUresult cuGraphInstantiate(uintptr_t *exec, uintptr_t graph, uintptr_t *node, char *log, size_t bytes) {
	if (node)
		*node = 0;
	if (log && bytes)
		*log = 0;
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}
CUresult cuGraphInstantiate_v2(uintptr_t *exec, uintptr_t graph, uintptr_t *node, char *log, size_t bytes) {
	return cuGraphInstantiate(exec, graph, node, log, bytes);
}

// cuCtxCreate_v3 and _v4 also take what contexts of a part of a device need: none here.
CUresult cuCtxCreate_v3(uint64_t *ctx, const void *affinity, int n, unsigned flags, int dev) {
	static int said;
	if (affinity && n)
		return ferry_refuse("cuCtxCreate_v3 with an execution affinity", &said);
	return cuCtxCreate_v2(ctx, flags, dev);
}
CUresult cuCtxCreate_v4(uint64_t *ctx, const struct context_params *params, unsigned flags, int dev) {
	static int said;
	if (params && (params->affinity_count || params->cig))
		return ferry_refuse("cuCtxCreate_v4 with an execution affinity or graphics", &said);
	return cuCtxCreate_v2(ctx, flags, dev);
}

CUresult cuGraphInstantiateWithParams(uintptr_t *, uintptr_t, uintptr_t);
// The stream in params is for an upload, which the software GPU has no need of.
CUresult cuGraphInstantiateWithParams_ptsz(uintptr_t *exec, uintptr_t graph, uintptr_t params) {
	return cuGraphInstantiateWithParams(exec, graph, params);
}

CUresult cuIpcOpenMemHandle_v2(uint64_t *, struct ipc_handle, unsigned);
CUresult cuIpcOpenMemHandle(uint64_t *dptr, struct ipc_handle handle, unsigned flags) {
	return cuIpcOpenMemHandle_v2(dptr, handle, flags);
}
