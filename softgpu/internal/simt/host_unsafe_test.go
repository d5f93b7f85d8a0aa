package simt

import (
	"sync/atomic"
	"unsafe"
)

// word returns a 32-bit word of memory that a kernel shares with the host.
func word(b []byte, i int) *atomic.Int32 {
	return (*atomic.Int32)(unsafe.Pointer(&b[4*i]))
}
