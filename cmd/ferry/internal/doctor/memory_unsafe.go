package doctor

import (
	"runtime"
	"unsafe"
)

// Unsafe: What C gets is pinned by a frame until the call has returned, with a length of
// its own.

// frame has the memory of C calls: it stays alive and in place until release.
type frame struct{ pin runtime.Pinner }

func (f *frame) release() { f.pin.Unpin() }

// bytes returns the address of b, which is not empty.
func (f *frame) bytes(b []byte) uintptr {
	f.pin.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// text returns the address of a C string.
func (f *frame) text(s string) uintptr { return f.bytes(append([]byte(s), 0)) }

// ints returns the address of an array of unsigned int, which is not empty.
func (f *frame) ints(all []uint32) uintptr {
	f.pin.Pin(&all[0])
	return uintptr(unsafe.Pointer(&all[0]))
}

// longs returns the address of an array of unsigned long long, which is not empty.
func (f *frame) longs(all []uint64) uintptr {
	f.pin.Pin(&all[0])
	return uintptr(unsafe.Pointer(&all[0]))
}
