//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package outfile

import (
	"errors"
	"os"
	"syscall"
)

// renamesOpenFiles reports whether a file may be renamed while it is open, and replaced while
// others have it open.
const renamesOpenFiles = true

// lock locks a file until it is closed or the process ends, and reports whether another process
// has it. A file system without locks has no such report.
func lock(f *os.File) (busy bool) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK)
}
