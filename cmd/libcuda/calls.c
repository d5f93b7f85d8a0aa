//go:build cgo && linux

#include "library.h"
#include "zz_numbers.h"

// The stubs that change the state of the thread, answer without Go, or put other calls together.

CUresult cuInit(unsigned flags) {
	struct frame f;
	CUresult r = ferry_enter_early(&f, call_cuInit);
	if (r)
		return r;
	f.in[0] = flags;
	r = ferry_call(&f);
	int from = NOT_STARTED;
	if (!r)
		__atomic_compare_exchange_n(&ferry_state, &from, READY, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
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

static void *own_function(const char *symbol) {
	if (!strcmp(symbol, "ferryProfile"))
		return (void *)profile_name;
	if (!strcmp(symbol, "ferryNow"))
		return (void *)virtual_now;
	if (!strcmp(symbol, "ferryHostAccess"))
		return (void *)host_access;
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

// check_context asks Go whether a context is alive.
static CUresult check_context(uint64_t ctx) {
	struct frame f;
	CUresult r = ferry_enter(&f, call_checkContext);
	if (r)
		return r;
	f.in[0] = ctx;
	return ferry_call(&f);
}

// ready reports why the library cannot be used.
static CUresult ready(void) {
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
	CUresult r = check_context(ctx);
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
