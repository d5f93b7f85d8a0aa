package stage

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// bytesAt is the n bytes at p.
func bytesAt(p cu.HostPtr, n int) []byte { return unsafe.Slice((*byte)(p), n) }
