package libcuda

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// Driver is an open driver library, made by [Open]. It is safe for concurrent use. It is
// never closed: the library does not survive being unloaded. On a nil or a zero Driver, Init
// returns an error, and the other methods panic.
type Driver struct {
	lib      library
	version  int32 // newest CUDA version the driver knows; 0 if it did not say
	contexts contextTable
	procs    [procCount]atomic.Uintptr
	panics   panicTable
	log      callLog
}

var _ cu.Driver = (*Driver)(nil)

// Path returns the file of the library. Symbolic links are followed where the system
// shows the target; the name then ends in the driver's version:
// "libcuda.so.580.65.06".
func (d *Driver) Path() string { return d.lib.path }

// procID is the index of a function in procs.
type procID int

// proc is a function of the library.
type proc struct {
	symbol  string // the name in the manual
	export  string // the name of the form used, for drivers before cuGetProcAddress
	version int    // the CUDA version that introduced that form
}

// result returns the error for the result of a C function.
func result(r cu.Result) error {
	switch r {
	case cu.Success:
		return nil
	case cu.ErrorNotReady:
		return cu.ErrorNotReady // converting a constant allocates nothing, so polling does not
	default:
		return processLoss.Report(r)
	}
}

// processLoss remembers the fault that lost the contexts of the process, on all devices.
var processLoss cu.Loss

// Loss remembers the fault that lost the contexts of the process; see [cu.Losing].
func (d *Driver) Loss() *cu.Loss { return &processLoss }

// cString appends a zero byte to text. It refuses text with a zero byte inside, which
// C would read as a shorter name.
func cString(symbol, text string) ([]byte, error) {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, fmt.Errorf("%s: name %q has a zero byte at %d: %w", symbol, text, i, cu.ErrorInvalidValue)
	}
	return append([]byte(text), 0), nil
}

// goString returns the text in b up to the first zero byte.
func goString(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}
