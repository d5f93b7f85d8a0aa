package kerneltest_test

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/kerneltest"
)

// A kernel is tested on one GPU. The reference is wrong for the last element, so that the
// output shows a failure.
func ExampleCheck() {
	gpu, err := ferry.Open("soft")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gpu.Close()
	err = kerneltest.Check(context.Background(), gpu, &kerneltest.Case{
		PTX:    []byte(kernels.PTX),
		Kernel: "vector_add",
		Args:   []string{"in:f32=iota[N]", "in:f32=0.5,0.25,0.125", "out:f32=[N]", "u64=N"},
		Sizes:  []int{3},
		Want: func(a *kerneltest.Args) {
			x, y, sum := kerneltest.Slice[float32](a, 0), kerneltest.Slice[float32](a, 1), kerneltest.Slice[float32](a, 2)
			for i := range sum {
				sum[i] = x[i] + y[i]
			}
			sum[2] = 2
		},
	})
	fmt.Println(err)
	// Output:
	// vector_add on soft:h200 (software, predicts NVIDIA H200), grid 1x1x1, block 256x1x1, N=3, seed 0:
	//   argument 2, out:f32=[3]: 1 of 3 elements differ
	//     [2] got 2.125 (0x40080000), want 2 (0x40000000): 0.125, 524288 ulp
	//   reproduce (FILE.ptx is Case.PTX): go run github.com/ferrygpu/ferry/cmd/ferry run FILE.ptx --kernel vector_add --grid 1 --block 256 --device soft:h200 'in:f32=iota[3]' in:f32=0.5,0.25,0.125 'out:f32=[3]' u64=3
}
