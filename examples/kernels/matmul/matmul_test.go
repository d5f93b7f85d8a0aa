package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/kerneltest"
)

// shapes are rows, columns and the inner length of products: multiples of a tile, and not.
var shapes = [][3]int{{1, 1, 1}, {16, 16, 16}, {32, 16, 48}, {17, 15, 16}, {5, 70, 33}, {64, 3, 100}}

// kernelCase returns a test of the kernel for a shape. kind is the kind of data: whole or
// random.
func kernelCase(shape [3]int, kind string) *kerneltest.Case {
	m, n, k := shape[0], shape[1], shape[2]
	return &kerneltest.Case{
		File: "matmul.ptx", Kernel: "matmul",
		Args: []string{
			fmt.Sprintf("s32=%d", m), fmt.Sprintf("s32=%d", n), fmt.Sprintf("s32=%d", k),
			fmt.Sprintf("in:f32=%s[%d*%d]:-8..8", kind, m, k), fmt.Sprintf("in:f32=%s[%d*%d]:-8..8", kind, k, n),
			fmt.Sprintf("out:f32=[%d*%d]", m, n),
		},
		Configs: func(int) []ferry.LaunchConfig { return []ferry.LaunchConfig{config(m, n)} },
		Want:    func(a *kerneltest.Args) { reference(a, m, n, k) },
	}
}

// reference multiplies row by column, in float64.
func reference(args *kerneltest.Args, m, n, k int) {
	a, b, c := kerneltest.Slice[float32](args, 3), kerneltest.Slice[float32](args, 4), kerneltest.Slice[float32](args, 5)
	for row := range m {
		for column := range n {
			sum := 0.0
			for i := range k {
				sum += float64(a[row*k+i]) * float64(b[i*n+column])
			}
			c[row*n+column] = float32(sum)
		}
	}
}

// eachShape runs a test for every shape.
func eachShape(t *testing.T, f func(t *testing.T, shape [3]int)) {
	t.Helper()
	for _, shape := range shapes {
		t.Run(fmt.Sprint(shape), func(t *testing.T) { f(t, shape) })
	}
}

// TestKernel uses whole numbers. Their products and sums are exact in float32, so that the
// result does not depend on the order of the additions.
func TestKernel(t *testing.T) {
	eachShape(t, func(t *testing.T, shape [3]int) { kerneltest.Run(t, kernelCase(shape, "whole")) })
}

// TestKernelRounds uses numbers with fractions. The sums have up to 100 products below 64.
func TestKernelRounds(t *testing.T) {
	eachShape(t, func(t *testing.T, shape [3]int) {
		c := kernelCase(shape, "random")
		c.Tolerance = kerneltest.Tolerance{Abs: 1e-3}
		kerneltest.Run(t, c)
	})
}

// TestMethod launches by the method that ferry bind wrote.
func TestMethod(t *testing.T) {
	eachShape(t, func(t *testing.T, shape [3]int) {
		c := kernelCase(shape, "whole")
		c.File, c.Launch = "", launch
		kerneltest.Run(t, c)
	})
}

func launch(l *kerneltest.Launch) error {
	kernels, err := LoadMatmul(l.GPU)
	if err != nil {
		return err
	}
	defer kernels.Close()
	shape := func(i int) int32 { return kerneltest.Value[int32](l.Args, i) }
	matrix := func(i int) *ferry.Device[float32] { return kerneltest.Device[float32](l.Args, i) }
	return kernels.Matmul(l.Stream, l.Config, shape(0), shape(1), shape(2), matrix(3), matrix(4), matrix(5))
}

// TestCompiled compiles the source and compares with the committed PTX, bit by bit.
func TestCompiled(t *testing.T) {
	r := compiletest.File(t, "matmul.cu", nil)
	eachShape(t, func(t *testing.T, shape [3]int) {
		c := kernelCase(shape, "random")
		c.Tolerance, c.Other = kerneltest.Tolerance{Abs: 1e-3}, r.PTX
		kerneltest.Run(t, c)
	})
}

// TestProgram multiplies two small matrices as the program does.
func TestProgram(t *testing.T) {
	gpu, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	got, err := matmul(gpu, 2, 2, 3, []float32{1, 2, 3, 4, 5, 6}, []float32{7, 8, 9, 10, 11, 12})
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{58, 64, 139, 154}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
