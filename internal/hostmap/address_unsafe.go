package hostmap

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// addressAt returns the address n bytes after p.
func addressAt(p cu.HostPtr, n uintptr) cu.HostPtr { return unsafe.Add(p, n) }
