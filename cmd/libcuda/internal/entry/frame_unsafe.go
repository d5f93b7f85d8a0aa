package entry

import (
	"math"
	"structs"
	"unsafe"
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
func (f *Frame) pointer(i int) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&f.In[i])) }

// text returns an argument that is a string of C, of which the stub has measured the length.
func (f *Frame) text(i int) string {
	return string(unsafe.Slice((*byte)(f.pointer(i)), int(f.In[i+1])))
}

// page is the lowest address that a program can have.
const page = 4096

// isNull reports whether an address is NULL, or so near it that it comes from NULL.
func isNull(p unsafe.Pointer) bool { return uintptr(p) < page }

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
