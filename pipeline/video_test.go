package pipeline_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/workload"
	"github.com/ferrygpu/ferry/pipeline"
)

// The size of the frames of BenchmarkVideo.
const videoWidth, videoHeight = 1920, 1080

type (
	nv12Frame [videoWidth * videoHeight * 3 / 2]byte
	rgbPlanes [3 * videoWidth * videoHeight]float32
)

// BenchmarkVideo takes three frames through four launches each: NV12 to RGB, a tone curve, a mean of
// neighbours, planes of floats. With FERRY_CHECK=races it shows what the check costs.
func BenchmarkVideo(b *testing.B) {
	gpu := must(ferry.Open(""))(b)
	defer gpu.Close()
	module := must(ferry.Load(gpu, []byte(workload.VideoPTX), nil))(b)
	defer module.Close()
	kernel := func(name string) *ferry.Kernel { return must(module.Kernel(name))(b) }
	convert, grade, soften, planes := kernel("nv12_to_rgb"), kernel("grade"), kernel("soften"), kernel("planes")
	curve := make([]byte, 3*256)
	for i := range curve {
		curve[i] = byte(255 - i)
	}
	tone := must(ferry.Upload(gpu, curve))(b)
	defer tone.Close()
	rgb, soft := must(ferry.Alloc[byte](gpu, 3*videoWidth*videoHeight))(b), must(ferry.Alloc[byte](gpu, 3*videoWidth*videoHeight))(b)
	defer rgb.Close()
	defer soft.Close()
	free := must(ferry.NewEvent(gpu, nil))(b) // rgb and soft are
	defer free.Close()
	const frames = 3
	in := make([]byte, frames*len(nv12Frame{}))
	for i := range in {
		in[i] = byte(i * 7 >> 3) // smooth, as pictures are
	}
	out := make([]rgbPlanes, frames)
	grid, w, h := ferry.Cover2D(videoWidth, videoHeight, 32, 8), int32(videoWidth), int32(videoHeight)
	p := pipeline.Pipeline{
		GPU: gpu, Out: []pipeline.End{ferry.Pageable(out)}, ChunkLen: 1,
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			if c.Index > 0 {
				check(b, s.WaitEvent(free))
			}
			check(b, s.Launch(convert, grid, c.In[0], rgb, w, h))
			check(b, s.Launch(grade, grid, tone, rgb, w, h))
			check(b, s.Launch(soften, grid, rgb, soft, w, h))
			check(b, s.Launch(planes, grid, soft, c.Out[0], w, h))
			return s.Record(free)
		},
	}
	defer p.Close()
	before := workload.CPUTime()
	for b.Loop() {
		p.In = []pipeline.End{pipeline.From[nv12Frame](bytes.NewReader(in))}
		if n := must(p.Run(context.Background()))(b); n != frames {
			b.Fatalf("%d frames, want %d", n, frames)
		}
	}
	b.ReportMetric(float64(workload.CPUTime()-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
}
