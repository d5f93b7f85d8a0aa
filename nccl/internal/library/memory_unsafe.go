package library

import (
	"runtime"
	"unsafe"
)

// Unsafe: What C gets is pinned by a frame until the call has returned. C strings are read up to a
// bound.

// frame has the memory of C calls: it stays alive and in place until release.
type frame struct{ pin runtime.Pinner }

func (f *frame) release() { f.pin.Unpin() }

// bytes returns the address of b, or 0 if b is empty.
func (f *frame) bytes(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	f.pin.Pin(&b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// word returns the address of a handle.
func (f *frame) word(p *uintptr) uintptr {
	f.pin.Pin(p)
	return uintptr(unsafe.Pointer(p))
}

// ints returns the address of an array of int.
func (f *frame) ints(all []int32) uintptr {
	f.pin.Pin(&all[0])
	return uintptr(unsafe.Pointer(&all[0]))
}

// maxCString is how many bytes of a C string are read.
const maxCString = 4096

// goString returns the text of a C string that is not freed.
func goString(address uintptr) string {
	if address == 0 {
		return ""
	}
	var text []byte
	p := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	for i := range maxCString {
		c := *(*byte)(unsafe.Add(p, i))
		if c == 0 {
			break
		}
		text = append(text, c)
	}
	return string(text)
}
