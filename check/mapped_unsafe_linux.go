package check

import (
	"os"
	"syscall"
	"unsafe"
)

var pageSize = uint64(os.Getpagesize())

// Unsafe: The system writes one byte, of a variable. It only looks at the address.

// mapped reports whether the page of an address is mapped.
func mapped(at uint64) bool {
	var resident byte
	_, _, code := syscall.Syscall(syscall.SYS_MINCORE, uintptr(at&^(pageSize-1)), 1, uintptr(unsafe.Pointer(&resident)))
	return code != syscall.ENOMEM
}
