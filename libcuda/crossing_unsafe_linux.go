//go:build (amd64 || arm64) && !android && !faketime

package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// These are the addresses of the C functions in crossing_linux_*.s. Their result is
// that of the last function called.
var callCode, shortCode, crossingCode, nothingCode uintptr

// cgocall is the runtime's way to C, which purego's SyscallN goes, too, after
// laying out 32 arguments twice. onStack is the same for what may be on the stack,
// which is in place until C is called: it moves in a call that C makes of Go, and at
// no other time before cgocall returns.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

//go:linkname onStack runtime.cgocall
//go:noescape
func onStack(fn uintptr, arg unsafe.Pointer) int32

func (c *call) make() cu.Result { return cu.Result(onStack(callCode, unsafe.Pointer(c))) }

func (c *shortCall) make() cu.Result { return cu.Result(onStack(shortCode, unsafe.Pointer(c))) }

func (c *crossing) make() cu.Result { return cu.Result(cgocall(crossingCode, unsafe.Pointer(c))) }

// Nothing goes to C and back as every call does, to a function that does nothing and
// needs no context. It is there to be measured.
func Nothing() {
	c := shortCall{fn: nothingCode}
	c.make()
}
