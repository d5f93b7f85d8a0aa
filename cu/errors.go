package cu

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
)

// NotSupportedError reports that a driver lacks a function. It wraps
// [ErrorNotSupported].
type NotSupportedError struct {
	Call  string // the CUDA function, "cuGraphExecUpdate"
	Needs string // what has the function, "CUDA 12.0 or newer"
	Found string // what was found, "driver 11.4"
}

func (e *NotSupportedError) Error() string {
	return fmt.Sprintf("%s needs %s, found %s: %s", e.Call, e.Needs, e.Found, ErrorNotSupported.Name())
}

func (e *NotSupportedError) Unwrap() error { return ErrorNotSupported }

// JITError reports PTX that did not compile, or images that could not be linked. It
// wraps the driver's [Result].
type JITError struct {
	Result Result
	Log    string // the messages of the compiler or linker, as it wrote them
	Op     string // the operation that failed; "" for "compile PTX"
}

func (e *JITError) op() string {
	if e.Op == "" {
		return "compile PTX"
	}
	return e.Op
}

func (e *JITError) Error() string {
	first, rest, more := strings.Cut(strings.TrimSpace(e.Log), "\n")
	if more && strings.TrimSpace(rest) != "" {
		first += " [...]"
	}
	return fmt.Sprintf("%s: %s: %s", e.op(), e.Result.Name(), printable.Line(first))
}

// Format prints the whole log for %+v.
func (e *JITError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "%s: %s:\n%s", e.op(), e.Result.Name(), printable.Text(e.Log))
		return
	}
	fmt.Fprint(s, e.Error())
}

func (e *JITError) Unwrap() error { return e.Result }

// Fault reports a kernel that failed, a copy or fill of memory that was freed, or a virtual clock
// that was stopped, with what the driver knows about it. The software GPU sets every field that applies, hardware only the
// result. Fault wraps [Result], which is sticky: the context cannot be used any more.
type Fault struct {
	Result Result
	Kernel string    // "" for a copy, a fill or the virtual clock
	Block  Dim3      // index of the block in the grid
	Thread Dim3      // index of the thread in the block
	Line   int       // line of the PTX, from 1
	Source string    // line of the source of the PTX, such as "shift.cu:20", if the PTX has it
	Op     string    // the instruction; or the copy or fill, such as "fill 64 bytes"
	Addr   DevicePtr // the address of a bad access
	Bytes  int       // the size of a bad access; 0 for other faults
	Near   string    // a text about the nearest allocation
	Why    string    // a text about the reason, where the code does not name it, and what to do
	Cause  error     // why the kernel was ended, if it was ended from outside; wrapped too
}

func (e *Fault) Error() string {
	var b strings.Builder
	if e.Kernel == "" {
		fmt.Fprintf(&b, "%s: %s", e.Op, e.Result.Name())
		if e.Bytes > 0 || e.Near != "" {
			b.WriteString(": access")
		}
	} else {
		fmt.Fprintf(&b, "kernel %s: %s", e.Kernel, e.Result.Name())
		if e.Op != "" {
			fmt.Fprintf(&b, ": %s", e.Op)
		}
	}
	if e.Bytes > 0 {
		fmt.Fprintf(&b, " of %d bytes at %#x", e.Bytes, uint64(e.Addr))
	}
	if e.Kernel != "" {
		fmt.Fprintf(&b, " by thread (%d,%d,%d) of block (%d,%d,%d)",
			e.Thread.X, e.Thread.Y, e.Thread.Z, e.Block.X, e.Block.Y, e.Block.Z)
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ", PTX line %d", e.Line)
	}
	if e.Source != "" {
		fmt.Fprintf(&b, ", %s", e.Source)
	}
	if e.Near != "" {
		fmt.Fprintf(&b, "; %s", e.Near)
	}
	if e.Why != "" {
		fmt.Fprintf(&b, "; %s", e.Why)
	}
	return printable.Line(b.String())
}

// Unwrap returns the result, and the cause if there is one.
func (e *Fault) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Result}
	}
	return []error{e.Result, e.Cause}
}
