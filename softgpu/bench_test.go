package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
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

func BenchmarkVectorAdd(b *testing.B) {
	r := newRig(b, Options{})
	const n = 1 << 22
	f := r.shipped("vector_add")
	x, y, z := r.alloc(4*n), r.alloc(4*n), r.alloc(4*n)
	b.SetBytes(n) // MB/s is a million elements a second
	for b.Loop() {
		r.ok(r.LaunchKernel(r.ctx, f, cu.Dim3{X: 4096, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, 0, params64(uint64(x), uint64(y), uint64(z), n)))
		r.sync(0)
	}
}
