package soft

import "unsafe"

// Unsafe: elements views bytes as numbers in the host's order. Buffers come from make or from messages
// and begin at an address that Go aligns for 8 bytes, or at a multiple of the size after it.

// elements returns the numbers in data.
func elements[T any](data []byte) []T {
	if len(data) == 0 {
		return nil
	}
	var zero T
	size := unsafe.Sizeof(zero)
	p := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(p)%size != 0 {
		panic("BUG: elements of a communicator are not aligned")
	}
	return unsafe.Slice((*T)(p), uintptr(len(data))/size)
}
