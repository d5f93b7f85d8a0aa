//go:build !linux

package ferry

// lockedMemoryLimit is not known here.
func lockedMemoryLimit() (uint64, bool) { return 0, false }

// availableMemory is not known here.
func availableMemory() (uint64, bool) { return 0, false }
