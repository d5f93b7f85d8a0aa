package workload

import (
	_ "embed"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// VideoPTX is the module with the kernels of [Video]. Its source is video.cu.
//
//go:embed video.ptx
var VideoPTX string

// Video returns the four launches of a pipeline for frames of width by height pixels, which are
// even: NV12 to RGB, a tone curve in place, a mean of neighbours, and planes of floats. Each has
// inputs of its own.
func Video(width, height int) []*Workload {
	pixels := width * height
	launch := func(kernel string, buffers ...[]byte) *Workload {
		return &Workload{
			Kernel: kernel, N: pixels, Grid: cu.Dim3{X: uint32(width+31) / 32, Y: uint32(height+7) / 8, Z: 1}, Block: dim(32, 8),
			Buffers: buffers, Scalars: []uint32{uint32(width), uint32(height)},
		}
	}
	rgb := bytes(3*pixels, 2)
	return []*Workload{
		launch("nv12_to_rgb", bytes(pixels+pixels/2, 1), make([]byte, 3*pixels)),
		launch("grade", bytes(3*256, 3), slices.Clone(rgb)),
		launch("soften", rgb, make([]byte, 3*pixels)),
		launch("planes", rgb, make([]byte, 3*4*pixels)),
	}
}

// bytes returns n bytes, the same in every run.
func bytes(n int, seed uint32) []byte { return floats((n+3)/4, seed)[:n] }
