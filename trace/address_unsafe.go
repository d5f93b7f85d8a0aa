package trace

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: A pointer becomes a number to compare, and never a pointer again.

// addressOf returns the address of host memory.
func addressOf(p cu.HostPtr) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
