package compile

import (
	"runtime"
	"unsafe"
)

// Unsafe: What C gets is pinned by a frame until the call has returned. C memory that is
// read is bounded by a length that the same library returned.

// library calls a function of a C library by its name. An argument that points to memory
// comes from a [frame].
type library func(name string, args ...uintptr) (uintptr, error)

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

// text returns the address of a C string.
func (f *frame) text(s string) uintptr { return f.bytes(append([]byte(s), 0)) }

// texts returns the address of an array of C strings, or 0 if there are none.
func (f *frame) texts(all []string) uintptr {
	if len(all) == 0 {
		return 0
	}
	array := make([]uintptr, len(all))
	for i, s := range all {
		array[i] = f.text(s)
	}
	f.pin.Pin(&array[0])
	return uintptr(unsafe.Pointer(&array[0]))
}

// word returns the address of a size or a handle.
func (f *frame) word(p *uintptr) uintptr {
	f.pin.Pin(p)
	return uintptr(unsafe.Pointer(p))
}

// ints returns the address of an array of int, or 0 if it is empty.
func (f *frame) ints(all []int32) uintptr {
	if len(all) == 0 {
		return 0
	}
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
