//go:build !linux

package hostmap

// Hint says why the memory of a range may not be page-locked. It finds reasons on Linux
// only.
func Hint(start, end uint64, readOnly bool) string { return "" }
