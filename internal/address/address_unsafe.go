package address

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Memory of the driver is used within the span of an open buffer, which is checked
// and acquired before. Elements have no Go pointers and no bool.

// Add returns the address n bytes after p. It returns nil for nil.
func Add(p cu.HostPtr, n uintptr) cu.HostPtr {
	if p == nil {
		return nil
	}
	return unsafe.Add(p, n)
}

// Host converts the device address of managed memory, which is also its host
// address. It reads the pointer from memory, because go vet rejects a conversion of an
// integer. The conversion is safe: the memory is not Go's.
func Host(p cu.DevicePtr) cu.HostPtr {
	n := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}

// Device converts a host address that is also a device address. It also turns
// host addresses into numbers that can be compared.
func Device(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

// Slice returns the n elements at p. The slice is never nil. Elements of size 0 need no
// memory, so there are n of them without an address, too.
func Slice[T any](p cu.HostPtr, n int) []T {
	if SizeOf[T]() == 0 {
		return make([]T, n)
	}
	if n == 0 || p == nil {
		return []T{}
	}
	return unsafe.Slice((*T)(p), n)
}

// Of returns the address of the first element of a slice.
func Of[T any](s []T) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(s)) }

// SizeOf returns the size of an element in bytes.
func SizeOf[T any]() uintptr { return unsafe.Sizeof(*new(T)) }

// Bytes returns the n bytes at p.
func Bytes(p cu.HostPtr, n uintptr) []byte { return unsafe.Slice((*byte)(p), n) }

// BytesOf returns the bytes of a value. They share its memory.
func BytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// AlignedBytes returns n bytes of ordinary memory that begin at a multiple of a power of two.
func AlignedBytes(n, alignment int64) []byte {
	all := make([]byte, n+alignment)
	skip := -int64(Device(Of(all))) & (alignment - 1)
	return all[skip:][:n]
}
