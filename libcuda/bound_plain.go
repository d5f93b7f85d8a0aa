//go:build !linux || (!amd64 && !arm64) || android || faketime

package libcuda

// callBound makes the context of f current and calls its function.
func callBound(f *frame, n int) uintptr { return callBoundPlain(f, n) }
