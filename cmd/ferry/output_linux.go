package main

import "syscall"

// nullDevice is the device of /dev/null: major 1, minor 3.
const nullDevice = 1<<8 | 3

// outputClosed reports whether standard output was closed when the program began. Go's
// runtime then opens /dev/null in its place, for reading and writing. A shell opens
// /dev/null only for writing, so >/dev/null is not taken for closed.
func outputClosed() bool {
	var s syscall.Stat_t
	if err := syscall.Fstat(syscall.Stdout, &s); err != nil {
		return err == syscall.EBADF
	}
	flags, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(syscall.Stdout), syscall.F_GETFL, 0)
	return failed == 0 && s.Mode&syscall.S_IFMT == syscall.S_IFCHR && s.Rdev == nullDevice && flags&syscall.O_ACCMODE == syscall.O_RDWR
}
