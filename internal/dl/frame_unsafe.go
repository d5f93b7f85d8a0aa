package dl

import (
	"runtime"
	"unsafe"
)

// Unsafe: What C gets is pinned by a frame until the call has returned. C strings are read up to a bound.

// Frame has the memory of C calls: it stays alive and in place until Release. The zero Frame has none. It
// is not safe for concurrent use.
type Frame struct{ pin runtime.Pinner }

// Release ends the frame. It can be used again.
func (f *Frame) Release() { f.pin.Unpin() }

// Bytes returns the address of b, or 0 if b is empty.
func (f *Frame) Bytes(b []byte) uintptr { return Array(f, b) }

// Text returns the address of a C string.
func (f *Frame) Text(s string) uintptr { return f.Bytes(append([]byte(s), 0)) }

// Texts returns the address of an array of C strings, or 0 if there are none.
func (f *Frame) Texts(all []string) uintptr {
	array := make([]uintptr, len(all))
	for i, s := range all {
		array[i] = f.Text(s)
	}
	return Array(f, array)
}

// Word returns the address of a size or a handle.
func (f *Frame) Word(p *uintptr) uintptr {
	f.pin.Pin(p)
	return uintptr(unsafe.Pointer(p))
}

// Array returns the address of an array in the memory of f, or 0 if it is empty.
func Array[T byte | int32 | uint32 | uint64 | uintptr](f *Frame, all []T) uintptr {
	if len(all) == 0 {
		return 0
	}
	f.pin.Pin(&all[0])
	return uintptr(unsafe.Pointer(&all[0]))
}

// maxString is how many bytes of a C string are read.
const maxString = 4096

// String returns the text of a C string, which is not freed: "" for NULL, and at most 4096 bytes.
func String(address uintptr) string {
	if address == 0 {
		return ""
	}
	var text []byte
	p := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	for i := range maxString {
		c := *(*byte)(unsafe.Add(p, i))
		if c == 0 {
			break
		}
		text = append(text, c)
	}
	return string(text)
}
