//go:build cgo && linux

// Signals of the program. Go's runtime has threads of its own, changes what signals the program's
// threads block, and runs on small stacks, on which no handler may run. So:
//
//   - Threads of Go block all signals but those of faults and SIGURG, with which Go's runtime
//     interrupts its threads. A thread of the program keeps the signals that it blocks, but these.
//   - A handler gets SA_ONSTACK, and each thread a stack for its handlers (handlers.c).
//   - A fault of the program's code ends the process as without the library.
//
// Go's runtime sets the blocked signals of a thread when the thread first runs Go, and lets SIGCHLD,
// SIGPROF and SIGURG through. A SIGURG that is pending then is delivered at once, before the thread
// goes on: its handler here corrects the set.

#define _GNU_SOURCE // for RTLD_DEFAULT
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "library.h"
#include "_cgo_export.h"

// wanted is what the thread is to block from its next SIGURG on, where has_wanted is set. Linux has
// these bytes of a set of signals; sigset_t is larger. The thread writes them and its handler of SIGURG
// reads them, so their order is fixed by fences of signals.
static LOCAL_TO_THREAD uint64_t wanted;
static LOCAL_TO_THREAD volatile sig_atomic_t has_wanted;

static struct sigaction go_urgent;   // Go's handler of SIGURG
static struct sigaction past_urgent; // that of the program before: another Go runtime needs it as much

static void on_urgent(int sig, siginfo_t *info, void *context) {
	if (has_wanted) {
		atomic_signal_fence(memory_order_acquire);
		memcpy(&((ucontext_t *)context)->uc_sigmask, &wanted, sizeof wanted);
		has_wanted = 0;
	}
	go_urgent.sa_sigaction(sig, info, context);
	if (past_urgent.sa_flags & SA_SIGINFO)
		past_urgent.sa_sigaction(sig, info, context);
	else if (past_urgent.sa_handler != SIG_DFL && past_urgent.sa_handler != SIG_IGN)
		past_urgent.sa_handler(sig);
}

// must_pass takes the signals from a set that a thread of Go cannot block.
static void must_pass(sigset_t *s) {
	static const int pass[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGURG};
	for (size_t i = 0; i < sizeof pass / sizeof *pass; i++)
		sigdelset(s, pass[i]);
}

// block_in_go blocks all signals until the thread runs Go for the first time, and those of a set from
// then on.
static void block_in_go(const sigset_t *s) {
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	memcpy(&wanted, s, sizeof wanted);
	atomic_signal_fence(memory_order_release);
	has_wanted = 1;
	pthread_kill(pthread_self(), SIGURG);
}

// A handler can use signal_stack bytes. Below them is a page that nobody may touch.
enum { signal_stack = 256 << 10, guard_page = 64 << 10 };

// own_stack gives the thread a stack for handlers, if it has none. Else Go's runtime would give it
// one of 32 KiB.
static void *own_stack(void) {
	stack_t now, own = {.ss_size = signal_stack};
	if (sigaltstack(NULL, &now) || !(now.ss_flags & SS_DISABLE))
		return NULL;
	char *p = mmap(NULL, guard_page + signal_stack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	own.ss_sp = p + guard_page;
	if (mprotect(own.ss_sp, signal_stack, PROT_READ | PROT_WRITE) || sigaltstack(&own, NULL)) {
		munmap(p, guard_page + signal_stack);
		return NULL;
	}
	return p;
}

static void free_stack(void *p) {
	stack_t now, none = {.ss_flags = SS_DISABLE};
	if (!p)
		return;
	if (!sigaltstack(NULL, &now) && now.ss_sp == (char *)p + guard_page)
		sigaltstack(&none, NULL);
	munmap(p, guard_page + signal_stack);
}

// ferry_signals_begin enters Go for the first time in a thread of the program.
void ferry_signals_begin(struct thread *t) {
	sigset_t before;
	t->signal_stack = own_stack();
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	must_pass(&before);
	block_in_go(&before);
	ferryBegin();
	has_wanted = 0; // still set if the program has a handler of SIGURG
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ferry_signals_end(struct thread *t) { free_stack(t->signal_stack); }

struct start {
	void *(*fn)(void *);
	void *arg;
};

static void *go_thread(void *p) {
	struct start s = *(struct start *)p;
	free(p);
	sigset_t all;
	sigfillset(&all);
	must_pass(&all);
	void *stack = own_stack();
	block_in_go(&all);
	void *r = s.fn(s.arg);
	free_stack(stack);
	return r;
}

static void take_urgent(void) {
	ferry_sigaction(SIGURG, NULL, &go_urgent);
	struct sigaction own = go_urgent;
	own.sa_sigaction = on_urgent;
	ferry_sigaction(SIGURG, &own, NULL);
}

// in_program reports whether this code is no library but part of a program: the tests of this package are
// one, and start other programs.
static int in_program(void) {
	Dl_info here, program;
	return dladdr((void *)in_program, &here) && dladdr((void *)getauxval(AT_PHDR), &program) && here.dli_fbase == program.dli_fbase;
}

// pthread_create is the function of that name for Go's runtime, which is part of this library. The
// library does not export it. The first thread starts when Go has installed its handlers.
__attribute__((visibility("hidden"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	static int as_program;
	if (!create) {
		create = dlsym(RTLD_DEFAULT, "pthread_create");
		as_program = in_program();
		if (!as_program)
			take_urgent();
	}
	if (as_program && create)
		return create(thread, attr, fn, arg);
	struct start *s = malloc(sizeof *s);
	if (!create || !s)
		return EAGAIN;
	*s = (struct start){fn, arg};
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = create(thread, attr, go_thread, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		free(s);
	return r;
}

// on_host_fault ends the process by a fault of the program's code. Go's runtime calls it for a fault
// that is not in Go. The code that faulted runs again after it, so a core shows that place.
static void on_host_fault(int sig, siginfo_t *info, void *context) {
	struct sigaction own = {.sa_handler = SIG_DFL};
	ferry_sigaction(sig, &own, NULL);
	if (info->si_code <= 0) // a process has sent it
		raise(sig);
}

// before_go runs before the constructor of Go's runtime, which calls the handlers that it finds.
__attribute__((constructor(101))) static void before_go(void) {
	ferry_sigaction(SIGURG, NULL, &past_urgent);
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE};
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		struct sigaction now, own = {.sa_sigaction = on_host_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
		if (!ferry_sigaction(faults[i], NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL)
			ferry_sigaction(faults[i], &own, NULL);
	}
}
