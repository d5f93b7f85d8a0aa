package softgpu

import (
	"syscall"
	"unsafe"
)

// Unsafe: The system returned the address for this length, and it is unmapped only after
// the last user.

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	virtualAlloc = kernel32.NewProc("VirtualAlloc")
	virtualFree  = kernel32.NewProc("VirtualFree")
)

const (
	memCommit     = 0x1000
	memReserve    = 0x2000
	memRelease    = 0x8000
	pageReadWrite = 0x04
)

// reservesLazily is false: the system counts committed pages, and refuses more than it has.
const reservesLazily = false

// reserve commits pages. The system provides them when they are touched.
func reserve(n int) (*backing, error) {
	addr, _, err := virtualAlloc.Call(0, uintptr(n), memCommit|memReserve, pageReadWrite)
	if addr == 0 {
		return nil, err
	}
	return &backing{
		data:  unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n),
		unmap: func() { virtualFree.Call(addr, 0, memRelease) },
	}, nil
}
