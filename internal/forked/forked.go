// Package forked notices that this process was made by fork from a process that had started a
// driver. Such a child has one thread, whatever its parent was doing: locks of other threads stay
// held, and nothing works for the device. So both drivers refuse every call there, as CUDA does
// with CUDA_ERROR_NOT_INITIALIZED. Programs that os/exec starts are no such children.
//
// On Linux the kernel fills a page with zeros in the child (MADV_WIPEONFORK), so that a call
// costs one load. Where it cannot, Child compares the process id. Other systems have no fork that
// Go could survive, and Child is false there.
package forked

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Error is the error of a call in a child. It unwraps to cu.ErrorNotInitialized.
type Error struct {
	What          string // the call
	Parent, Child int    // ids of the process that started the driver, and of this one
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: process %d was made by fork from process %d, which started the driver: CUDA does not work in a forked child; use os/exec to start a program",
		e.What, cu.ErrorNotInitialized.Name(), e.Child, e.Parent)
}

func (e *Error) Unwrap() error { return cu.ErrorNotInitialized }
