//go:build cgo

package main

/*
#cgo CFLAGS: -O2 -fno-strict-aliasing
#include <stddef.h>
#include <stdint.h>
uint64_t ferry_thread(void);
uintptr_t ferry_caller(void);
void ferry_host_func(uintptr_t fn, uintptr_t data);
void ferry_stream_callback(uintptr_t fn, uintptr_t stream, int status, uintptr_t data);
size_t ferry_block_size(void *fn, int block);
const char *ferry_variable(size_t i);
void ferry_print(void *text, size_t n);
*/
import "C"

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cmd/libcuda/internal/entry"
)

// Unsafe: A frame is memory of C, on the stack of the stub that waits for the call. Functions and
// their data are addresses of C that only C uses.

// ferryCall makes the call of a frame and returns its CUresult.
//
//export ferryCall
func ferryCall(f unsafe.Pointer) C.int { return C.int(entry.Call((*entry.Frame)(f))) }

// ferryBegin prepares the calling thread for Go.
//
//export ferryBegin
func ferryBegin() {}

// ferryEnd closes the driver when the process ends.
//
//export ferryEnd
func ferryEnd() { entry.End() }

// host calls functions of the program.
type host struct{}

func (host) Thread() uint64 { return uint64(C.ferry_thread()) }

func (host) Caller() uintptr { return uintptr(C.ferry_caller()) }

func (host) HostFunc(fn, data uintptr) { C.ferry_host_func(C.uintptr_t(fn), C.uintptr_t(data)) }

func (host) StreamCallback(fn, stream uintptr, status uint32, data uintptr) {
	C.ferry_stream_callback(C.uintptr_t(fn), C.uintptr_t(stream), C.int(status), C.uintptr_t(data))
}

func (host) BlockSize(fn unsafe.Pointer, block int32) uintptr {
	return uintptr(C.ferry_block_size(fn, C.int(block)))
}

func (host) Print(text string) {
	C.ferry_print(unsafe.Pointer(unsafe.StringData(text)), C.size_t(len(text)))
}

func (host) Environment() (all []string) {
	for i := C.size_t(0); ; i++ {
		text := C.ferry_variable(i)
		if text == nil {
			return all
		}
		all = append(all, C.GoString(text))
	}
}

func init() { entry.Use(host{}) }
