package libcuda_test

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// hot has the arguments of the calls that programs make most often.
type hot struct {
	*gpu
	stream cu.Stream
	event  cu.Event
	dev    cu.DevicePtr
	host   cu.HostPtr
	empty  cu.Function
	scale  cu.Function
	params []byte
	batch  cu.Batch // copy in, launch, copy out, event
}

func newHot(t testing.TB) *hot {
	g := newGPU(t)
	m := g.module(testPTX)
	h := &hot{gpu: g, stream: g.stream(), event: g.eventWith(cu.EventDisableTiming), dev: g.alloc(4096)}
	_, h.host = g.pinned(4096, 0)
	h.empty, h.scale = g.kernel(m, "empty"), g.kernel(m, "scale")
	h.params = scaleParams(h.dev, 1024, 3)
	h.batch.MemcpyHtoDAsync(h.dev, h.host, 4096, h.stream)
	h.batch.LaunchKernel(h.scale, cu.Dim3{X: 4, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, h.stream, h.params)
	h.batch.MemcpyDtoHAsync(h.host, h.dev, 4096, h.stream)
	h.batch.EventRecord(h.event, h.stream)
	return h
}

var hotGPUCalls = []struct {
	name string
	call func(h *hot) error
}{
	{"EventRecord", func(h *hot) error { return h.EventRecord(h.ctx, h.event, h.stream) }},
	{"EventQuery", func(h *hot) error { return ready(h.EventQuery(h.ctx, h.event)) }},
	{"StreamQuery", func(h *hot) error { return ready(h.StreamQuery(h.ctx, h.stream)) }},
	{"StreamSynchronize", func(h *hot) error { return h.StreamSynchronize(h.ctx, h.stream) }},
	{"MemcpyHtoDAsync/bytes=4096", func(h *hot) error { return h.MemcpyHtoDAsync(h.ctx, h.dev, h.host, 4096, h.stream) }},
	{"MemcpyDtoHAsync/bytes=4096", func(h *hot) error { return h.MemcpyDtoHAsync(h.ctx, h.host, h.dev, 4096, h.stream) }},
	{"MemcpyAsync/bytes=4096", func(h *hot) error { return h.MemcpyAsync(h.ctx, h.dev, devicePtr(h.host), 4096, h.stream) }},
	{"MemsetD8Async/bytes=4096", func(h *hot) error { return h.MemsetD8Async(h.ctx, h.dev, 1, 4096, h.stream) }},
	{"StreamWriteValue32", func(h *hot) error { return h.StreamWriteValue32(h.ctx, h.stream, h.dev, 1, 0) }},
	{"LaunchKernel/kernel=empty", func(h *hot) error { return h.LaunchKernel(h.ctx, h.empty, one, one, 0, h.stream, nil) }},
	{"LaunchKernel/kernel=scale", func(h *hot) error {
		return h.LaunchKernel(h.ctx, h.scale, cu.Dim3{X: 4, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, h.stream, h.params)
	}},
	{"ThreadExchangeStreamCaptureMode", func(h *hot) error { _, err := h.ThreadExchangeStreamCaptureMode(0); return err }},
	{"Submit/calls=4", func(h *hot) error { _, err := h.Submit(h.ctx, &h.batch); return err }},
	{"Do/calls=4", func(h *hot) error { _, err := h.batch.Do(h, h.ctx); return err }},
	{"CtxGetDevice", func(h *hot) error { _, err := h.CtxGetDevice(h.ctx); return err }},
}

// ready accepts CUDA_ERROR_NOT_READY.
func ready(err error) error {
	if err == cu.ErrorNotReady {
		return nil
	}
	return err
}

func TestGPUHotCallsDoNotAllocate(t *testing.T) {
	h := newHot(t)
	for _, c := range hotGPUCalls {
		if c.name == "CtxGetDevice" {
			continue // C writes its result to a variable, which is allocated
		}
		n := testing.AllocsPerRun(500, func() { h.must(c.call(h)) })
		h.must(h.StreamSynchronize(h.ctx, h.stream))
		if n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
}

// BenchmarkGPU measures one call. The stream is drained every 200 calls, outside the
// measured time, so that no call waits for space in the stream's queue. The same calls
// in C are in internal/measure/bench/peer/calls.c.
func BenchmarkGPU(b *testing.B) {
	h := newHot(b)
	for _, c := range hotGPUCalls {
		b.Run("call="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := c.call(h); err != nil {
					b.Fatal(err)
				}
				if i++; i%200 == 0 {
					b.StopTimer()
					if err := h.StreamSynchronize(h.ctx, h.stream); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			if err := h.StreamSynchronize(h.ctx, h.stream); err != nil {
				b.Fatal(err)
			}
		})
	}
}
