package pin

import (
	"github.com/ferrygpu/ferry/cu"
)

// Error says why memory cannot be page-locked. It is found before anything is tried, and
// unwraps to the result that the driver would have returned.
type Error struct {
	Bytes  uintptr
	Node   int // NUMA node asked for, or [AnyNode]
	Why    string
	Do     string // what to do about it
	Result cu.Result
}

func (e *Error) Error() string { return e.Why + ": " + e.Do }

func (e *Error) Unwrap() error { return e.Result }

// Limited is the error of a request beyond a limit of Ferry. Fits says that there is room for it
// when other memory is given back.
type Limited struct {
	Err  *Error
	Fits bool
}

func (e *Limited) Error() string { return e.Err.Error() }

func (e *Limited) Unwrap() error { return e.Err }

// Waited is the error of a request whose context has ended while it waited for memory.
type Waited struct {
	End error // of the context
	Err error // why it waited
}

func (e *Waited) Error() string { return "wait for memory: " + e.End.Error() + ": " + e.Err.Error() }

func (e *Waited) Unwrap() []error { return []error{e.End, e.Err} }
