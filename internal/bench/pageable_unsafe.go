package bench

import (
	"unsafe"

	"github.com/ferrygpu/ferry"
)

// copyIn is the driver's own copy from ordinary memory: not what Ferry makes of
// it, but what a program without Ferry gets.
func copyIn[T any](g *ferry.GPU, dst *ferry.Device[T], src []T) error {
	return g.Driver().MemcpyHtoD(g.Context(), dst.Pointer(), unsafe.Pointer(unsafe.SliceData(src)), uintptr(len(src))*unsafe.Sizeof(src[0]))
}

// copyOut is the driver's own copy to ordinary memory.
func copyOut[T any](g *ferry.GPU, dst []T, src *ferry.Device[T]) error {
	return g.Driver().MemcpyDtoH(g.Context(), unsafe.Pointer(unsafe.SliceData(dst)), src.Pointer(), uintptr(len(dst))*unsafe.Sizeof(dst[0]))
}
