package explain

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Slices are passed with their own length, and the caller keeps them. Numbers
// never become pointers again.

// pointerTo returns the address of a slice for the driver.
func pointerTo(b []byte) cu.HostPtr { return cu.HostPtr(unsafe.SliceData(b)) }

// addressOf returns the address of the first element of a slice.
func addressOf[T any](s []T) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) }
