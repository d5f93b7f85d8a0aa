// Package workload has kernels that represent kinds of work, with their inputs. The
// benchmarks and the differential tests of the software GPU share them. How they are run
// is up to the importing package.
package workload

import (
	_ "embed"
	"encoding/binary"
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// PTX is the module with the kernels. Its source is workload.cu.
//
//go:embed workload.ptx
var PTX string

// Workload is one kernel on inputs of one size.
type Workload struct {
	Kernel      string
	N           int // the size: threads, elements, or a matrix's rows
	Grid, Block cu.Dim3
	Buffers     [][]byte // inputs, and the output as the last one
	Scalars     []uint32 // the parameters after the buffers' addresses
}

// Threads returns the number of threads of a launch.
func (w *Workload) Threads() uint64 { return w.Grid.Count() * w.Block.Count() }

// Params packs the arguments. addrs are the addresses of the buffers.
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

const threads = 256 // threads of a block, for most kernels

func dim(x, y int) cu.Dim3 { return cu.Dim3{X: uint32(x), Y: uint32(y), Z: 1} }

// Full returns the workloads with the sizes that benchmarks measure.
func Full() []*Workload {
	return []*Workload{
		VectorAdd(1 << 24), Arithmetic("arithmetic", 4, 1<<18, 256), Arithmetic("arithmetic_f32", 4, 1<<18, 256),
		Arithmetic("arithmetic_f64", 8, 1<<18, 256), Transpose(2048), Reduce("reduce_barrier", 1<<22),
		Reduce("reduce_shuffle", 1<<22), Mandelbrot(512, 256), MatrixProduct(512), Histogram(1 << 22),
	}
}

// Small returns the workloads with small sizes for tests.
func Small() []*Workload {
	return []*Workload{
		VectorAdd(1000), Arithmetic("arithmetic", 4, 512, 9), Arithmetic("arithmetic_f32", 4, 512, 9),
		Arithmetic("arithmetic_f64", 8, 512, 9), Transpose(64), Reduce("reduce_barrier", 1024),
		Reduce("reduce_shuffle", 1024), Mandelbrot(64, 50), MatrixProduct(48), Histogram(5000),
	}
}

// VectorAdd adds vectors of n elements, one element per thread.
func VectorAdd(n int) *Workload {
	return &Workload{
		Kernel: "vector_add", N: n, Grid: dim((n+threads-1)/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{floats(n, 1), floats(n, 2), make([]byte, 4*n)}, Scalars: []uint32{uint32(n)},
	}
}

// Arithmetic runs one of the arithmetic loops with n threads. Each thread has a result of
// size bytes.
func Arithmetic(kernel string, size, n, rounds int) *Workload {
	return &Workload{
		Kernel: kernel, N: n, Grid: dim(n/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{make([]byte, size*n)}, Scalars: []uint32{uint32(rounds)},
	}
}

// Transpose transposes an n by n matrix. n is a multiple of 32.
func Transpose(n int) *Workload {
	return &Workload{
		Kernel: "transpose", N: n, Grid: dim(n/32, n/32), Block: dim(32, 8),
		Buffers: [][]byte{floats(n*n, 1), make([]byte, 4*n*n)}, Scalars: []uint32{uint32(n)},
	}
}

// Reduce sums n numbers by blocks. n is a multiple of 256.
func Reduce(kernel string, n int) *Workload {
	return &Workload{
		Kernel: kernel, N: n, Grid: dim(n/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{floats(n, 1), make([]byte, 4*n/threads)},
	}
}

// Mandelbrot computes width by width points with at most limit iterations each.
func Mandelbrot(width, limit int) *Workload {
	n := width * width
	return &Workload{
		Kernel: "mandelbrot", N: n, Grid: dim(n/threads, 1), Block: dim(threads, 1),
		Buffers: [][]byte{make([]byte, 4*n)}, Scalars: []uint32{uint32(width), uint32(limit)},
	}
}

// MatrixProduct multiplies n by n matrices. n is a multiple of 16.
func MatrixProduct(n int) *Workload {
	return &Workload{
		Kernel: "matrix_product", N: n, Grid: dim(n/16, n/16), Block: dim(16, 16),
		Buffers: [][]byte{floats(n*n, 1), floats(n*n, 2), make([]byte, 4*n*n)}, Scalars: []uint32{uint32(n)},
	}
}

// Histogram counts n numbers with 64 blocks.
func Histogram(n int) *Workload {
	return &Workload{
		Kernel: "histogram", N: n, Grid: dim(64, 1), Block: dim(threads, 1),
		Buffers: [][]byte{floats(n, 3), make([]byte, 4*256)}, Scalars: []uint32{uint32(n)},
	}
}

// floats returns n numbers from -1 to 1, the same in every run.
func floats(n int, seed uint32) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		seed = seed*1664525 + 1013904223
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(int32(seed))/(1<<31)))
	}
	return b
}
