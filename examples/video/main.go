// The command video converts frames of NV12 to RGB, from a raw file or from standard input, by package pipeline. A frame
// is an element of the pipeline: its type is an array, so no chunk ends within a frame. Without an input it makes
// frames itself.
//
//	go run ./examples/video --size 320x180 --frames 30 --ppm frame.ppm
//	ffmpeg -i film.mp4 -pix_fmt nv12 -f rawvideo - | go run ./examples/video --size 1920x1080 --in - --out film.rgb
//
// After a change of nv12.cu: go generate ./examples/video.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/ferrygpu/ferry"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind nv12.cu

// options are the flags of the command.
type options struct {
	device, size, in, out, ppm string
	frames, frame              int
}

func main() {
	var o options
	flag.StringVar(&o.device, "device", "", "the device, such as cuda:1 or soft; empty is FERRY_DEVICE, else a GPU if there is one")
	flag.StringVar(&o.size, "size", "320x180", "the size of frames: "+sizeNames())
	flag.StringVar(&o.in, "in", "", "a file of NV12 frames, - for standard input; empty makes frames")
	flag.IntVar(&o.frames, "frames", 30, "how many frames to make")
	flag.StringVar(&o.out, "out", "", "a file for all RGB frames")
	flag.StringVar(&o.ppm, "ppm", "", "a file for a picture of one frame")
	flag.IntVar(&o.frame, "frame", 0, "the frame for --ppm")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

// run converts all frames, and prints how many.
func run(ctx context.Context, o options) (err error) {
	var open closers
	defer func() { err = errors.Join(err, open.Close()) }()
	size, err := sizeOf(o.size)
	if err != nil {
		return err
	}
	if o.frame < 0 {
		return fmt.Errorf("--frame %d: the first frame has number 0", o.frame)
	}
	gpu, err := ferry.Open(o.device)
	if err != nil {
		return err
	}
	open = append(open, gpu)
	in, err := o.input(size, &open)
	if err != nil {
		return err
	}
	out, picture, err := o.outputs(size, &open)
	if err != nil {
		return err
	}
	n, err := size.convert(ctx, gpu, in, out, size.width, size.height)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the last frame is cut off, after %d whole frames in the output: %w", n, err)
	}
	if err == nil && picture != nil && picture.left > 0 {
		err = fmt.Errorf("there is no frame %d for %s", o.frame, o.ppm)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d frames of %s on %v\n", n, o.size, gpu)
	return nil
}

// input returns the reader of NV12 frames.
func (o options) input(s size, open *closers) (io.Reader, error) {
	switch o.in {
	case "":
		return &film{width: s.width, height: s.height, frames: o.frames}, nil
	case "-":
		return os.Stdin, nil
	}
	f, err := os.Open(o.in)
	if err != nil {
		return nil, err
	}
	*open = append(*open, f)
	return f, nil
}

// outputs returns the writer of RGB frames, and the part of it that writes one picture, or nil.
func (o options) outputs(s size, open *closers) (all io.Writer, picture *part, err error) {
	all = io.Discard
	if o.out != "" {
		f, err := o.create(o.out)
		if err != nil {
			return nil, nil, err
		}
		*open = append(*open, f)
		all = f
	}
	if o.ppm == "" {
		return all, nil, nil
	}
	f, err := o.create(o.ppm)
	if err != nil {
		return nil, nil, err
	}
	*open = append(*open, f)
	if _, err := fmt.Fprintf(f, "P6\n%d %d\n255\n", s.width, s.height); err != nil {
		return nil, nil, err
	}
	bytes := 3 * s.width * s.height
	picture = &part{w: f, skip: o.frame * bytes, left: bytes}
	return io.MultiWriter(all, picture), picture, nil
}

// create makes an output, which must not be the input.
func (o options) create(path string) (*os.File, error) {
	in, _ := os.Stat(o.in)
	if out, err := os.Stat(path); err == nil && os.SameFile(in, out) {
		return nil, fmt.Errorf("%s is the input: give the output another name", path)
	}
	return os.Create(path)
}

// closers are what is open, in the order in which it was opened.
type closers []io.Closer

// Close closes all, the last one first, and returns all errors.
func (c closers) Close() (err error) {
	for _, x := range slices.Backward(c) {
		err = errors.Join(err, x.Close())
	}
	return err
}
