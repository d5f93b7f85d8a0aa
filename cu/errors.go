package cu

import (
	"fmt"
	"strings"
)

// NotSupportedError says that a driver lacks a function. It wraps
// [ErrorNotSupported].
type NotSupportedError struct {
	Call  string // the CUDA function, "cuGraphExecUpdate"
	Needs string // what has it, "CUDA 12.0 or newer"
	Found string // what is there, "driver 11.4"
}

func (e *NotSupportedError) Error() string {
	return fmt.Sprintf("%s needs %s, found %s: %s", e.Call, e.Needs, e.Found, ErrorNotSupported.Name())
}

func (e *NotSupportedError) Unwrap() error { return ErrorNotSupported }

// JITError is PTX that did not compile. It wraps the driver's [Result].
type JITError struct {
	Result Result
	Log    string // the compiler's messages, as it wrote them
}

func (e *JITError) Error() string {
	first, rest, more := strings.Cut(strings.TrimSpace(e.Log), "\n")
	if more && strings.TrimSpace(rest) != "" {
		first += " [...]"
	}
	return fmt.Sprintf("compile PTX: %s: %s", e.Result.Name(), first)
}

// Format prints the whole log for %+v.
func (e *JITError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "compile PTX: %s:\n%s", e.Result.Name(), e.Log)
		return
	}
	fmt.Fprint(s, e.Error())
}

func (e *JITError) Unwrap() error { return e.Result }

// Fault is a kernel that went wrong, as closely as the driver can tell: the
// software GPU knows every field, hardware only the result. It wraps [Result],
// which is sticky: the context is of no more use.
type Fault struct {
	Result Result
	Kernel string
	Block  Dim3   // index of the block in the grid
	Thread Dim3   // index of the thread in the block
	Line   int    // of the PTX, from 1
	Source string // file:line of what the PTX was compiled from, where it says
	Op     string
	Addr   DevicePtr // the address, where there is one
	Bytes  int       // how many there
	Near   string    // the nearest allocation, in words
	Why    string    // what went wrong, where the code does not say it, and what to do
	Cause  error     // why the kernel was ended, when somebody ended it; wrapped too
}

func (e *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s: %s", e.Kernel, e.Result.Name())
	if e.Op != "" {
		fmt.Fprintf(&b, ": %s", e.Op)
	}
	if e.Bytes > 0 {
		fmt.Fprintf(&b, " of %d bytes at %#x", e.Bytes, uint64(e.Addr))
	}
	fmt.Fprintf(&b, " by thread (%d,%d,%d) of block (%d,%d,%d)",
		e.Thread.X, e.Thread.Y, e.Thread.Z, e.Block.X, e.Block.Y, e.Block.Z)
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
	return b.String()
}

// Unwrap is the result, and the cause where there is one.
func (e *Fault) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Result}
	}
	return []error{e.Result, e.Cause}
}
