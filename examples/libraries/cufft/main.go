// The command cufft transforms signals by NVIDIA's cuFFT in a stream and on buffers of Ferry, forward
// and back: at once, and in a graph that is launched again and again. It compares with a transform in
// Go. On the software GPU, which cuFFT cannot use, a kernel of this program does what the library does.
//
//	go run ./examples/libraries/cufft
//
// The functions of C are in cufft.go, and package clib finds the library. The environment variable
// FERRY_CUFFT names the file of another one.
package main

import (
	"errors"
	"fmt"
	"log"

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

// run transforms on a GPU, and says how exact the results are. 211 is a prime number, for which the
// library needs another algorithm.
func run(gpu *ferry.GPU) (text string, err error) {
	for _, n := range []int{360, 211} {
		line, err := runSize(gpu, n)
		if err != nil {
			return "", fmt.Errorf("signals of %d elements: %w", n, err)
		}
		text += line
	}
	return text, nil
}

// runSize transforms signals of n elements.
func runSize(gpu *ferry.GPU, n int) (text string, err error) {
	lib, err := open(gpu)
	if err != nil {
		return "", err
	}
	x, err := newTransformer(gpu, lib, n, 3)
	if err != nil {
		return "", errors.Join(err, gpu.Current(lib.Destroy))
	}
	worst, err := x.run(4)
	text = fmt.Sprintf("%s on %v: 3 signals of %d elements, once and 4 times in a graph\n"+
		"the largest relative error is %.1e forward, %.1e forward and back\n", lib.Version(), gpu, n, worst.forward, worst.back)
	return text, errors.Join(err, x.Close())
}

// open returns cuFFT, or what stands for it on the software GPU.
func open(gpu *ferry.GPU) (fft, error) {
	if gpu.Emulated() {
		return newSoftware(gpu, dftPTX)
	}
	return newCUFFT()
}

// errorsOf are relative to the length of the signal as a vector.
type errorsOf struct{ forward, back float64 }

// run transforms once, and then several times in a graph, with other data each time. The library writes
// the signal that comes back to page-locked memory, and ReadSlice waits for it.
func (x *transformer) run(times int) (worst errorsOf, err error) {
	signal, err := ferry.Alloc[complex64](x.gpu, x.n*x.batch)
	if err != nil {
		return worst, err
	}
	defer signal.Close()
	spectrum, err := ferry.Alloc[complex64](x.gpu, signal.Len())
	if err != nil {
		return worst, err
	}
	defer spectrum.Close()
	back, err := ferry.AllocHost[complex64](x.gpu, signal.Len(), &ferry.HostOptions{Mapped: true})
	if err != nil {
		return worst, err
	}
	defer back.Close()
	both := func(s *ferry.Stream) error {
		return errors.Join(x.transform(s, signal, spectrum, forward), x.transform(s, spectrum, back, inverse))
	}
	check := func(queue func() error) error {
		data := random(signal.Len())
		if err := errors.Join(ferry.Copy(x.stream, signal, ferry.Pageable(data)), queue()); err != nil {
			return err
		}
		returned := back.ReadSlice() // waits for the library
		got, err := ferry.Download(spectrum)
		if err != nil {
			return err
		}
		return worst.add(compare(data, got, returned, x.n))
	}
	if err := check(func() error { return both(x.stream) }); err != nil {
		return worst, err
	}
	graph, err := x.stream.Capture(both)
	if err != nil {
		return worst, err
	}
	defer graph.Close()
	for range times {
		if err := check(func() error { return graph.Launch(x.stream) }); err != nil {
			return worst, err
		}
	}
	return worst, nil
}

// add keeps the larger errors.
func (e *errorsOf) add(other errorsOf, err error) error {
	e.forward, e.back = max(e.forward, other.forward), max(e.back, other.back)
	return err
}
