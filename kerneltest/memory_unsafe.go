package kerneltest

import "unsafe"

// Unsafe: The type has no Go pointers and its size divides the length. The slice shares
// memory that the run has allocated aligned.

// sliceOf returns the elements in data, which shares its memory. T has no pointers, and
// its size divides the length of data.
func sliceOf[T any](data []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(t)))
}
