package main

import "syscall"

// nullDevice is the device of /dev/null: major 1, minor 3.
const nullDevice = 1<<8 | 3

// outputLost reports whether standard output is /dev/null, opened for reading and writing. A
// shell opens /dev/null only for writing: >/dev/null says that the output is not wanted.
func outputLost() bool {
	var s syscall.Stat_t
	if err := syscall.Fstat(syscall.Stdout, &s); err != nil {
		return false
	}
	flags, _, failed := syscall.Syscall(syscall.SYS_FCNTL, uintptr(syscall.Stdout), syscall.F_GETFL, 0)
	return failed == 0 && s.Mode&syscall.S_IFMT == syscall.S_IFCHR && s.Rdev == nullDevice && flags&syscall.O_ACCMODE == syscall.O_RDWR
}
