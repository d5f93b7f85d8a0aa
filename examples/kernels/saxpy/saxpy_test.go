package main

import (
	"math"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/kerneltest"
)

// kernelCase returns a test of the kernel with generated data for x and y.
func kernelCase(data string) *kerneltest.Case {
	return &kerneltest.Case{
		File: "saxpy.ptx", Kernel: "saxpy",
		Args: []string{"s32=N", "f32=-3", "in:f32=" + data, "inout:f32=" + data},
		Want: reference,
		Configs: func(n int) []ferry.LaunchConfig { // a grid for n elements, and one that is too small
			return []ferry.LaunchConfig{ferry.Cover(n, 256), ferry.Cover(n, 1024), ferry.Cover(1, 32)}
		},
	}
}

func reference(a *kerneltest.Args) {
	factor := float64(kerneltest.Value[float32](a, 1))
	x, y := kerneltest.Slice[float32](a, 2), kerneltest.Slice[float32](a, 3)
	for i := range y {
		y[i] = float32(math.FMA(factor, float64(x[i]), float64(y[i])))
	}
}

// TestKernel uses whole numbers, for which the reference is exact.
func TestKernel(t *testing.T) { kerneltest.Run(t, kernelCase("whole[N]:-1000..1000")) }

// TestKernelRounds uses numbers with fractions. The reference rounds twice, to float64 and
// to float32, so it can be off by one unit in the last place.
func TestKernelRounds(t *testing.T) {
	c := kernelCase("random[N]:-1..1")
	c.Tolerance = kerneltest.Tolerance{ULP: 1}
	kerneltest.Run(t, c)
}

// TestMethod launches by the method that ferry bind wrote.
func TestMethod(t *testing.T) {
	c := kernelCase("whole[N]:-1000..1000")
	c.File, c.Launch = "", launch
	kerneltest.Run(t, c)
}

func launch(l *kerneltest.Launch) error {
	kernels, err := LoadSaxpy(l.GPU)
	if err != nil {
		return err
	}
	defer kernels.Close()
	return kernels.Saxpy(l.Stream, l.Config, kerneltest.Value[int32](l.Args, 0), kerneltest.Value[float32](l.Args, 1),
		kerneltest.Device[float32](l.Args, 2), kerneltest.Device[float32](l.Args, 3))
}

// TestCompiled compiles the source and compares with the committed PTX, bit by bit.
func TestCompiled(t *testing.T) {
	r := compiletest.File(t, "saxpy.cu", nil)
	c := kernelCase("random[N]:-1..1")
	c.Tolerance, c.Other = kerneltest.Tolerance{ULP: 1}, r.PTX
	kerneltest.Run(t, c)
}

// TestProgram runs what the program runs.
func TestProgram(t *testing.T) {
	gpu, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	got, err := saxpy(gpu, 2, []float32{0, 1, 2}, []float32{5, 5, 5})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{5, 7, 9} {
		if got[i] != want {
			t.Errorf("element %d: got %v, want %v", i, got[i], want)
		}
	}
}
