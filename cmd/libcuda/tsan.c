//go:build cgo && linux && hosttsan

// The race detector of the program, which has it if it was built with -fsanitize=thread. Its functions
// are looked up when the library is loaded; without them these do nothing.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define WEAK __attribute__((weak))

void *__tsan_create_fiber(unsigned flags) WEAK;
void __tsan_destroy_fiber(void *fiber) WEAK;
void __tsan_switch_to_fiber(void *fiber, unsigned flags) WEAK;
void __tsan_set_fiber_name(void *fiber, const char *name) WEAK;
void *__tsan_get_current_fiber(void) WEAK;
void __tsan_acquire(void *sync) WEAK;
void __tsan_release(void *sync) WEAK;
void __tsan_read_range(void *p, size_t n) WEAK;
void __tsan_write_range(void *p, size_t n) WEAK;
void __tsan_func_entry(void *caller) WEAK;
void __tsan_func_exit(void) WEAK;
uint32_t __tsan_atomic32_load(const volatile uint32_t *p, int order) WEAK;
uint64_t __tsan_atomic64_load(const volatile uint64_t *p, int order) WEAK;
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *p, uint32_t v, int order) WEAK;
uint64_t __tsan_atomic64_fetch_add(volatile uint64_t *p, uint64_t v, int order) WEAK;

enum { NO_SYNC = 1, ACQUIRE = __ATOMIC_ACQUIRE, ACQUIRE_RELEASE = __ATOMIC_ACQ_REL };

// GRAIN is the size of one report: the detector reports one race in each.
enum { GRAIN = 128 };

static int present(void) { return __tsan_create_fiber && __tsan_switch_to_fiber && __tsan_read_range && __tsan_func_entry; }

// watched reports whether the detector has a shadow for an address, without which it crashes. The Go heap
// has none of the program's memory: it is used again without the detector's knowledge.
static int watched(uintptr_t p, size_t n) {
	if (!present() || !n)
		return 0;
#ifdef __x86_64__
	uintptr_t end = p + n;
	return (p >= 0x1000 && end <= 0xc000000000) || (p >= 0x550000000000 && end <= 0x568000000000) || (p >= 0x7e8000000000 && end <= 0x7ffffffff000);
#else
	return p < (uintptr_t)1 << 47;
#endif
}

// A clock is memory of the detector's own malloc, so that it knows nothing of an earlier one there.
struct clock {
	void *fiber;  // NULL when it is retired
	uint64_t end; // the detector orders what follows the clock by it
};

// ferry_tsan_clock makes a clock. Each of its reports has the place of the program that made the call.
uintptr_t ferry_tsan_clock(const char *name, uintptr_t caller) {
	if (!present())
		return 0;
	struct clock *c = calloc(1, sizeof *c);
	if (!c)
		return 0;
	__tsan_func_entry((void *)caller);
	c->fiber = __tsan_create_fiber(0);
	__tsan_func_exit();
	__tsan_set_fiber_name(c->fiber, name);
	void *before = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(c->fiber, NO_SYNC);
	__tsan_func_entry((void *)caller);
	__tsan_switch_to_fiber(before, NO_SYNC);
	return (uintptr_t)c;
}

// ferry_tsan_enter returns the fiber of the thread, for ferry_tsan_leave.
uintptr_t ferry_tsan_enter(uintptr_t clock) {
	struct clock *c = (struct clock *)clock;
	if (!c || !c->fiber)
		return 0;
	void *before = __tsan_get_current_fiber();
	__tsan_switch_to_fiber(c->fiber, NO_SYNC);
	return (uintptr_t)before;
}

void ferry_tsan_leave(uintptr_t before) {
	if (before)
		__tsan_switch_to_fiber((void *)before, NO_SYNC);
}

void ferry_tsan_finish(uintptr_t clock) {
	if (clock)
		__tsan_release(&((struct clock *)clock)->end);
}

void ferry_tsan_follow(uintptr_t clock) {
	if (clock)
		__tsan_acquire(&((struct clock *)clock)->end);
}

void ferry_tsan_retire(uintptr_t clock) {
	struct clock *c = (struct clock *)clock;
	if (c && c->fiber)
		__tsan_destroy_fiber(c->fiber), c->fiber = NULL;
}

void ferry_tsan_forget(uintptr_t clock) {
	ferry_tsan_retire(clock);
	free((void *)clock);
}

// The functions whose names appear in reports. The empty statement keeps their frames.
#define ACCESS(NAME, KIND)                                                        \
	static __attribute__((noinline)) void NAME(uintptr_t p, size_t n) {           \
		for (size_t at = 0; at < n; at += GRAIN)                                  \
			__tsan_##KIND##_range((void *)(p + at), n - at < GRAIN ? n - at : GRAIN); \
		__asm__ volatile("");                                                     \
	}
ACCESS(kernel_reads, read)
ACCESS(kernel_writes, write)
ACCESS(copy_reads, read)
ACCESS(copy_writes, write)
ACCESS(fill_writes, write)
ACCESS(allocates, write)
ACCESS(frees, write)
ACCESS(host_frees, write)

void ferry_tsan_access(int how, uintptr_t p, size_t n) {
	static void (*const functions[])(uintptr_t, size_t) = {kernel_reads, kernel_writes, copy_reads, copy_writes, fill_writes, allocates, frees, host_frees};
	if (watched(p, n))
		functions[how](p, n);
}

void ferry_tsan_load(uintptr_t p, size_t n) {
	if (!watched(p, n))
		return;
	if (n == 4)
		__tsan_atomic32_load((uint32_t *)p, ACQUIRE);
	else
		__tsan_atomic64_load((uint64_t *)p, ACQUIRE);
}

void ferry_tsan_add(uintptr_t p, size_t n) {
	if (!watched(p, n))
		return;
	if (n == 4)
		__tsan_atomic32_fetch_add((uint32_t *)p, 0, ACQUIRE_RELEASE);
	else
		__tsan_atomic64_fetch_add((uint64_t *)p, 0, ACQUIRE_RELEASE);
}

void ferry_tsan_wait(uintptr_t p) {
	if (watched(p, 8))
		__tsan_acquire((void *)p);
}

void ferry_tsan_signal(uintptr_t p) {
	if (watched(p, 8))
		__tsan_release((void *)p);
}

// ferry_tsan_fresh lets the detector forget what it knows of memory that Go has just mapped, by mapping it
// again through the detector's own mmap.
void ferry_tsan_fresh(uintptr_t p, size_t n) {
	if (watched(p, n))
		mmap((void *)p, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
