package ferry_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/ferrygpu/ferry"
)

// From a reader, which could be a file larger than the GPU's memory, through a kernel
// into a slice: reading, both copies and the kernel go on at once.
func ExamplePipeline() {
	l := openLab()
	defer l.Close()
	file := bytes.NewReader(make([]byte, 4<<20)) // a million zeros
	result := make([]float32, 1<<20)

	p := ferry.Pipeline{
		GPU:     l.dev,
		In:      []ferry.End{ferry.From[float32](file)},
		Out:     []ferry.End{ferry.Plain(result)},
		InPlace: true,
		Step: func(s *ferry.Stream, c *ferry.Chunk) error {
			return s.Launch(l.increment, ferry.Grid(c.Len, 256), c.Out[0], uint64(c.Len))
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
