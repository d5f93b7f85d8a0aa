//go:build (amd64 || arm64) && !android && !faketime

package libcuda

// boundCall is the address of a C function in bound_linux_*.s. Its arguments are
// those of a frame: it calls cuCtxSetCurrent with the context and, when that
// succeeds, the function with the rest. So the way to C is gone once for both,
// and on one thread without locking it.
var boundCall uintptr

// callBound makes the context of f current and calls its function.
func callBound(f *frame, n int) uintptr { return syscallN(boundCall, f[:3+n]...) }
