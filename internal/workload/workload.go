// Package workload holds kernels that stand for kinds of work, with the inputs
// to run them on: what the benchmarks and differential tests of the software GPU
// share. It knows nothing of who runs them.
package workload

import (
	_ "embed"
	"encoding/binary"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// PTX is the module that has the kernels, workload.cu its source.
//
//go:embed workload.ptx
var PTX string

// Workload is one kernel on inputs of one size.
type Workload struct {
	Kernel      string
	N           int // the size: threads, elements, or a matrix's rows
	Grid, Block cu.Dim3
	Buffers     [][]byte // the first ones hold input; kernels write the last
	Scalars     []uint32 // that follow the buffers' addresses
}

// Threads is how many threads a launch has.
func (w *Workload) Threads() uint64 { return w.Grid.Count() * w.Block.Count() }

// Params packs the arguments, given where the buffers are.
func (w *Workload) Params(addrs []uint64) []byte {
	var p []byte
	for _, a := range addrs {
		p = binary.LittleEndian.AppendUint64(p, a)
	}
	for _, s := range w.Scalars {
		p = binary.LittleEndian.AppendUint32(p, s)
	}
	return p
}

const threads = 256 // of most blocks

func dim(x, y int) cu.Dim3 { return cu.Dim3{X: uint32(x), Y: uint32(y), Z: 1} }

// Full is the workloads in the sizes that are measured.
func Full() []*Workload {
	return []*Workload{
		VectorAdd(1 << 24), Arithmetic("arithmetic", 4, 1<<18, 256), Arithmetic("arithmetic_f32", 4, 1<<18, 256),
		Arithmetic("arithmetic_f64", 8, 1<<18, 256), Transpose(2048), Reduce("reduce_barrier", 1<<22),
		Reduce("reduce_shuffle", 1<<22), Mandelbrot(512, 256), MatrixProduct(512), Histogram(1 << 22),
	}
}

// Small is the same for tests.
func Small() []*Workload {
	return []*Workload{
		VectorAdd(1000), Arithmetic("arithmetic", 4, 512, 9), Arithmetic("arithmetic_f32", 4, 512, 9),
		Arithmetic("arithmetic_f64", 8, 512, 9), Transpose(64), Reduce("reduce_barrier", 1024),
		Reduce("reduce_shuffle", 1024), Mandelbrot(64, 50), MatrixProduct(48), Histogram(5000),
	}
}

// VectorAdd has an element a thread.
func VectorAdd(n int) *Workload {
	return &Workload{
		Kernel: "vector_add", N: n, Grid: dim((n+threads-1)/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{floats(n, 1), floats(n, 2), make([]byte, 4*n)}, Scalars: []uint32{uint32(n)},
	}
}

// Arithmetic is one of the loops of rounds, in n threads with a result of size bytes each.
func Arithmetic(kernel string, size, n, rounds int) *Workload {
	return &Workload{
		Kernel: kernel, N: n, Grid: dim(n/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{make([]byte, size*n)}, Scalars: []uint32{uint32(rounds)},
	}
}

// Transpose is of an n by n matrix; n is a multiple of 32.
func Transpose(n int) *Workload {
	return &Workload{
		Kernel: "transpose", N: n, Grid: dim(n/32, n/32), Block: dim(32, 8),
		Buffers: [][]byte{floats(n*n, 1), make([]byte, 4*n*n)}, Scalars: []uint32{uint32(n)},
	}
}

// Reduce is a sum of n numbers, a multiple of 256, by blocks.
func Reduce(kernel string, n int) *Workload {
	return &Workload{
		Kernel: kernel, N: n, Grid: dim(n/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{floats(n, 1), make([]byte, 4*n/threads)},
	}
}

// Mandelbrot is width by width points of at most limit rounds.
func Mandelbrot(width, limit int) *Workload {
	n := width * width
	return &Workload{
		Kernel: "mandelbrot", N: n, Grid: dim(n/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{make([]byte, 4*n)}, Scalars: []uint32{uint32(width), uint32(limit)},
	}
}

// MatrixProduct is of n by n matrices; n is a multiple of 16.
func MatrixProduct(n int) *Workload {
	return &Workload{
		Kernel: "matrix_product", N: n, Grid: dim(n/16, n/16), Block: dim(16, 16),
		Buffers: [][]byte{floats(n*n, 1), floats(n*n, 2), make([]byte, 4*n*n)}, Scalars: []uint32{uint32(n)},
	}
}

// Histogram counts n numbers in 64 blocks.
func Histogram(n int) *Workload {
	return &Workload{
		Kernel: "histogram", N: n, Grid: dim(64, 1), Block: dim(threads, 1),
		Buffers: [][]byte{floats(n, 3), make([]byte, 4*256)}, Scalars: []uint32{uint32(n)},
	}
}

// floats are n numbers from -1 to 1, the same in every run.
func floats(n int, seed uint32) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		seed = seed*1664525 + 1013904223
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(int32(seed))/(1<<31)))
	}
	return b
}
