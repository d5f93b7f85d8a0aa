package pin

import (
	"fmt"

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

// sizeText writes a number of bytes for people.
func sizeText(n uint64) string {
	for _, u := range []struct {
		shift uint
		name  string
	}{{40, "TiB"}, {30, "GiB"}, {20, "MiB"}, {10, "KiB"}} {
		if n >= 1<<u.shift {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(uint64(1)<<u.shift), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
