//go:build !linux

package trace

// nodeAt returns NoNode: this system does not say on which node a page is.
func nodeAt(uint64) int { return NoNode }
