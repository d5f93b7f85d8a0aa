//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package trace

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file until it is closed or the process ends, and reports whether another
// recording has it. A file system without locks has no such report.
func lock(f *os.File) (busy bool) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}
