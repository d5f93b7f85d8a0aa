package entry

import (
	"math"
	"structs"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Words of a frame are addresses of C's memory. Text is copied before the call returns. A
// wrong address is a fault that Call turns into an error.

// Frame is a call of C: what a stub hands over, and what it gets back. The struct frame of
// library.h has the same layout.
type Frame struct {
	_ structs.HostLayout

	Call uint64 // the number of the function
	Ctx  uint64 // the context that is current in the calling thread
	In   [16]uint64
	Out  [8]uint64
}

// pointer returns an argument that is an address.
func (f *Frame) pointer(i int) unsafe.Pointer {
	if isSmall(f.In[i]) {
		f.In[i] += page
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&f.In[i]))
}

// isSmall reports whether an address is below page, as one from NULL and the offset of a field is. Go's
// runtime ends the process when it finds such a pointer on a stack, so it is moved to the next page, where
// no program has memory either.
func isSmall(word uint64) bool { return word > 0 && word < page }

// pointerAt returns an address that stands in memory of the program.
//
//go:noinline
func pointerAt(at *uint64) unsafe.Pointer {
	if word := *at; isSmall(word) {
		word += page
		at = &word
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(at))
}

// rectangle returns an argument that is a Memcpy2D, and box one that is a Memcpy3D. They are copies on the
// stack of the stub.
func (f *Frame) rectangle(i int) *cu.Memcpy2D {
	c := (*cu.Memcpy2D)(f.pointer(i))
	makeLegal(&c.SrcHost)
	makeLegal(&c.DstHost)
	return c
}

func (f *Frame) box(i int) *cu.Memcpy3D {
	c := (*cu.Memcpy3D)(f.pointer(i))
	makeLegal(&c.SrcHost)
	makeLegal(&c.DstHost)
	return c
}

// makeLegal moves an address in memory of C if it is small.
func makeLegal(at *cu.HostPtr) {
	if word := (*uint64)(unsafe.Pointer(at)); isSmall(*word) {
		*word += page
	}
}

// text returns an argument that is a string of C, of which the stub has measured the length.
func (f *Frame) text(i int) string {
	return string(unsafe.Slice((*byte)(f.pointer(i)), int(f.In[i+1])))
}

// page is the lowest address that a program can have.
const page = 4096

// isNull reports whether an address is NULL, or was so near it that it has been moved.
func isNull(p unsafe.Pointer) bool { return uintptr(p) < 2*page }

// most is more values than any list of a call has.
const most = 1 << 32

// list returns n values of C's memory. It is nil for NULL, for a number that is no length, and where
// the values would reach beyond the last address.
func list[T any](p unsafe.Pointer, n uint64) []T {
	if isNull(p) || n > most {
		return nil
	}
	var x T
	if uint64(uintptr(p)) > math.MaxUint64-n*uint64(unsafe.Sizeof(x)) {
		return nil
	}
	return unsafe.Slice((*T)(p), int(n))
}
