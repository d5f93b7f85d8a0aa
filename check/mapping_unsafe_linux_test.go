package check_test

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

const canMap = true

// mappings are the pages so far. Each is at an address that nothing else gets, so that it
// stays unmapped when unmap has returned.
var mappings atomic.Uintptr

// mapping maps n bytes, at most three pages.
func mapping(n int) []byte {
	const base, flags = 0x4000_0000_0000, syscall.MAP_ANON | syscall.MAP_PRIVATE
	at := uintptr(base) + 8*mappings.Add(1)*65536
	got, _, code := syscall.Syscall6(syscall.SYS_MMAP, at, uintptr(n), syscall.PROT_READ|syscall.PROT_WRITE, flags, ^uintptr(0), 0)
	if code != 0 {
		panic(code)
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&got)), n)
}

func unmap(p []byte) {
	if _, _, code := syscall.Syscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0); code != 0 {
		panic(code)
	}
}
