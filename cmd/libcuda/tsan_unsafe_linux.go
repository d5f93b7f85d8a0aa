//go:build cgo && hosttsan

package main

/*
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
uintptr_t ferry_tsan_clock(const char *name, uintptr_t caller);
uintptr_t ferry_tsan_enter(uintptr_t clock);
void ferry_tsan_leave(uintptr_t before);
void ferry_tsan_finish(uintptr_t clock);
void ferry_tsan_follow(uintptr_t clock);
void ferry_tsan_retire(uintptr_t clock);
void ferry_tsan_forget(uintptr_t clock);
void ferry_tsan_access(int how, uintptr_t p, size_t n);
void ferry_tsan_load(uintptr_t p, size_t n);
void ferry_tsan_add(uintptr_t p, size_t n);
void ferry_tsan_wait(uintptr_t p);
void ferry_tsan_signal(uintptr_t p);
void ferry_tsan_fresh(uintptr_t p, size_t n);
*/
import "C"

import (
	"unsafe"

	"github.com/ferrygpu/ferry/internal/hosttsan"
)

// Unsafe: A name is a text of C that lasts as long as the call.

// detector is the race detector of the program. Its calls act for the thread that Go is on, which is
// that of the program where a call of the program is served.
type detector struct{}

func (detector) NewClock(name string) hosttsan.Clock {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return hosttsan.Clock(C.ferry_tsan_clock(text, C.uintptr_t(host{}.Caller())))
}

func (detector) Enter(c hosttsan.Clock) hosttsan.Clock {
	return hosttsan.Clock(C.ferry_tsan_enter(C.uintptr_t(c)))
}

func (detector) Leave(before hosttsan.Clock) { C.ferry_tsan_leave(C.uintptr_t(before)) }
func (detector) Finish(c hosttsan.Clock)     { C.ferry_tsan_finish(C.uintptr_t(c)) }
func (detector) Follow(c hosttsan.Clock)     { C.ferry_tsan_follow(C.uintptr_t(c)) }
func (detector) Retire(c hosttsan.Clock)     { C.ferry_tsan_retire(C.uintptr_t(c)) }
func (detector) Forget(c hosttsan.Clock)     { C.ferry_tsan_forget(C.uintptr_t(c)) }

func (detector) Access(how hosttsan.How, p, n uintptr) {
	C.ferry_tsan_access(C.int(how), C.uintptr_t(p), C.size_t(n))
}

func (detector) Load(p, n uintptr)  { C.ferry_tsan_load(C.uintptr_t(p), C.size_t(n)) }
func (detector) Add(p, n uintptr)   { C.ferry_tsan_add(C.uintptr_t(p), C.size_t(n)) }
func (detector) Wait(p uintptr)     { C.ferry_tsan_wait(C.uintptr_t(p)) }
func (detector) Signal(p uintptr)   { C.ferry_tsan_signal(C.uintptr_t(p)) }
func (detector) Fresh(p, n uintptr) { C.ferry_tsan_fresh(C.uintptr_t(p), C.size_t(n)) }

func init() { hosttsan.Use(detector{}) }
