package main

import (
	"bytes"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/kerneltest"
)

// sizes are widths and heights: multiples of a block, smaller than the filter, and others.
var sizes = [][2]int{{64, 16}, {1, 1}, {3, 2}, {33, 9}, {100, 41}}

// sharpen makes differences larger, so that results below 0 and above 255 occur. Its
// weights are not symmetric, and no multiples of 1/256.
var sharpen = [25]float32{7: -1.1, 11: -1.3, 12: 5.7, 13: -0.9, 17: -1.2, 24: -0.1}

// kernelCase returns a test of the kernel. Rows have 5 more bytes than pixels, which the
// kernel must not write.
func kernelCase(size [2]int, weights [25]float32) *kerneltest.Case {
	width, height, stride := size[0], size[1], size[0]+5
	var list []string
	for _, w := range weights {
		list = append(list, fmt.Sprint(w))
	}
	return &kerneltest.Case{
		File: "filter.ptx", Kernel: "filter",
		Args: []string{
			fmt.Sprintf("struct=s32:%d,%d,%d,f32:%s", width, height, stride, strings.Join(list, ",")),
			fmt.Sprintf("in:u8=random[%d*%d]", height, stride), fmt.Sprintf("out:u8=[%d*%d]", height, stride),
		},
		Configs: func(int) []ferry.LaunchConfig {
			other := ferry.LaunchConfig{Grid: cu.Dim3{X: uint32(width), Y: uint32(height+63) / 64}, Block: cu.Dim3{X: 1, Y: 64}}
			return []ferry.LaunchConfig{config(width, height), other}
		},
		Want: reference,
	}
}

// reference filters in float64.
func reference(a *kerneltest.Args) {
	p := kerneltest.Value[Plan](a, 0)
	in, out := kerneltest.Slice[uint8](a, 1), kerneltest.Slice[uint8](a, 2)
	width, height, stride := int(p.Width), int(p.Height), int(p.Stride)
	for y := range height {
		for x := range width {
			sum := 0.0
			for i, w := range p.Weights {
				row, column := min(max(y+i/5-2, 0), height-1), min(max(x+i%5-2, 0), width-1)
				sum += float64(w) * float64(in[row*stride+column])
			}
			out[y*stride+x] = uint8(min(max(math.RoundToEven(sum), 0), 255))
		}
	}
}

// eachSize runs a test for every size.
func eachSize(t *testing.T, f func(t *testing.T, size [2]int)) {
	t.Helper()
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) { f(t, size) })
	}
}

// TestKernel uses the weights of the program, whose sums are exact in float32.
func TestKernel(t *testing.T) {
	eachSize(t, func(t *testing.T, size [2]int) { kerneltest.Run(t, kernelCase(size, gauss)) })
}

// TestKernelRounds uses weights whose sums are rounded. A sum near the middle between two
// integers may become either.
func TestKernelRounds(t *testing.T) {
	eachSize(t, func(t *testing.T, size [2]int) {
		c := kernelCase(size, sharpen)
		c.Tolerance = kerneltest.Tolerance{Abs: 1}
		kerneltest.Run(t, c)
	})
}

// TestMethod launches by the method that ferry bind wrote.
func TestMethod(t *testing.T) {
	eachSize(t, func(t *testing.T, size [2]int) {
		c := kernelCase(size, gauss)
		c.File, c.Launch = "", launch
		kerneltest.Run(t, c)
	})
}

func launch(l *kerneltest.Launch) error {
	kernels, err := LoadFilter(l.GPU)
	if err != nil {
		return err
	}
	defer kernels.Close()
	return kernels.Filter(l.Stream, l.Config, kerneltest.Value[Plan](l.Args, 0),
		kerneltest.Device[uint8](l.Args, 1), kerneltest.Device[uint8](l.Args, 2))
}

// TestCompiled compiles the source and compares with the committed PTX, bit by bit.
func TestCompiled(t *testing.T) {
	r := compiletest.File(t, "filter.cu", nil)
	eachSize(t, func(t *testing.T, size [2]int) {
		c := kernelCase(size, sharpen)
		c.Tolerance, c.Other = kerneltest.Tolerance{Abs: 1}, r.PTX
		kerneltest.Run(t, c)
	})
}

// TestProgram runs the program with a picture from a file.
func TestProgram(t *testing.T) {
	t.Setenv(ferry.SpecVariable, "soft")
	in, out := filepath.Join(t.TempDir(), "in.png"), filepath.Join(t.TempDir(), "out.png")
	picture := draft(50, 40)
	if err := write(in, picture); err != nil {
		t.Fatal(err)
	}
	if err := run(in, out); err != nil {
		t.Fatal(err)
	}
	got, err := read(out)
	if err != nil {
		t.Fatal(err)
	}
	want := image.NewGray(picture.Bounds())
	blur(picture, want)
	if !bytes.Equal(got.Pix, want.Pix) {
		t.Error("the picture is wrong")
	}
}

// blur is the Gaussian filter with integers.
func blur(in, out *image.Gray) {
	b := in.Bounds()
	for y := range b.Dy() {
		for x := range b.Dx() {
			sum := 0
			for i, w := range []int{1, 4, 6, 4, 1} {
				for k, v := range []int{1, 4, 6, 4, 1} {
					row, column := min(max(y+i-2, 0), b.Dy()-1), min(max(x+k-2, 0), b.Dx()-1)
					sum += w * v * int(in.Pix[row*in.Stride+column])
				}
			}
			rounded := (sum + 127 + sum>>8&1) >> 8 // to nearest, ties to even
			out.Pix[y*out.Stride+x] = uint8(rounded)
		}
	}
}
