package dlpack

import (
	"slices"
	"structs"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
)

// Unsafe: A Tensor is an address of C's memory, which the caller promises to be a
// DLManagedTensorVersioned that is not deleted. Of one with another major version only the head is
// read, which stays as it is.

// head is the start of a DLManagedTensorVersioned, which all versions have.
type head struct {
	_            structs.HostLayout
	major, minor uint32
	context      uintptr // manager_ctx
	deleter      uintptr
	flags        uint64
}

// managed is a DLManagedTensorVersioned of version 1.
type managed struct {
	_ structs.HostLayout
	head
	tensor tensor
}

// tensor is a DLTensor.
type tensor struct {
	_              structs.HostLayout
	data           uintptr
	deviceType     int32
	deviceID       int32
	ndim           int32
	typ            Type
	shape, strides uintptr // of ndim int64 each
	byteOffset     uint64
}

// at returns what is at an address of C's memory.
func at[T any](p uintptr) *T { return (*T)(address.Host(cu.DevicePtr(p))) }

func (t Tensor) head() *head { return at[head](uintptr(t)) }

func (t Tensor) whole() *managed { return at[managed](uintptr(t)) }

// numbersAt copies n numbers of C's memory.
func numbersAt(p uintptr, n int) []int64 {
	return slices.Clone(unsafe.Slice(at[int64](p), n))
}

// bytesOf is how many bytes of C's memory a tensor takes with its shape and strides.
func bytesOf(dims int) uintptr {
	return unsafe.Sizeof(managed{}) + 2*uintptr(dims)*unsafe.Sizeof(int64(0))
}

// fill writes a tensor into C's memory, with its shape and strides behind it.
func (t Tensor) fill(m managed, shape, strides []int64) {
	n := len(shape)
	m.tensor.shape = uintptr(t) + unsafe.Sizeof(m)
	m.tensor.strides = m.tensor.shape + uintptr(n)*unsafe.Sizeof(int64(0))
	*t.whole() = m
	if n > 0 {
		copy(unsafe.Slice(at[int64](m.tensor.shape), n), shape)
		copy(unsafe.Slice(at[int64](m.tensor.strides), n), strides)
	}
}

// sliceAt returns n elements at an address of the host.
func sliceAt[T any](p uint64, n int) []T { return address.Slice[T](address.Host(cu.DevicePtr(p)), n) }
