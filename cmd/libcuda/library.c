//go:build cgo && linux

#define _GNU_SOURCE // for environ
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "library.h"
#include "zz_numbers.h"
#include "_cgo_export.h"

LOCAL_TO_THREAD struct thread ferry_self;
int ferry_state = NOT_STARTED;

// An ended thread waits in this list until another one tells Go. A thread that ends does not
// enter Go itself: Go's own state of the thread may be gone by then.
struct ended {
	uint64_t number;
	struct ended *next;
};
struct ended *ferry_ended;

static pthread_key_t thread_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint64_t last_number;

static void thread_ends(void *p) {
	struct thread *t = p;
	free(t->stack);
	ferry_signals_end(t);
	struct ended *e = t->end;
	memset(t, 0, sizeof *t);
	if (!e)
		return;
	e->next = __atomic_load_n(&ferry_ended, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&ferry_ended, &e->next, e, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static void make_key(void) { pthread_key_create(&thread_key, thread_ends); }

static void thread_begins(struct thread *t) {
	pthread_once(&key_once, make_key);
	t->end = calloc(1, sizeof *t->end);
	t->number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
	if (t->end)
		t->end->number = t->number;
	pthread_setspecific(thread_key, t);
}

// program_thread_begins prepares a thread that calls the library.
static void program_thread_begins(struct thread *t) {
	thread_begins(t);
	ferry_signals_begin(t);
}

// tell_ended tells Go which threads have ended.
static void tell_ended(void) {
	struct ended *e = __atomic_exchange_n(&ferry_ended, NULL, __ATOMIC_ACQUIRE);
	while (e) {
		struct ended *next = e->next;
		struct frame f = {.call = call_endThread, .in = {e->number}};
		ferry_call(&f);
		free(e);
		e = next;
	}
}

uint64_t ferry_thread(void) {
	if (!ferry_self.number)
		thread_begins(&ferry_self);
	return ferry_self.number;
}

// ferry_caller is called by Go code that serves a call. Other threads of Go have made none, and have
// no caller: a call of a host function ends before it notes one.
uintptr_t ferry_caller(void) {
	const struct thread *t = &ferry_self;
	return (uintptr_t)(t->handed ? t->handed : t->within ? t->within : t->caller);
}

// quiet reports whether the user wants no hints on standard error.
static int quiet(void) {
	const char *q = getenv("FERRY_QUIET");
	return q && !strcmp(q, "1");
}

static CUresult not_usable(struct thread *t, int state) {
	static int said;
	switch (state) {
	case ENDED:
		return DEINITIALIZED;
	case FORKED:
		if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED) && !quiet())
			fprintf(stderr, "ferry: process %d was made by fork from one that had loaded libcuda.so.1: CUDA does not work in it; start a program (exec) instead\n", (int)getpid());
		return NOT_INITIALIZED;
	}
	return t->inside ? NOT_PERMITTED : 0;
}

CUresult ferry_enter_slowly(struct thread *t, int state) {
	if (state == NOT_STARTED)
		return NOT_INITIALIZED;
	CUresult r = not_usable(t, state);
	if (r)
		return r;
	if (!t->number)
		program_thread_begins(t);
	tell_ended();
	return 0;
}

CUresult ferry_enter_first(struct frame *f, unsigned call) {
	struct thread *t = &ferry_self;
	CUresult r = not_usable(t, __atomic_load_n(&ferry_state, __ATOMIC_ACQUIRE));
	if (r)
		return r;
	if (!t->number)
		program_thread_begins(t);
	f->call = call;
	f->ctx = t->depth ? t->stack[t->depth - 1] : 0;
	return 0;
}

CUresult ferry_refuse(const char *name, int *said) {
	if (__atomic_exchange_n(said, 1, __ATOMIC_RELAXED) || quiet())
		return NOT_SUPPORTED;
	const char *why = "libcuda.so.1 on the software GPU does not have this function";
	if (!strcmp(name, "cuGetExportTable"))
		why = "the program asks for private tables of NVIDIA's driver, as libcudart of the CUDA toolkit does: libcuda.so.1 on the software GPU has none, so the program must use the driver API itself";
	fprintf(stderr, "ferry: %s: CUDA_ERROR_NOT_SUPPORTED: %s\n", name, why);
	return NOT_SUPPORTED;
}

CUresult ferry_push(uint64_t ctx) {
	struct thread *t = &ferry_self;
	if (t->depth == t->room) {
		uint32_t room = t->room ? 2 * t->room : 4;
		uint64_t *stack = realloc(t->stack, room * sizeof *stack);
		if (!stack)
			return 2; // CUDA_ERROR_OUT_OF_MEMORY
		t->stack = stack;
		t->room = room;
	}
	t->stack[t->depth++] = ctx;
	return 0;
}

// ferry_host_func runs a function of the program for a stream.
void ferry_host_func(uintptr_t fn, uintptr_t data) {
	ferry_self.inside++;
	((void (*)(void *))fn)((void *)data);
	ferry_self.inside--;
}

// ferry_stream_callback runs a callback of cuStreamAddCallback.
void ferry_stream_callback(uintptr_t fn, uintptr_t stream, int status, uintptr_t data) {
	ferry_self.inside++;
	((void (*)(uintptr_t, int, void *))fn)(stream, status, (void *)data);
	ferry_self.inside--;
}

// ferry_block_size asks a program for the dynamic shared memory of blocks of a size.
size_t ferry_block_size(void *fn, int block) { return ((size_t (*)(int))fn)(block); }

// ferry_print writes to the standard output of the program, which has a buffer.
void ferry_print(void *text, size_t n) { fwrite(text, 1, n, stdout); }

// ferry_variable returns a variable of the environment as it is now, "NAME=VALUE", or NULL after the last.
const char *ferry_variable(size_t i) { return environ ? environ[i] : NULL; }

static void in_child(void) { __atomic_store_n(&ferry_state, FORKED, __ATOMIC_RELEASE); }

// at_end closes the driver, which writes recordings and reports. Later calls are refused. It runs
// after what the program registered since cuInit, which may still use the library.
static void at_end(void) {
	int state = __atomic_exchange_n(&ferry_state, ENDED, __ATOMIC_ACQ_REL);
	if (state == READY)
		ferryEnd();
}

void ferry_end_at_exit(void) { atexit(at_end); }

__attribute__((constructor)) static void at_load(void) { pthread_atfork(NULL, NULL, in_child); }
