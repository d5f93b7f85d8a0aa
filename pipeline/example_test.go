package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
)

// Data goes from a reader, which could be a file larger than the GPU's memory, through a
// kernel into a slice. Reading, both copies and the kernel run at once.
func ExamplePipeline() {
	gpu, err := ferry.Open("") // FERRY_DEVICE, a GPU, or the software one
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	code, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer code.Close()
	increment, err := code.Kernel("increment")
	if err != nil {
		log.Fatal(err)
	}
	file := bytes.NewReader(make([]byte, 4<<20)) // a million zeros
	result := make([]float32, 1<<20)

	p := pipeline.Pipeline{
		GPU:     gpu,
		In:      []pipeline.End{pipeline.From[float32](file)},
		Out:     []pipeline.End{ferry.Pageable(result)},
		InPlace: true,
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			return s.Launch(increment, ferry.Cover(c.Len, 256), c.Out[0], uint64(c.Len))
		},
	}
	defer p.Close()
	n, err := p.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "elements, from", result[0], "to", result[n-1])
	// Output:
	// 1048576 elements, from 1 to 1
}

// An element can be an array. Here it is a frame of 4 by 3 pixels, so each chunk has whole frames, and Run counts
// frames.
func ExampleFrom() {
	gpu, err := ferry.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
	code, err := ferry.Load(gpu, []byte(kernels.PTX), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer code.Close()
	increment, err := code.Kernel("increment")
	if err != nil {
		log.Fatal(err)
	}
	type frame [4 * 3]float32
	video := bytes.NewReader(make([]byte, 5*len(frame{})*4)) // five black frames
	frames := make([]frame, 5)

	p := pipeline.Pipeline{
		GPU:     gpu,
		In:      []pipeline.End{pipeline.From[frame](video)},
		Out:     []pipeline.End{ferry.Pageable(frames)},
		InPlace: true,
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			pixels := c.Len * len(frame{})
			return s.Launch(increment, ferry.Cover(pixels, 256), c.Out[0], uint64(pixels))
		},
	}
	defer p.Close()
	n, err := p.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "frames, the last one is", frames[4])
	// Output:
	// 5 frames, the last one is [1 1 1 1 1 1 1 1 1 1 1 1]
}
