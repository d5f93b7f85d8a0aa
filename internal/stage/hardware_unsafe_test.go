package stage

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/gputest"
)

// hardware is a real GPU with device memory and a stream.
type hardware struct {
	cu.Driver
	ctx    cu.Context
	stream cu.Stream
	device cu.DevicePtr
}

// newHardware skips where there is no GPU.
func newHardware(b *testing.B, bytes uintptr) *hardware {
	b.Helper()
	h := &hardware{Driver: gputest.Driver(b)}
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	var err error
	h.ctx, err = h.DevicePrimaryCtxRetain(0)
	must(err)
	h.stream, err = h.StreamCreate(h.ctx, cu.StreamNonBlocking)
	must(err)
	h.device, err = h.MemAlloc(h.ctx, bytes)
	must(err)
	b.Cleanup(func() {
		must(h.MemFree(h.ctx, h.device))
		must(h.StreamDestroy(h.ctx, h.stream))
		must(h.DevicePrimaryCtxRelease(0))
	})
	return h
}

// in and out are one transfer and the wait for it.
func (h *hardware) in(r *Ring, m []byte) error {
	_, err := r.In(background, Job{Stream: h.stream, Device: h.device, Bytes: int64(len(m))}, Memory(m))
	if err != nil {
		return err
	}
	return h.StreamSynchronize(h.ctx, h.stream)
}

func (h *hardware) out(r *Ring, m []byte) error {
	_, err := r.Out(background, Job{Stream: h.stream, Device: h.device, Bytes: int64(len(m))}, Memory(m))
	return err
}

// BenchmarkSettings looks for the settings of a machine, on ordinary pages.
func BenchmarkSettings(b *testing.B) {
	const most = 1 << 30
	h := newHardware(b, most)
	memory := random(most)
	for _, size := range []int{256 << 20, most} {
		for _, chunk := range []int{4 << 20, 8 << 20, 16 << 20} {
			for _, slots := range []int{4, 8} {
				for _, block := range []int{128 << 10, 256 << 10} {
					for _, threads := range []int{8, 12, 15} {
						r := New(h, h.ctx, sized(chunk, slots, block, threads))
						name := fmt.Sprintf("size=%dMiB/chunk=%dMiB/slots=%d/block=%dKiB/threads=%d", size>>20, chunk>>20, slots, block>>10, threads)
						b.Run("in/"+name, func(b *testing.B) { h.bench(b, r, memory[:size], h.in) })
						r.threads = threads
						b.Run("out/"+name, func(b *testing.B) { h.bench(b, r, memory[:size], h.out) })
						if err := r.Close(); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
		}
	}
}

func (h *hardware) bench(b *testing.B, r *Ring, m []byte, do func(*Ring, []byte) error) {
	if err := do(r, m); err != nil { // the slots
		b.Fatal(err)
	}
	b.SetBytes(int64(len(m)))
	for b.Loop() {
		if err := do(r, m); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(r.threads), "threads")
}

// BenchmarkSize is every size by the driver's own copy and through the ring, to find
// where the ring begins to pay.
func BenchmarkSize(b *testing.B) {
	const most = 64 << 20
	h := newHardware(b, most)
	memory := random(most)
	r := New(h, h.ctx, sized(8<<20, 8, 128<<10, 12))
	defer r.Close()
	for size := 1; size <= most; size *= 4 {
		m := memory[:size]
		p := unsafe.Pointer(&m[0])
		for name, do := range map[string]func(*Ring, []byte) error{
			"dir=in/by=driver":  func(*Ring, []byte) error { return h.MemcpyHtoD(h.ctx, h.device, p, uintptr(size)) },
			"dir=in/by=ring":    h.in,
			"dir=out/by=driver": func(*Ring, []byte) error { return h.MemcpyDtoH(h.ctx, p, h.device, uintptr(size)) },
			"dir=out/by=ring":   h.out,
		} {
			b.Run(fmt.Sprintf("%s/size=%d", name, size), func(b *testing.B) { h.bench(b, r, m, do) })
		}
	}
}
