package libcuda

import (
	"runtime"
	"structs"

	"github.com/ferrygpu/ferry/cu"
)

// maxArgs is the most arguments of a function.
const maxArgs = 11

// step is a C function and its arguments. It need not use all of them.
type step [1 + maxArgs]uintptr

// crossing is one way to C and back: it makes ctx current and calls the functions
// of the steps until one fails. The assembly knows the offsets.
type crossing struct {
	_      structs.HostLayout
	set    uintptr // cuCtxSetCurrent
	ctx    uintptr
	steps  *step // the first of n, at least 1
	n      uintptr
	done   uintptr // steps that succeeded
	result uint32  // of the last function called
}

// err is the error of what was called last.
func (c *crossing) err() error { return result(uintptr(c.result)) }

// crossPlain makes the calls of a crossing one after the other on one thread.
func crossPlain(c *crossing) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if c.result = uint32(syscallN(c.set, c.ctx)); c.result != uint32(cu.Success) {
		return
	}
	for _, s := range c.list() {
		if c.result = uint32(syscallN(s[0], s[1:]...)); c.result != uint32(cu.Success) {
			return
		}
		c.done++
	}
}
