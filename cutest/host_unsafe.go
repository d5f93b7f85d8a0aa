package cutest

import (
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Pointers come from the driver under test or from slices that the case keeps.
// Lengths are those of the allocation.

// hostBytes returns memory that Go did not allocate as a slice.
func hostBytes(p cu.HostPtr, n int) []byte { return unsafe.Slice((*byte)(p), n) }

// pointerTo returns the address of a slice's first byte.
func pointerTo(b []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(b)) }

// addressOf returns the address of a slice as a number, for calls that take any address.
func addressOf(b []byte) cu.DevicePtr { return cu.DevicePtr(uintptr(pointerTo(b))) }

// hostPointer converts a unified address to a pointer for the host.
func hostPointer(p cu.DevicePtr) cu.HostPtr {
	u := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&u))
}

func addressOfPointer(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

func offsetPointer(p cu.HostPtr, n int) cu.HostPtr { return unsafe.Add(p, n) }

// loadWord and storeWord access a 32-bit word that a kernel accesses at the same time.
func loadWord(b []byte, offset int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[offset])))
}

func storeWord(b []byte, offset int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[offset])), v)
}

// storeWide stores 8 bytes at once.
func storeWide(b []byte, offset int, v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[offset])), v)
}
