package ferry

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Memory of the driver is used within the span of an open buffer, which is checked
// and acquired before. Elements have no Go pointers.

// addressAt returns the address n bytes after p. It returns nil for nil.
func addressAt(p cu.HostPtr, n uintptr) cu.HostPtr {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, n)
}

// hostAddress converts the device address of managed memory, which is also its host
// address. It reads the pointer from memory, because go vet rejects a conversion of an
// integer. The conversion is safe: the memory is not Go's.
func hostAddress(p cu.DevicePtr) cu.HostPtr {
	n := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}

// deviceAddress converts a host address that is also a device address. It also turns
// host addresses into numbers that can be compared.
func deviceAddress(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

// sliceAt returns the n elements at p. The slice is never nil. Elements of size 0 need no
// memory, so there are n of them without an address, too.
func sliceAt[T any](p cu.HostPtr, n int) []T {
	if sizeOf[T]() == 0 {
		return make([]T, n)
	}
	if n == 0 || p == nil {
		return []T{}
	}
	return unsafe.Slice((*T)(p), n)
}

// addressOf returns the address of the first element of a slice.
func addressOf[T any](s []T) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(s)) }

// sizeOf returns the size of an element in bytes.
func sizeOf[T any]() uintptr { return unsafe.Sizeof(*new(T)) }

// bytesAt returns the n bytes at p.
func bytesAt(p cu.HostPtr, n uintptr) []byte { return unsafe.Slice((*byte)(p), n) }

// bytesOf returns the bytes of a value. They share its memory.
func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
