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
