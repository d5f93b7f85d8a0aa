//go:build race || (!unix && !windows)

package softgpu

import "unsafe"

// goHeap allocates page-aligned memory of the Go heap.
func goHeap(n int) (*backing, error) {
	raw := make([]byte, n+pageSize)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pageSize - 1)
	return &backing{data: raw[skip : skip+uintptr(n) : skip+uintptr(n)]}, nil
}
