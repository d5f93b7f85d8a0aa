//go:build !linux

package pin

// hostSystem returns nil: here only the driver can allocate page-locked memory.
func hostSystem() system { return nil }
