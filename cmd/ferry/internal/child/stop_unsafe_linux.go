package child

import (
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Unsafe: siginfo_t is a union. For a child that has stopped, the kernel writes the signal to
// si_status, the third int32 of the union. statusOffset is its place in the 128 bytes of the
// struct, which the offset and four bytes do not leave.

// statusOffset is the place of si_status in siginfo_t, behind three numbers, the padding of
// systems with 64 bits, a process id and a user id.
const statusOffset = 12 + (unsafe.Sizeof(uintptr(0)) - 4) + 8

// stopCode is CLD_STOPPED, the code of a child that has stopped.
const stopCode = 5

// nextStop waits until a child stops, and returns the signal that stopped it. It returns false
// when the child has ended. It leaves the end to others that wait for it.
func nextStop(pid int) (sig syscall.Signal, stopped bool) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != stopCode {
			return 0, false
		}
		info = unix.Siginfo{}
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
		if err != nil || info.Code != stopCode {
			continue // it goes on already
		}
		return syscall.Signal(*(*int32)(unsafe.Add(unsafe.Pointer(&info), statusOffset))), true
	}
}
