//go:build (amd64 || arm64) && !android && !faketime

package libcuda

import "unsafe"

// crossingCode is the address of the C function in crossing_linux_*.s, which does
// what crossPlain does, without leaving C in between.
var crossingCode uintptr

// cgocall is the runtime's way to C, which purego's SyscallN goes, too, after
// laying out 32 arguments twice.
//
//go:linkname cgocall runtime.cgocall
func cgocall(fn uintptr, arg unsafe.Pointer) int32

// cross makes the calls of c.
func cross(c *crossing) { cgocall(crossingCode, unsafe.Pointer(c)) }
