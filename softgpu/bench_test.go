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

// BenchmarkRequest measures a request of a server: its inputs are copied to the device from
// page-locked memory, a kernel runs, and the output is copied back. Compare its processor time with
// that of a build with -race, and with FERRY_RACE=arguments in addition.
func BenchmarkRequest(b *testing.B) {
	frame := workload.Video(256, 128)
	for _, c := range []struct {
		text string
		w    *workload.Workload
	}{
		{workload.PTX, workload.VectorAdd(1 << 14)},
		{workload.PTX, workload.Transpose(128)},
		{workload.PTX, workload.Reduce("reduce_barrier", 1<<14)},
		{workload.PTX, workload.MatrixProduct(64)},
		{workload.VideoPTX, frame[0]},
		{workload.VideoPTX, frame[1]},
		{workload.VideoPTX, frame[2]},
		{workload.VideoPTX, frame[3]},
	} {
		b.Run("kernel="+c.w.Kernel, func(b *testing.B) {
			r := newRig(b, Options{})
			m, err := r.ModuleLoadData(r.ctx, []byte(c.text))
			r.ok(err)
			f, err := r.ModuleGetFunction(r.ctx, m, c.w.Kernel)
			r.ok(err)
			s := r.stream(cu.StreamNonBlocking)
			var device []uint64
			var host []cu.HostPtr
			for _, data := range c.w.Buffers {
				p, bytes := r.pinned(uintptr(len(data)))
				copy(bytes, data)
				host, device = append(host, p), append(device, uint64(r.alloc(uintptr(len(data)))))
			}
			args, last := c.w.Params(device), len(device)-1
			cpu := workload.CPUTime()
			for b.Loop() {
				for i, p := range host {
					r.ok(r.MemcpyHtoDAsync(r.ctx, cu.DevicePtr(device[i]), p, uintptr(len(c.w.Buffers[i])), s))
				}
				r.ok(r.LaunchKernel(r.ctx, f, c.w.Grid, c.w.Block, 0, s, args))
				r.ok(r.MemcpyDtoHAsync(r.ctx, host[last], cu.DevicePtr(device[last]), uintptr(len(c.w.Buffers[last])), s))
				r.sync(s)
			}
			b.ReportMetric((workload.CPUTime()-cpu).Seconds()*1e3/float64(b.N), "cpu-ms/op")
		})
	}
}
