package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/pipeline"
)

// BenchmarkPipeline copies page-locked memory in, increments it, and copies it out: 1 GiB
// each way on hardware. depth is how many chunks are in flight, chunk is their length (0:
// Ferry chooses).
func BenchmarkPipeline(b *testing.B) {
	p := newFixture(b, openTest(b))
	n := 16 << 18
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		n = 1 << 28
	}
	in, out := must(ferry.AllocHost[float32](p.GPU, n, nil))(b), must(ferry.AllocHost[float32](p.GPU, n, nil))(b)
	b.Cleanup(func() { closeAll(b, in, out) })
	clear(in.Slice())
	clear(out.Slice())
	for _, depth := range []int{2, 3, 4, 6} {
		for _, chunk := range []int{0, 2, 4, 8, 16, 32} {
			b.Run(fmt.Sprintf("depth=%d/chunk=%dMiB", depth, chunk), func(b *testing.B) {
				x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{in}, Out: []pipeline.End{out}, InPlace: true, Step: p.increment, Depth: depth, ChunkLen: chunk << 18}
				defer closeAll(b, x)
				check(b, last(x.Run(context.Background())))
				b.SetBytes(int64(4 * n))
				for b.Loop() {
					check(b, last(x.Run(context.Background())))
				}
			})
		}
	}
}
