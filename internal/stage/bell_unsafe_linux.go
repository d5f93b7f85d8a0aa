package stage

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// bells says that helpers can wait in the operating system.
const bells = true

// bell wakes all who wait for it: a futex.
type bell struct{ rings atomic.Uint32 }

const (
	futexWait = 0 | 128 // FUTEX_WAIT, private to the process
	futexWake = 1 | 128
)

// rung is how often it has rung.
func (b *bell) rung() uint32 { return b.rings.Load() }

// wait returns when it has rung since, and maybe before.
func (b *bell) wait(heard uint32) {
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&b.rings)), futexWait, uintptr(heard), 0, 0, 0)
}

// ring wakes all.
func (b *bell) ring() {
	b.rings.Add(1)
	const all = 1<<31 - 1
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&b.rings)), futexWake, all, 0, 0, 0)
}
