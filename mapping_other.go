//go:build !linux

package ferry

// mappingHint says why the memory of a range may not be page-locked; only Linux
// tells.
func mappingHint(start, end uint64, readOnly bool) string { return "" }
