package bench

import (
	"unsafe"

	"github.com/ferrygpu/ferry"
)

// Unsafe: Slices are passed to synchronous copies with their own length. The caller keeps
// them until the copy has returned.

// copyIn copies a slice to the device with the driver's own call, as a program without
// Ferry does.
func copyIn[T any](g *ferry.GPU, dst *ferry.Device[T], src []T) error {
	return g.Driver().MemcpyHtoD(g.CUContext(), dst.Pointer(), unsafe.Pointer(unsafe.SliceData(src)), uintptr(len(src))*unsafe.Sizeof(src[0]))
}

// copyOut copies device memory to a slice with the driver's own call.
func copyOut[T any](g *ferry.GPU, dst []T, src *ferry.Device[T]) error {
	return g.Driver().MemcpyDtoH(g.CUContext(), unsafe.Pointer(unsafe.SliceData(dst)), src.Pointer(), uintptr(len(dst))*unsafe.Sizeof(dst[0]))
}

// addressOf returns the address of a slice, which a device that reads pageable memory uses
// as it is.
func addressOf(s []float32) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s)))) }
