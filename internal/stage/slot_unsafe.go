package stage

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// bytesAt is the n bytes at p.
func bytesAt(p cu.HostPtr, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// at is the address n bytes into a slot.
func (s *slot) at(n int) cu.HostPtr { return unsafe.Add(s.host, n) }
