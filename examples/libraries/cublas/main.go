// The command cublas multiplies matrices by NVIDIA's cuBLAS in a stream and on buffers of Ferry:
// at once, and in a graph that is launched again and again. It compares every element with Go's. On
// the software GPU, which cuBLAS cannot use, kernels of this program do what the library does.
//
//	go run ./examples/libraries/cublas
//
// The functions of C are in cublas.go, and package clib finds the library. The environment variable
// FERRY_CUBLAS names the file of another one.
package main

import (
	"errors"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/ferrygpu/ferry"
)

func main() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	text, err := run(gpu)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(text)
}

// run multiplies on a GPU, and says how exact the products are.
func run(gpu *ferry.GPU) (text string, err error) {
	lib, err := open(gpu)
	if err != nil {
		return "", err
	}
	x, err := newMultiplier(gpu, lib)
	if err != nil {
		return "", errors.Join(err, gpu.Current(lib.Destroy))
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	const m, n, k = 150, 101, 203
	once, err := x.once(newMatrices(m, n, k))
	if err != nil {
		return "", fmt.Errorf("one product: %w", err)
	}
	again, err := x.again(newMatrices(m, n, k), 4)
	if err != nil {
		return "", fmt.Errorf("a graph: %w", err)
	}
	return fmt.Sprintf("%s on %s: products of %dx%d by %dx%d\n"+
		"in a stream: the largest error is %.2f of what rounding allows\n"+
		"in a graph, 4 times with other data: %.2f\n", lib.Version(), gpu, m, k, k, n, once, again), nil
}

// open returns cuBLAS, or what stands for it on the software GPU.
func open(gpu *ferry.GPU) (blas, error) {
	if gpu.Emulated() {
		return newSoftware(gpu, sgemmPTX)
	}
	return newCUBLAS(gpu)
}

// once multiplies in a stream. The library writes the result to page-locked memory, and Slice waits
// for it.
func (x *multiplier) once(host *matrices) (worst float64, err error) {
	c, err := ferry.AllocHost[float32](x.gpu, len(host.c), &ferry.HostOptions{Mapped: true})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	p, err := x.upload(host, c)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	copy(c.Slice(), host.c)
	if err := x.multiply(x.stream, p); err != nil {
		return 0, err
	}
	return host.compare(c.ReadSlice())
}

// again captures a product in a graph, and launches it with other data each time.
func (x *multiplier) again(host *matrices, times int) (worst float64, err error) {
	c, err := ferry.Upload(x.gpu, host.c)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	p, err := x.upload(host, c)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	// The library may load kernels in its first call of a kind, which no capture allows.
	if err := x.multiply(x.stream, p); err != nil {
		return 0, err
	}
	graph, err := x.stream.Capture(func(s *ferry.Stream) error { return x.multiply(s, p) })
	if err != nil {
		return 0, err
	}
	defer graph.Close()
	for range times {
		host.randomize()
		if err := errors.Join(
			ferry.Copy(x.stream, p.a, ferry.Pageable(host.a)),
			ferry.Copy(x.stream, p.b, ferry.Pageable(host.b)),
			ferry.Copy(x.stream, c, ferry.Pageable(host.c)),
			graph.Launch(x.stream),
		); err != nil {
			return 0, err
		}
		got, err := ferry.Download(c) // waits for the graph
		if err != nil {
			return 0, err
		}
		one, err := host.compare(got)
		if err != nil {
			return 0, err
		}
		worst = max(worst, one)
	}
	return worst, nil
}

// randomize fills with numbers from -1 to 1.
func randomize(x []float32) {
	for i := range x {
		x[i] = 2*rand.Float32() - 1
	}
}
