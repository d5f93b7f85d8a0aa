//go:build cgo && linux

// Handlers of the program. A thread that is in Go has a small stack, on which a handler would
// overwrite other memory. With SA_ONSTACK a handler runs on the stack that signals.c gives the thread.
//
// A program that is linked with the library finds sigaction, signal and their like here, before those
// of the C library. Other programs find those of the C library: what they have installed before cuInit
// gets SA_ONSTACK there.

#define _GNU_SOURCE // for RTLD_NEXT
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>

#include "library.h"

typedef void (*handler)(int);

// EARLY is for functions that a sanitizer calls before it is ready to watch any.
#define EARLY __attribute__((no_sanitize("thread", "address", "undefined")))

// next returns the function of that name that the program would find without the library.
EARLY static void *next(void **fn, const char *name) {
	void *f = __atomic_load_n(fn, __ATOMIC_RELAXED);
	if (!f) {
		f = dlsym(RTLD_NEXT, name);
		__atomic_store_n(fn, f, __ATOMIC_RELAXED);
	}
	return f;
}

EARLY int ferry_sigaction(int sig, const struct sigaction *act, struct sigaction *old) {
	static void *fn;
	int (*f)(int, const struct sigaction *, struct sigaction *) = next(&fn, "sigaction");
	if (f)
		return f(sig, act, old);
	errno = ENOSYS;
	return -1;
}

EARLY static int has_handler(const struct sigaction *a) {
	return (a->sa_flags & SA_SIGINFO) || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

// put_on_stack lets the handler of a signal run on the stack for handlers.
EARLY static void put_on_stack(int sig) {
	struct sigaction now;
	if (ferry_sigaction(sig, NULL, &now) || !has_handler(&now) || now.sa_flags & SA_ONSTACK)
		return;
	now.sa_flags |= SA_ONSTACK;
	ferry_sigaction(sig, &now, NULL);
}

void ferry_handlers_on_stack(void) {
	for (int sig = 1; sig < NSIG; sig++)
		put_on_stack(sig);
}

EARLY int sigaction(int sig, const struct sigaction *act, struct sigaction *old) {
	struct sigaction on_stack;
	if (act && has_handler(act)) {
		on_stack = *act;
		on_stack.sa_flags |= SA_ONSTACK;
		act = &on_stack;
	}
	return ferry_sigaction(sig, act, old);
}

// The older functions differ in what the C library does besides, so it does that first.
#define INSTALLS(name) \
	EARLY handler name(int sig, handler h) { \
		static void *fn; \
		handler (*f)(int, handler) = next(&fn, #name); \
		if (!f) { \
			errno = ENOSYS; \
			return SIG_ERR; \
		} \
		handler old = f(sig, h); \
		if (old != SIG_ERR) \
			put_on_stack(sig); \
		return old; \
	}

handler bsd_signal(int, handler), sysv_signal(int, handler), __sysv_signal(int, handler);

INSTALLS(signal)
INSTALLS(bsd_signal)
INSTALLS(ssignal)
INSTALLS(sysv_signal)
INSTALLS(__sysv_signal)
INSTALLS(sigset)
