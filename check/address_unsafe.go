package check

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: A pointer becomes a number to compare, and never a pointer again.

// addressOf returns the address of host memory.
func addressOf(p cu.HostPtr) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

// firstByte returns a pointer to the first byte of host memory, which is not read.
func firstByte(p cu.HostPtr) *byte { return (*byte)(unsafe.Pointer(p)) }
