package softgpu

import (
	"fmt"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/workload"
)

func BenchmarkCopyAndSynchronize(b *testing.B) {
	r := newRig(b, Options{})
	dev := r.alloc(4096)
	hp, _ := r.pinned(4096)
	b.ReportAllocs()
	for b.Loop() {
		r.ok(r.MemcpyHtoDAsync(r.ctx, dev, hp, 4096, 0))
		r.sync(0)
	}
}

func BenchmarkLaunchAndSynchronize(b *testing.B) {
	r := newRig(b, Options{})
	f := r.function("store")
	dev := r.alloc(4096)
	p := params(dev, uint32(1))
	b.ReportAllocs()
	for b.Loop() {
		r.ok(r.LaunchKernel(r.ctx, f, one, one, 0, 0, p))
		r.sync(0)
	}
}

func BenchmarkQueuedOperations(b *testing.B) {
	r := newRig(b, Options{})
	dev := r.alloc(4096)
	s := r.stream(cu.StreamNonBlocking)
	b.ReportAllocs()
	for b.Loop() {
		for range 1000 {
			r.ok(r.MemsetD8Async(r.ctx, dev, 1, 64, s))
		}
		r.sync(s)
	}
}

func BenchmarkAllocateAndFree(b *testing.B) {
	r := newRig(b, Options{})
	for range 1000 {
		r.alloc(1000)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.ok(r.MemFree(r.ctx, r.alloc(1000)))
	}
}

// BenchmarkDriver launches kernels through the driver's calls and waits for
// each.
func BenchmarkDriver(b *testing.B) {
	for _, w := range workload.Full() {
		b.Run(fmt.Sprintf("kernel=%s/n=%d", w.Kernel, w.N), func(b *testing.B) {
			r := newRig(b, Options{})
			m, err := r.ModuleLoadData(r.ctx, []byte(workload.PTX))
			r.ok(err)
			f, err := r.ModuleGetFunction(r.ctx, m, w.Kernel)
			r.ok(err)
			var addrs []uint64
			for _, data := range w.Buffers {
				p := r.alloc(uintptr(len(data)))
				r.ok(r.MemcpyHtoD(r.ctx, p, ptr(data), uintptr(len(data))))
				addrs = append(addrs, uint64(p))
			}
			args := w.Params(addrs)
			for b.Loop() {
				r.ok(r.LaunchKernel(r.ctx, f, w.Grid, w.Block, 0, 0, args))
				r.sync(0)
			}
			b.ReportMetric(float64(w.Threads())*float64(b.N)/b.Elapsed().Seconds(), "threads/s")
		})
	}
}
