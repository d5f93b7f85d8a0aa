package staging

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// bytesAt returns the n bytes at p.
func bytesAt(p cu.HostPtr, n int) []byte { return unsafe.Slice((*byte)(p), n) }
