package libcuda

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// Driver is an open driver library. It is safe for concurrent use. It is never
// closed: the library does not survive being unloaded.
type Driver struct {
	lib      library
	version  int32 // newest CUDA version the driver knows; 0 if it did not say
	contexts contextTable
	procs    [procCount]atomic.Uintptr
	panics   panicTable
}

var _ cu.Driver = (*Driver)(nil)

// Path is the file of the library, with symbolic links followed where the system
// tells, so that its name ends in the driver's version: "libcuda.so.580.65.06".
func (d *Driver) Path() string { return d.lib.path }

// procID is the index of a function in procs.
type procID int

// proc is a function of the library.
type proc struct {
	symbol  string // the name in the manual
	export  string // the name of the form used, for drivers before cuGetProcAddress
	version int    // the CUDA version that introduced that form
}

// result is the error of a C function's answer.
func result(r cu.Result) error {
	switch r {
	case cu.Success:
		return nil
	case cu.ErrorNotReady:
		return cu.ErrorNotReady // a constant: polling allocates nothing
	default:
		return r
	}
}

// cString is text with a zero byte at its end. Text that has one inside would be
// another name to C.
func cString(symbol, text string) ([]byte, error) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, fmt.Errorf("%s: name %q has a zero byte at %d: %w", symbol, text, i, cu.ErrorInvalidValue)
	}
	return append([]byte(text), 0), nil
}

// goString is the text in b up to the first zero byte.
func goString(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}
