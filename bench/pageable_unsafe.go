package bench

import (
	"unsafe"

	"github.com/ferrygpu/ferry"
)

// copyIn is the driver's own copy from ordinary memory: not what Ferry makes of
// it, but what a program without Ferry gets.
func copyIn(g *ferry.GPU, dst *ferry.Device[float32], src []float32) error {
	return g.Driver().MemcpyHtoD(g.Context(), dst.Pointer(), unsafe.Pointer(unsafe.SliceData(src)), uintptr(4*len(src)))
}

// copyOut is the driver's own copy to ordinary memory.
func copyOut(g *ferry.GPU, dst []float32, src *ferry.Device[float32]) error {
	return g.Driver().MemcpyDtoH(g.Context(), unsafe.Pointer(unsafe.SliceData(dst)), src.Pointer(), uintptr(4*len(dst)))
}
