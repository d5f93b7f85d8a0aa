package nccl_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/nccl"
)

// hardware returns the communicators of all GPUs of the machine, at most two, and a stream of each.
func hardware(t testing.TB) ([]*nccl.Comm, []*ferry.Stream) {
	count, err := gputest.Driver(t).DeviceGetCount()
	check(t, err)
	var gpus []*ferry.GPU
	for i := range min(count, 2) {
		g, err := ferry.Open(fmt.Sprintf("cuda:%d", i))
		check(t, err)
		t.Cleanup(func() { check(t, g.Close()) })
		gpus = append(gpus, g)
	}
	comms, err := nccl.OpenAll(context.Background(), gpus, &nccl.Options{Timeout: time.Minute})
	check(t, err)
	var streams []*ferry.Stream
	for i, c := range comms {
		s, err := ferry.NewStream(gpus[i], nil)
		check(t, err)
		streams = append(streams, s)
		t.Cleanup(func() { check(t, s.Close()) })
		_ = c
	}
	t.Cleanup(func() {
		done := make(chan error)
		for _, c := range comms {
			go func() { done <- c.Close() }()
		}
		for range comms {
			check(t, <-done)
		}
	})
	return comms, streams
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOnGPU: an all-reduce of every GPU by NCCL, in place and out of place.
func TestOnGPU(t *testing.T) {
	comms, streams := hardware(t)
	const n = 1000
	for _, inPlace := range []bool{false, true} {
		var g nccl.Group
		var outs []*ferry.Device[float32]
		for i, c := range comms {
			src, err := ferry.Alloc[float32](c.GPU(), n)
			check(t, err)
			dst := src
			if !inPlace {
				dst, err = ferry.Alloc[float32](c.GPU(), n)
				check(t, err)
			}
			check(t, ferry.Fill(streams[i], src, float32(i+1)))
			check(t, nccl.AllReduce(g.For(c), streams[i], dst, src, nccl.Sum))
			outs = append(outs, dst)
		}
		check(t, g.Submit())
		want := float32(len(comms) * (len(comms) + 1) / 2)
		for i, c := range comms {
			check(t, c.Wait(context.Background(), streams[i]))
			got := make([]float32, n)
			check(t, ferry.Copy(streams[i], ferry.Pageable(got), outs[i]))
			check(t, streams[i].Wait(context.Background()))
			if slices.ContainsFunc(got, func(x float32) bool { return x != want }) {
				t.Errorf("%v: got %v..., want %v", c, got[:4], want)
			}
		}
	}
	t.Log(comms[0].Library())
}

// BenchmarkAllReduce is one all-reduce of each GPU from the call to the end of the stream.
func BenchmarkAllReduce(b *testing.B) {
	comms, streams := hardware(b)
	for _, n := range []int{1 << 10, 1 << 18, 1 << 28} {
		b.Run(fmt.Sprintf("bytes=%d", n*4), func(b *testing.B) {
			var bufs []*ferry.Device[float32]
			for _, c := range comms {
				x, err := ferry.Alloc[float32](c.GPU(), n)
				check(b, err)
				bufs = append(bufs, x)
			}
			b.SetBytes(int64(4 * n))
			b.ReportAllocs()
			for b.Loop() {
				if len(comms) == 1 {
					check(b, nccl.AllReduce(comms[0], streams[0], bufs[0], bufs[0], nccl.Sum))
				} else {
					var g nccl.Group
					for i, c := range comms {
						check(b, nccl.AllReduce(g.For(c), streams[i], bufs[i], bufs[i], nccl.Sum))
					}
					check(b, g.Submit())
				}
				for _, s := range streams {
					check(b, s.Wait(context.Background()))
				}
			}
			for _, x := range bufs {
				check(b, x.Close())
			}
		})
	}
}
