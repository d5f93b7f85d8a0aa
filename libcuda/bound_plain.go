package libcuda

import "github.com/ferrygpu/ferry/cu"

// callBound calls fn with ctx current.
func callBound(set uintptr, ctx cu.Context, fn uintptr, args []uintptr) uintptr {
	return callBoundPlain(set, ctx, fn, args)
}
