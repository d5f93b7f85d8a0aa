package softgpu

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The address table has found the range for host memory of Ferry. Other host
// memory is the caller's, as for a copy by CUDA.

// addressOf returns the address of host memory as a number.
func addressOf(p cu.HostPtr) uint64 { return uint64(uintptr(p)) }

// pointerTo returns a pointer to the first byte of data.
func pointerTo(data []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(data)) }

// bytesAt returns n bytes of the caller's memory at p, which may span several
// variables.
//
//go:nocheckptr
func bytesAt(p cu.HostPtr, n uint64) []byte { return unsafe.Slice((*byte)(p), n) }

// hostPointer converts a host address that was given as a device address. With
// unified addressing it is the same number.
func hostPointer(addr uint64) cu.HostPtr {
	p := uintptr(addr)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
