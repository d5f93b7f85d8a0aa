package main

import (
	"os"
	"syscall"
	"unsafe"
)

// Unsafe: The address of a local struct of the size that TIOCGWINSZ writes is converted in
// the call of syscall.Syscall, which keeps it alive.

// terminalWidth returns the columns of a terminal, 0 if it does not say them, and whether
// f is one.
func terminalWidth(f *os.File) (columns int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	return int(size.columns), failed == 0
}
