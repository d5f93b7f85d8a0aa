package libcuda

import (
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

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
