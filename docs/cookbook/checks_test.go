package cookbook_test

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
)

// must returns v, or ends the program.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// check ends the program if there is an error: deferred calls still run.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func Example_errorMacro() {
	gpu := must(ferry.Open("soft"))
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(kernels.PTX), nil))
	defer module.Close()
	fill := must(module.Kernel("fill"))
	v := must(ferry.Alloc[uint32](gpu, 10))
	defer v.Close()
	s := must(ferry.NewStream(gpu, nil))
	defer s.Close()

	// A library returns the error, and adds only what its caller cannot see.
	step := func(block int) error {
		if err := s.Launch(fill, ferry.Cover(10, block), v, uint32(7), uint64(10)); err != nil {
			return fmt.Errorf("first step: %w", err)
		}
		return s.Wait(context.Background())
	}
	check(step(32)) // a program ends with a stack: it has the file and the line
	fmt.Println(step(2048))
	// Output:
	// first step: launch fill (grid 1x1x1, block 2048x1x1) on stream 1 of soft:h200: a block of 2048 threads along x: the device takes 1024 at most (CUDA_ERROR_INVALID_VALUE)
}
