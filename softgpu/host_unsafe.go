package softgpu

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// addressOf is the address of host memory as a number.
func addressOf(p cu.HostPtr) uint64 { return uint64(uintptr(p)) }

// pointerTo is the first byte of data.
func pointerTo(data []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(data)) }

// bytesAt is n bytes of the caller's memory at p, which may be many variables.
//
//go:nocheckptr
func bytesAt(p cu.HostPtr, n uint64) []byte { return unsafe.Slice((*byte)(p), n) }

// hostPointer is the pointer of a host address that came as a device address,
// which under unified addressing is the same number.
func hostPointer(addr uint64) cu.HostPtr {
	p := uintptr(addr)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
