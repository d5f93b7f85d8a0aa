package staging

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The pointer and the length are those of a slot, which the ring keeps until all
// its users have ended.

// bytesAt returns the n bytes at p.
func bytesAt(p cu.HostPtr, n int) []byte { return unsafe.Slice((*byte)(p), n) }
