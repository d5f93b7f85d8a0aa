package hostmap

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The sum stays in the range that the map has recorded for the same memory.

// addressAt returns the address n bytes after p.
func addressAt(p cu.HostPtr, n uintptr) cu.HostPtr { return unsafe.Add(p, n) }
