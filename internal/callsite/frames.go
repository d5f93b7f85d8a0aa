//go:build amd64 || arm64

package callsite

// framePointers writes the return addresses of the goroutine's stack to pcs, the innermost first,
// and returns how many. They are those of the compiled functions, so an inlined call has none:
// runtime.Callers finds these, but takes 30 times as long. The same addresses mean the same
// stack, so they are a key for what Callers has found once.
//
//go:noescape
func framePointers(pcs *[maxDepth]uintptr) int

// goroutine returns the address of the runtime's record of the calling goroutine.
func goroutine() uintptr
