package pin

import (
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// address is a host address.
type address = cu.HostPtr

// at is n bytes after p.
func at(p address, n uintptr) address { return unsafe.Add(p, n) }

// touch writes the first byte at p's page, so that memory is behind it. Fresh
// memory is zero, and stays so.
func touch(p address) { atomic.StoreUint32((*uint32)(p), 0) }

// number is the address as a number.
func number(p address) uintptr { return uintptr(p) }

// startOf is where a slice's bytes are, rounded up.
func startOf(b []byte, align uintptr) address {
	p := unsafe.Pointer(unsafe.SliceData(b))
	return unsafe.Add(p, (align-uintptr(p)%align)%align)
}
