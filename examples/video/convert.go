package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/pipeline"
)

// size is a size of frames. A frame is an array, and Go wants its length when it compiles. So each size is in a list,
// with a function that was compiled for it.
type size struct {
	width, height int
	convert       func(ctx context.Context, gpu *ferry.GPU, in io.Reader, out io.Writer, width, height int) (int, error)
}

var sizes = []size{
	{64, 36, convert[[64 * 36 * 3 / 2]byte, [64 * 36 * 3]byte]},
	{320, 180, convert[[320 * 180 * 3 / 2]byte, [320 * 180 * 3]byte]},
	{1280, 720, convert[[1280 * 720 * 3 / 2]byte, [1280 * 720 * 3]byte]},
	{1920, 1080, convert[[1920 * 1080 * 3 / 2]byte, [1920 * 1080 * 3]byte]},
	{3840, 2160, convert[[3840 * 2160 * 3 / 2]byte, [3840 * 2160 * 3]byte]},
}

func (s size) String() string { return fmt.Sprintf("%dx%d", s.width, s.height) }

// sizeOf returns the size with a name.
func sizeOf(name string) (size, error) {
	for _, s := range sizes {
		if s.String() == name {
			return s, nil
		}
	}
	return size{}, fmt.Errorf("no size %q: use %s, or add it to the list in convert.go", name, sizeNames())
}

// sizeNames returns the names of all sizes.
func sizeNames() string {
	var all []string
	for _, s := range sizes {
		all = append(all, s.String())
	}
	return strings.Join(all, ", ")
}

// convert converts frames of NV12 to RGB, and returns how many. NV12 and RGB are arrays with the bytes of one frame.
func convert[NV12, RGB any](ctx context.Context, gpu *ferry.GPU, in io.Reader, out io.Writer, width, height int) (n int, err error) {
	kernels, err := LoadNv12(gpu)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, kernels.Close()) }()
	p := &pipeline.Pipeline{
		GPU: gpu,
		In:  []pipeline.End{pipeline.From[NV12](in)},
		Out: []pipeline.End{pipeline.To[RGB](out)},
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			config := ferry.Cover2D(width, height, 32, 8)
			config.Grid.Z = uint32(c.Len)
			return kernels.Rgb(s, config, c.In[0], c.Out[0], int32(width), int32(height))
		},
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.Run(ctx)
}
