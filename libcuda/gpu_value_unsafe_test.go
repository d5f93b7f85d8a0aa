package libcuda_test

import (
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// mark is a way in which a host learns that a stream has reached a point: the call that
// marks the point, and the look whether it is reached.
type mark struct {
	name string
	mark func()
	look func() bool
}

func marks(h *hot) []mark {
	b, at := h.pinned(64, 0)
	word, n := (*uint32)(unsafe.Pointer(&b[0])), uint32(0)
	return []mark{
		{"value", func() {
			n++
			h.must(h.StreamWriteValue32(h.ctx, h.stream, cu.DevicePtr(uintptr(at)), n, cu.StreamWriteValueDefault))
		}, func() bool { return atomic.LoadUint32(word) == n }},
		{"event", func() { h.must(h.EventRecord(h.ctx, h.event, h.stream)) },
			func() bool { return h.EventQuery(h.ctx, h.event) == nil }},
	}
}

// workBefore is what the stream does before the point.
var workBefore = []struct {
	name string
	call func(h *hot) error
}{
	{"nothing", func(*hot) error { return nil }},
	{"launch", func(h *hot) error { return h.LaunchKernel(h.ctx, h.empty, one, one, 0, h.stream, nil) }},
	{"copy", func(h *hot) error { return h.MemcpyDtoHAsync(h.ctx, h.host, h.dev, 4096, h.stream) }},
}

// BenchmarkGPUSeen measures from the first call until the host knows that the stream has
// reached the point. The unit not-ready is the part of the looks after which StreamQuery
// still says that the stream has work.
func BenchmarkGPUSeen(b *testing.B) {
	h := newHot(b)
	for _, work := range workBefore {
		for _, way := range marks(h) {
			b.Run("after="+work.name+"/by="+way.name, func(b *testing.B) {
				notReady := 0
				for b.Loop() {
					h.must(work.call(h))
					way.mark()
					for !way.look() {
					}
					b.StopTimer()
					if h.StreamQuery(h.ctx, h.stream) == cu.ErrorNotReady {
						notReady++
					}
					h.must(h.StreamSynchronize(h.ctx, h.stream))
					b.StartTimer()
				}
				b.ReportMetric(float64(notReady)/float64(b.N), "not-ready")
			})
		}
	}
}

// BenchmarkGPUInStream measures the stream's time for a mark behind other work. A long
// fill comes first, so that the calls are ahead of the stream.
func BenchmarkGPUInStream(b *testing.B) {
	const count, long = 100, 1 << 30
	h := newHot(b)
	start, end, large := h.gpu.event(), h.gpu.event(), h.alloc(long)
	for _, work := range workBefore[:2] {
		for _, way := range append(marks(h), mark{"nothing", func() {}, nil}) {
			b.Run("after="+work.name+"/mark="+way.name, func(b *testing.B) {
				total := 0.0
				for b.Loop() {
					for range 4 {
						h.must(h.MemsetD8Async(h.ctx, large, 1, long, h.stream))
					}
					h.must(h.EventRecord(h.ctx, start, h.stream))
					for range count {
						h.must(work.call(h))
						way.mark()
					}
					h.must(h.EventRecord(h.ctx, end, h.stream))
					h.must(h.StreamSynchronize(h.ctx, h.stream))
					ms, err := h.EventElapsedTime(h.ctx, start, end)
					h.must(err)
					total += float64(ms) * 1e6 / count
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(total/float64(b.N), "ns/mark")
			})
		}
	}
}

// TestGPUValue checks that the host sees what the stream did before it wrote the value,
// while the stream goes on.
func TestGPUValue(t *testing.T) {
	h := newHot(t)
	back, at := h.pinned(4096, 0)
	way := marks(h)[0]
	for range 200 {
		data := random(4096)
		h.must(h.MemcpyHtoD(h.ctx, h.dev, cu.HostPtr(unsafe.Pointer(&data[0])), 4096))
		h.must(h.MemcpyDtoHAsync(h.ctx, at, h.dev, 4096, h.stream))
		way.mark()
		h.must(h.LaunchKernel(h.ctx, h.empty, one, one, 0, h.stream, nil))
		for !way.look() {
		}
		h.same("the copy before the value", back, data)
	}
	h.must(h.StreamSynchronize(h.ctx, h.stream))
}
