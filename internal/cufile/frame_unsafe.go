package cufile

import (
	"runtime"
	"unsafe"
)

// Unsafe: What C gets is pinned by a frame until the call has returned, with a length of its own.

// frame has the memory of C calls: it stays alive and in place until release.
type frame struct{ pin runtime.Pinner }

func (f *frame) release() { f.pin.Unpin() }

// bytes returns the address of b, which is not empty.
func (f *frame) bytes(b []byte) uintptr {
	f.pin.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}
