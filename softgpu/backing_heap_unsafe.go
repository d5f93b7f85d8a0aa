//go:build race || (!unix && !windows)

package softgpu

import "unsafe"

// reserve takes page-aligned memory of the Go heap: the only kind there is on
// some systems, and the only kind that the race detector sees.
func reserve(n int) (*backing, error) {
	raw := make([]byte, n+pageSize)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pageSize - 1)
	return &backing{data: raw[skip : skip+uintptr(n) : skip+uintptr(n)]}, nil
}
