package pin

import (
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses stay within a reservation or a slice: callers add offsets below its
// length. Only reserved memory is touched.

// address is a host address.
type address = cu.HostPtr

// at returns the address n bytes after p.
func at(p address, n uintptr) address { return unsafe.Add(p, n) }

// touch writes to the page at p, so that the system puts memory behind it. The bytes of
// fresh memory are zero, and stay so.
func touch(p address) { atomic.StoreUint32((*uint32)(p), 0) }

// number returns the address as a number.
func number(p address) uintptr { return uintptr(p) }

// startOf returns where the bytes of a slice begin, rounded up to a multiple of align.
func startOf(b []byte, align uintptr) address {
	p := unsafe.Pointer(unsafe.SliceData(b))
	return unsafe.Add(p, (align-uintptr(p)%align)%align)
}
