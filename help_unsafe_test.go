package ferry_test

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// asByteArrays is the memory of a slice, as arrays of one byte.
func asByteArrays[T any](s []T) [][1]byte {
	return unsafe.Slice((*[1]byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// asBytes is the memory of a slice.
func asBytes[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// hostPointer is a device address that is a host address, too.
func hostPointer(p cu.DevicePtr) unsafe.Pointer {
	n := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}

// deviceAddress is a host address as the device address that it is under unified addressing.
func deviceAddress(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

// pointerTo is the host address of a slice. The caller keeps the slice alive.
func pointerTo(b []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(b)) }
