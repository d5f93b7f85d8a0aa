//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The argument of cgocall is a struct of the form that the assembly reads. C does
// not call Go while it is on the stack.

// These are the addresses of the C functions in crossing_linux_*.s. Each returns the
// result of the last function that it called.
var callCode, shortCode, crossingCode, nothingCode uintptr

// cgocall calls a C function. purego's SyscallN also uses it, after it has copied 32
// arguments twice. The variant onStack is the same function for an argument that may be
// on the stack. The stack moves only when C calls Go, and not before C has been called.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

//go:linkname onStack runtime.cgocall
//go:noescape
func onStack(fn uintptr, arg unsafe.Pointer) int32

func (c *call) make() cu.Result { return cu.Result(onStack(callCode, unsafe.Pointer(c))) }

func (c *shortCall) make() cu.Result { return cu.Result(onStack(shortCode, unsafe.Pointer(c))) }

func (c *crossing) make() cu.Result { return cu.Result(cgocall(crossingCode, unsafe.Pointer(c))) }

// Nothing calls a C function that does nothing, in the way of every other call but
// without a context. It is for measurements.
func Nothing() {
	c := shortCall{fn: nothingCode}
	c.make()
}
