// Command libcuda is the library libcuda.so.1 on the software GPU: the CUDA driver API in C, so that
// programs in C, C++ and other languages run without a GPU. It is built as a shared library, with a
// C compiler; docs/libcuda.md has the command. Without one it is a program that says so.
//
// A call goes through a stub in C, which internal/gen writes. The stub checks what it can without
// Go, packs the arguments into a frame, and makes one call to Go. There internal/entry unpacks the
// frame and calls a cu.Driver. This package has the only cgo of the module.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "libcuda: this is a library for C programs: build it with go build -buildmode=c-shared; see docs/libcuda.md")
	os.Exit(1)
}
