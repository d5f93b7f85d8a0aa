package await

import (
	"syscall"
	"time"
)

// nap sleeps in the kernel. A timer of Go is up to a millisecond late if the program has
// nothing else to do.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&ts, nil) // a signal may end it
}
