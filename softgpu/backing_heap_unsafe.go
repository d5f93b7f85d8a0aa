//go:build race || (!unix && !windows)

package softgpu

import "unsafe"

// Unsafe: An address becomes a number to find the alignment; the slice itself is cut with
// Go's checks.

// goHeap allocates page-aligned memory of the Go heap.
func goHeap(n int) (*backing, error) {
	raw := make([]byte, n+pageSize)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pageSize - 1)
	return &backing{data: raw[skip : skip+uintptr(n) : skip+uintptr(n)]}, nil
}
