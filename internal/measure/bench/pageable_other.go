//go:build !linux

package bench

// allocPageable allocates pageable memory from Go's heap.
func allocPageable(n int, _ bool, _ *closers) ([]byte, error) { return make([]byte, n), nil }
