package crew

import (
	"math"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// bell is a futex: one system call wakes all who wait.
type bell struct{ times atomic.Uint32 }

// Operations of futex(2), within one process.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// rung is how often it has been rung.
func (b *bell) rung() uint32 { return b.times.Load() }

// ring wakes all who wait.
func (b *bell) ring() {
	b.times.Add(1)
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&b.times)), futexWake, math.MaxInt32, 0, 0, 0)
}

// wait returns when the bell has been rung more often; it may return before.
func (b *bell) wait(rung uint32) {
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&b.times)), futexWait, uintptr(rung), 0, 0, 0)
}
