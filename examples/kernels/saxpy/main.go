// The command saxpy computes y = a*x + y on a GPU, or on the software GPU if there is
// none. It is the smallest program with an own kernel: saxpy.cu has the kernel, and saxpy_test.go
// tests it. The command ferry bind made saxpy.ptx and saxpy_cu.go from the kernel.
//
//	go run ./examples/kernels/saxpy
//
// After a change of saxpy.cu, write them again. That needs clang or NVRTC; the program needs
// neither:
//
//	go generate ./examples/kernels/saxpy
package main

import (
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind saxpy.cu

func main() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	x, y := make([]float32, 1000), make([]float32, 1000)
	for i := range x {
		x[i], y[i] = float32(i), 1
	}
	result, err := saxpy(gpu, 2, x, y)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("2*%v + %v = %v\n", x[999], y[999], result[999])
}

// saxpy returns a*x + y.
func saxpy(gpu *ferry.GPU, a float32, x, y []float32) ([]float32, error) {
	kernels, err := LoadSaxpy(gpu)
	if err != nil {
		return nil, err
	}
	defer kernels.Close()
	stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	dx, err := ferry.Upload(gpu, x)
	if err != nil {
		return nil, err
	}
	defer dx.Close()
	dy, err := ferry.Upload(gpu, y)
	if err != nil {
		return nil, err
	}
	defer dy.Close()
	n := len(y)
	if err := kernels.Saxpy(stream, ferry.Cover(n, 256), int32(n), a, dx, dy); err != nil {
		return nil, err
	}
	return ferry.Download(dy) // waits for the kernel
}
