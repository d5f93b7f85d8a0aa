// The command matmul multiplies two matrices on a GPU, or on the software GPU if there is
// none. Its kernel, in matmul.cu, uses shared memory, so the launch must have blocks of 16x16
// threads. The command ferry bind made matmul.ptx and matmul_cu.go from the kernel.
//
//	go run ./examples/kernels/matmul
//
// After a change of matmul.cu, write them again. That needs clang or NVRTC; the program needs
// neither:
//
//	go generate ./examples/kernels/matmul
package main

import (
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind matmul.cu

// tile is the number of rows and of columns of a block: TILE in matmul.cu.
const tile = 16

func main() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	const n = 100
	a, identity := make([]float32, n*n), make([]float32, n*n)
	for i := range a {
		a[i] = float32(i)
	}
	for i := range n {
		identity[i*n+i] = 1
	}
	c, err := matmul(gpu, n, n, n, a, identity)
	if err != nil {
		log.Fatal(err)
	}
	wrong := 0
	for i := range c {
		if c[i] != a[i] {
			wrong++
		}
	}
	fmt.Printf("a matrix of %dx%d times the identity: %d of %d elements are wrong\n", n, n, wrong, len(c))
}

// config returns the configuration for a result of m rows and n columns.
func config(m, n int) ferry.LaunchConfig {
	return ferry.LaunchConfig{
		Grid:  cu.Dim3{X: uint32((n + tile - 1) / tile), Y: uint32((m + tile - 1) / tile), Z: 1},
		Block: cu.Dim3{X: tile, Y: tile, Z: 1},
	}
}

// matmul returns a*b, where a has m rows and k columns, and b k rows and n columns.
func matmul(gpu *ferry.GPU, m, n, k int, a, b []float32) ([]float32, error) {
	kernels, err := LoadMatmul(gpu)
	if err != nil {
		return nil, err
	}
	defer kernels.Close()
	stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	da, err := ferry.Upload(gpu, a)
	if err != nil {
		return nil, err
	}
	defer da.Close()
	db, err := ferry.Upload(gpu, b)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	dc, err := ferry.Alloc[float32](gpu, m*n)
	if err != nil {
		return nil, err
	}
	defer dc.Close()
	if err := kernels.Matmul(stream, config(m, n), int32(m), int32(n), int32(k), da, db, dc); err != nil {
		return nil, err
	}
	return ferry.Download(dc) // waits for the kernel
}
