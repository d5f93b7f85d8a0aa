// What the stubs of the library share.
#ifndef FERRY_LIBRARY_H
#define FERRY_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int CUresult;

// The results that stubs give without asking Go.
enum {
	INVALID_VALUE = 1,
	NOT_INITIALIZED = 3,
	DEINITIALIZED = 4,
	INVALID_CONTEXT = 201,
	NOT_FOUND = 500,
	NOT_PERMITTED = 800,
	NOT_SUPPORTED = 801,
};

// PER_THREAD is the handle of the default stream of the calling thread.
#define PER_THREAD ((uintptr_t)2)

// LOCAL_TO_THREAD makes a variable of each thread that is found without a call. There is little room for
// such variables where a program opens the library late.
#define LOCAL_TO_THREAD __thread __attribute__((tls_model("initial-exec")))

// A frame is a call: what C hands to Go, and what Go gives back. The type Frame of
// internal/entry has the same layout.
struct frame {
	uint64_t call;   // the number of the function
	uint64_t ctx;    // the context that is current in the thread, or 0
	uint64_t in[16];
	uint64_t out[8];
};

// A place is where managed memory is. C passes it by value (CUmemLocation).
struct place {
	int type, id;
};

// An ipc_handle names memory or an event of another process (CUipcMemHandle, CUipcEventHandle).
struct ipc_handle {
	char bytes[64];
};

// What cuCtxCreate_v4 takes (CUctxCreateParams).
struct context_params {
	const void *affinity;
	int affinity_count;
	const void *cig;
};

// A thread is what the library keeps for each thread of the program.
struct thread {
	uint64_t number; // no two threads of a process have the same; 0 before the first call
	uint64_t *stack; // contexts, the current one last
	uint32_t depth, room;
	int inside;      // host functions that the thread runs for a stream
	void *caller;    // the return address of the current call, or of the last one
	void *within;    // the return address of a stub that makes several calls; NULL for none
	void *handed;    // the caller that a library between the program and this one hands on; NULL for none
	struct ended *end;
	void *signal_stack; // that the library has given the thread, or NULL
};

// A form is a row for cuGetProcAddress.
struct form {
	const char *symbol;
	int version;
	int per_thread;
	void *fn;
};

struct result_text {
	int code;
	const char *name, *text;
};

extern const struct form ferry_forms[];
extern const unsigned ferry_form_count;
extern const struct result_text ferry_results[];
extern const unsigned ferry_result_count;

extern LOCAL_TO_THREAD struct thread ferry_self;

// States of the library. Calls need READY; cuInit and a few others need only that the
// process has not ended and is no forked child.
enum { NOT_STARTED, READY, ENDED, FORKED };
extern int ferry_state;

// The threads that have ended, and that Go has not been told of.
extern struct ended *ferry_ended;

CUresult ferry_enter_slowly(struct thread *t, int state);

// ferry_enter begins a call. It fails where the library is not ready. It is part of each stub, whose
// return address it notes.
static inline __attribute__((always_inline)) CUresult ferry_enter(struct frame *f, unsigned call) {
	struct thread *t = &ferry_self;
	int state = __atomic_load_n(&ferry_state, __ATOMIC_ACQUIRE);
	if (__builtin_expect(state != READY || !t->number || t->inside || __atomic_load_n(&ferry_ended, __ATOMIC_RELAXED), 0)) {
		CUresult r = ferry_enter_slowly(t, state);
		if (r)
			return r;
	}
	t->caller = __builtin_return_address(0);
	f->call = call;
	f->ctx = t->depth ? t->stack[t->depth - 1] : 0;
	return 0;
}

CUresult ferry_enter_first(struct frame *f, unsigned call);

// ferry_enter_early begins a call that needs no cuInit.
static inline __attribute__((always_inline)) CUresult ferry_enter_early(struct frame *f, unsigned call) {
	CUresult r = ferry_enter_first(f, call);
	if (!r)
		ferry_self.caller = __builtin_return_address(0);
	return r;
}

// ferryCall is the function of Go that makes a call.
extern int ferryCall(void *f);

// ferry_call makes the call in Go.
static inline CUresult ferry_call(struct frame *f) { return ferryCall(f); }

// ferry_refuse names a function that the library lacks, once.
CUresult ferry_refuse(const char *name, int *said);

// ferry_end_at_exit closes the driver when the process ends.
void ferry_end_at_exit(void);

// ferry_push makes a context current, above those that were so before.
CUresult ferry_push(uint64_t ctx);

// ferry_signals_begin prepares a thread of the program for Go and signals, and ferry_signals_end undoes
// that when the thread ends.
void ferry_signals_begin(struct thread *t);
void ferry_signals_end(struct thread *t);

// ferry_handlers_on_stack lets all handlers of the program run on the stacks for handlers.
void ferry_handlers_on_stack(void);

// ferry_sigaction is sigaction of the C library.
struct sigaction;
int ferry_sigaction(int sig, const struct sigaction *act, struct sigaction *old);

#endif
