//go:build !linux

package hostmap

// Hint says why the memory of a range may not be page-locked; only Linux
// tells.
func Hint(start, end uint64, readOnly bool) string { return "" }
