package ferry_test

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// bytesOf is the memory of a slice as an array of bytes each.
func bytesOf[T any](s []T) [][1]byte {
	return unsafe.Slice((*[1]byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// flat is the memory of a slice.
func flat[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// fromDevice is a device address that is a host address, too.
func fromDevice(p cu.DevicePtr) unsafe.Pointer {
	n := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}
