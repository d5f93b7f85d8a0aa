package workers

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Unsafe: The address of a live word is converted in the call of the futex, which keeps it
// alive.

// notifier notifies goroutines by a futex: one system call wakes them all.
type notifier struct{ n atomic.Uint32 }

// Operations of futex(2), within one process.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// count returns the number of notifications so far.
func (f *notifier) count() uint32 { return f.n.Load() }

// add counts a notification. It wakes no goroutine that waits.
func (f *notifier) add() { f.n.Add(1) }

// wake wakes all goroutines that wait.
func (f *notifier) wake() {
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&f.n)), futexWake, math.MaxInt32, 0, 0, 0)
}

// wait returns when the count differs from seen. It may return earlier.
func (f *notifier) wait(seen uint32) {
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&f.n)), futexWait, uintptr(seen), 0, 0, 0)
}
