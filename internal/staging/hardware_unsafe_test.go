package staging

import (
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/workers"
)

// hardware is a real GPU with device memory and a stream.
type hardware struct {
	cu.Driver
	ctx    cu.Context
	stream cu.Stream
	device cu.DevicePtr
}

// newHardware skips the benchmark where there is no GPU.
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

// in copies to the device and waits.
func (h *hardware) in(r *Ring, m []byte) error {
	_, err := r.In(background, Job{Stream: h.stream, Device: h.device, Bytes: int64(len(m))}, Memory(m))
	if err != nil {
		return err
	}
	return h.StreamSynchronize(h.ctx, h.stream)
}

// out copies from the device.
func (h *hardware) out(r *Ring, m []byte) error {
	_, err := r.Out(background, Job{Stream: h.stream, Device: h.device, Bytes: int64(len(m))}, Memory(m))
	return err
}

// BenchmarkSettings finds the settings of a machine, on ordinary pages. It compares with
// page-locked memory.
func BenchmarkSettings(b *testing.B) {
	const most = 1 << 30
	h := newHardware(b, most)
	memory := random(most)
	for _, size := range []int{256 << 20, most} {
		h.locked(b, uintptr(size))
		for _, set := range []Settings{
			sized(8<<20, 8, 256<<10, 8), sized(8<<20, 8, 256<<10, 12), sized(8<<20, 8, 256<<10, 15),
			sized(8<<20, 8, 512<<10, 12), sized(8<<20, 8, 128<<10, 12), sized(16<<20, 4, 256<<10, 12), sized(16<<20, 8, 256<<10, 12),
			sized(16<<20, 4, 256<<10, 15), sized(8<<20, 4, 256<<10, 10), sized(8<<20, 6, 256<<10, 12),
		} {
			r := New(h, h.ctx, set, Hooks{})
			name := fmt.Sprintf("size=%dMiB/chunk=%dMiB/slots=%d/block=%dKiB/workers=%d", size>>20, set.Chunk>>20, set.Slots, set.Block>>10, set.Workers)
			b.Run("in/"+name, func(b *testing.B) { h.bench(b, r, memory[:size], h.in) })
			b.Run("out/"+name, func(b *testing.B) { h.bench(b, r, memory[:size], h.out) })
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// locked measures copies of page-locked memory by the device.
func (h *hardware) locked(b *testing.B, size uintptr) {
	p, err := h.MemHostAlloc(h.ctx, size, 0)
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, copy func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := errors.Join(copy(), h.StreamSynchronize(h.ctx, h.stream)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run(fmt.Sprintf("in/size=%dMiB/page-locked", size>>20), func() error { return h.MemcpyHtoDAsync(h.ctx, h.device, p, size, h.stream) })
	run(fmt.Sprintf("out/size=%dMiB/page-locked", size>>20), func() error { return h.MemcpyDtoHAsync(h.ctx, p, h.device, size, h.stream) })
	if err := h.MemFreeHost(h.ctx, p); err != nil {
		b.Fatal(err)
	}
}

// bench measures copies through a ring.
func (h *hardware) bench(b *testing.B, r *Ring, m []byte, do func(*Ring, []byte) error) {
	for range 2 * r.set.Slots { // until the ring has its slots
		if err := do(r, m); err != nil {
			b.Fatal(err)
		}
		if len(m) > 32<<20 {
			break
		}
	}
	b.SetBytes(int64(len(m)))
	for b.Loop() {
		if err := do(r, m); err != nil {
			b.Fatal(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b.ReportMetric(float64(r.target[toDevice]), "workers-in")
	b.ReportMetric(float64(r.target[fromDevice]), "workers-out")
	b.ReportMetric(100*r.busyShare, "%busy")
}

// BenchmarkFresh copies data to the device that all cores have just written. It also does
// so after other memory has pushed the ring out of the caches, and with data that the copy
// before has read.
func BenchmarkFresh(b *testing.B) {
	const most = 1 << 30
	h := newHardware(b, most)
	memory, others := random(most), random(most)
	r := New(h, h.ctx, sized(8<<20, 8, 128<<10, 12), Hooks{})
	defer r.Close()
	for _, size := range []int{16 << 20, 64 << 20, 256 << 20, most} {
		m := memory[:size]
		for name, prepare := range map[string]func(){
			"read-before":  func() {},
			"just-written": func() { write(m) },
			"ring-cold":    func() { write(others); write(m) },
		} {
			b.Run(fmt.Sprintf("size=%dMiB/%s", size>>20, name), func(b *testing.B) {
				b.SetBytes(int64(size))
				for range b.N {
					b.StopTimer()
					prepare()
					b.StartTimer()
					if err := h.in(r, m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// write has all cores change all bytes.
func write(m []byte) {
	workers.For(len(m), func(first, end int) {
		for i := range m[first:end] {
			m[first+i]++
		}
	})
}

// BenchmarkSize copies every size by the driver and through the ring. It finds the size
// from which on the ring is faster.
func BenchmarkSize(b *testing.B) {
	const most = 64 << 20
	h := newHardware(b, most)
	memory := random(most)
	r := New(h, h.ctx, sized(8<<20, 8, 128<<10, 12), Hooks{})
	defer r.Close()
	for size := 16 << 10; size <= most; size *= 2 {
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
