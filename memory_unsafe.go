package ferry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// addressAt is n bytes after p; nil stays nil.
func addressAt(p cu.HostPtr, n uintptr) cu.HostPtr {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, n)
}

// hostAddress is a device address that is a host address, too, as that of
// managed memory is.
func hostAddress(p cu.DevicePtr) cu.HostPtr {
	n := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}

// deviceAddress is a host address that is a device address, too.
func deviceAddress(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

// sliceAt is the n elements at p; it is not nil even for none.
func sliceAt[T any](p cu.HostPtr, n int) []T {
	if n == 0 || p == nil {
		return []T{}
	}
	return unsafe.Slice((*T)(p), n)
}

// addressOf is where the elements of a slice are.
func addressOf[T any](s []T) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(s)) }

// sizeOf is the bytes of an element.
func sizeOf[T any]() uintptr { return unsafe.Sizeof(*new(T)) }

// bytesAt is the n bytes at p.
func bytesAt(p cu.HostPtr, n uintptr) []byte { return unsafe.Slice((*byte)(p), n) }

// bytesOf is the bytes of a value.
func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
