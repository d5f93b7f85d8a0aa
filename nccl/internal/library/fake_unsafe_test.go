package library

import "unsafe"

// Unsafe: The addresses are those of frames, which pin the memory until the call returns.

// setInt writes an int through an out-parameter.
func setInt(at uintptr, x int32) { *(*int32)(*(*unsafe.Pointer)(unsafe.Pointer(&at))) = x }

// setWord writes a handle through an out-parameter.
func setWord(at, x uintptr) { *(*uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&at))) = x }
