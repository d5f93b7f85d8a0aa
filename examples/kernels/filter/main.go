// The command filter blurs a picture on a GPU, or on the software GPU if there is none. It
// reads and writes PNG files. Without an input file it draws a picture itself. Its kernel, in
// filter.cu, takes a structure by value. The command ferry bind made filter.ptx and
// filter_cu.go from it, with the Go structure Plan.
//
//	go run ./examples/kernels/filter [-in FILE.png] [-out FILE.png]
//
// After a change of filter.cu, write them again. That needs clang or NVRTC; the program needs
// neither:
//
//	go generate ./examples/kernels/filter
package main

import (
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"log"
	"os"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind filter.cu

// gauss are the weights of a Gaussian blur, which have the sum 1.
var gauss = [25]float32{
	1. / 256, 4. / 256, 6. / 256, 4. / 256, 1. / 256,
	4. / 256, 16. / 256, 24. / 256, 16. / 256, 4. / 256,
	6. / 256, 24. / 256, 36. / 256, 24. / 256, 6. / 256,
	4. / 256, 16. / 256, 24. / 256, 16. / 256, 4. / 256,
	1. / 256, 4. / 256, 6. / 256, 4. / 256, 1. / 256,
}

func main() {
	in := flag.String("in", "", "the picture to read, a PNG file")
	out := flag.String("out", "", "the picture to write, a PNG file")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		log.Fatal(err)
	}
}

func run(in, out string) error {
	picture := draft(320, 200)
	if in != "" {
		var err error
		if picture, err = read(in); err != nil {
			return err
		}
	}
	gpu, err := ferry.Open("")
	if err != nil {
		return err
	}
	defer gpu.Close()
	blurred, err := filter(gpu, picture, gauss)
	if err != nil {
		return err
	}
	b := picture.Bounds()
	fmt.Printf("%dx%d pixels: the largest step between neighbours was %d and is %d\n", b.Dx(), b.Dy(), steepest(picture), steepest(blurred))
	if out == "" {
		return nil
	}
	return write(out, blurred)
}

// filter returns the picture after the filter.
func filter(gpu *ferry.GPU, picture *image.Gray, weights [25]float32) (*image.Gray, error) {
	kernels, err := LoadFilter(gpu)
	if err != nil {
		return nil, err
	}
	defer kernels.Close()
	stream, err := ferry.NewStream(gpu, nil)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	in, err := ferry.Upload(gpu, picture.Pix)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := ferry.Alloc[uint8](gpu, len(picture.Pix))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	b := picture.Bounds()
	p := Plan{Width: int32(b.Dx()), Height: int32(b.Dy()), Stride: int32(picture.Stride), Weights: weights}
	if err := kernels.Filter(stream, config(b.Dx(), b.Dy()), p, in, out); err != nil {
		return nil, err
	}
	result := image.NewGray(b)
	result.Stride = picture.Stride
	result.Pix, err = ferry.Download(out) // waits for the kernel
	return result, err
}

// config returns the configuration for a picture, with blocks of 32x8 threads.
func config(width, height int) ferry.LaunchConfig {
	return ferry.LaunchConfig{
		Grid:  cu.Dim3{X: uint32((width + 31) / 32), Y: uint32((height + 7) / 8), Z: 1},
		Block: cu.Dim3{X: 32, Y: 8, Z: 1},
	}
}

// draft draws a picture: a disc on a chess board.
func draft(width, height int) *image.Gray {
	picture := image.NewGray(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			dx, dy := x-width/2, y-height/2
			bright := (x/20+y/20)%2 == 0
			if dx*dx+dy*dy < height*height/9 {
				bright = !bright
			}
			if bright {
				picture.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	return picture
}

// steepest returns the largest difference of two pixels side by side.
func steepest(picture *image.Gray) int {
	b, most := picture.Bounds(), 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X + 1; x < b.Max.X; x++ {
			step := int(picture.GrayAt(x, y).Y) - int(picture.GrayAt(x-1, y).Y)
			most = max(most, step, -step)
		}
	}
	return most
}

// read reads a PNG file as shades of gray.
func read(path string) (*image.Gray, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	gray := image.NewGray(picture.Bounds())
	draw.Draw(gray, gray.Bounds(), picture, picture.Bounds().Min, draw.Src)
	return gray, nil
}

// write writes a PNG file.
func write(path string, picture image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, picture); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}
