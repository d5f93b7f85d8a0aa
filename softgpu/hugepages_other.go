//go:build !linux

package softgpu

// hugePages is not known here.
func hugePages(base, end uint64) bool { return false }
