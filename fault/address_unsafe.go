package fault

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// addressOf returns the address of host memory.
func addressOf(p cu.HostPtr) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
