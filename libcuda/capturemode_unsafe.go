package libcuda

import (
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// captureModes has variables that C reads the new mode from and writes the old one to. A
// variable of the stack would be allocated in every call.
var captureModes = sync.Pool{New: func() any { return new(cu.StreamCaptureMode) }}

// ThreadExchangeStreamCaptureMode calls cuThreadExchangeStreamCaptureMode; see
// [cu.Streams].
func (d *Driver) ThreadExchangeStreamCaptureMode(mode cu.StreamCaptureMode) (previous cu.StreamCaptureMode, err error) {
	p := captureModes.Get().(*cu.StreamCaptureMode)
	*p = mode
	err = d.call3(procThreadExchangeStreamCaptureMode, uintptr(unsafe.Pointer(p)), 0, 0)
	if err == nil {
		previous = *p
	}
	captureModes.Put(p)
	return previous, err
}
