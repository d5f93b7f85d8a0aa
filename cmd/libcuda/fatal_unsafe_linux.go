//go:build cgo

package main

import (
	"bytes"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Unsafe: Go's runtime hands over the address of a text, which stays its own. A linkname finds its
// variable, because the runtime exports none.

// overrideWrite is the function by which Go's runtime writes, if it is set. The runtime writes messages of
// fatal errors and panics, what GODEBUG asks for, what the built-in print prints, and dumps of the heap.
//
//go:linkname overrideWrite runtime.overrideWrite
var overrideWrite func(fd uintptr, text unsafe.Pointer, n int32) int32

// fatalStarts are the beginnings of messages about fatal errors.
var fatalStarts = [...][]byte{[]byte("fatal error: "), []byte("panic: "), []byte("runtime: "), []byte("SIG"), []byte("unexpected ")}

var fatalLine = []byte("ferry: libcuda.so.1 on the software GPU ends the process: its Go runtime has met the error below, which is a bug of the library or damaged memory\n")

var fatalSaid atomic.Bool

// writeOfRuntime writes a message of Go's runtime, and above the first fatal one that the library's runtime
// has met it. The runtime may be broken and its stack small, so this takes no lock, allocates nothing, and
// calls only what needs no more stack.
//
//go:nosplit
func writeOfRuntime(fd uintptr, text unsafe.Pointer, n int32) int32 {
	if startsFatally(unsafe.Slice((*byte)(text), int(n))) && !fatalSaid.Swap(true) {
		_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&fatalLine[0])), uintptr(len(fatalLine)))
	}
	written, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(text), uintptr(n))
	if e != 0 {
		return -int32(e)
	}
	return int32(written)
}

//go:nosplit
func startsFatally(text []byte) bool {
	for i := range fatalStarts {
		if bytes.HasPrefix(text, fatalStarts[i]) {
			return true
		}
	}
	return false
}

func init() { overrideWrite = writeOfRuntime }
