package libcuda_test

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestGPUSubmit submits every kind of call, each with an effect on the data, on two
// streams that an event orders.
func TestGPUSubmit(t *testing.T) {
	g := newGPU(t)
	scale := g.kernel(g.module(testPTX), "scale")
	const words, k = 1024, 5
	const n = 4 * words
	in, inPtr := g.pinned(n, 0)
	out, outPtr := g.pinned(n, 0)
	a, c, d := g.alloc(n), g.alloc(n), g.alloc(n)
	first, second, e := g.stream(), g.stream(), g.eventWith(cu.EventDisableTiming)
	for range 3 {
		data := random(n)
		copy(in, data)
		clear(out)
		var b cu.Batch
		b.MemcpyHtoDAsync(a, inPtr, n, first)
		b.LaunchKernel(scale, cu.Dim3{X: 4, Y: 1, Z: 1}, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, first, scaleParams(a, words, k))
		b.EventRecord(e, first)
		b.StreamWaitEvent(second, e)
		b.MemcpyDtoDAsync(c, a, n, second)
		b.MemcpyAsync(d, c, n, second)
		b.MemsetD8Async(d, 0x81, 1, second)
		b.MemsetD16Async(d+2, 0x8283, 1, second)
		b.MemsetD32Async(d+4, 0x84858687, 1, second)
		b.MemcpyDtoHAsync(outPtr, d, n, second)
		if done, err := g.Submit(g.ctx, &b); done != b.Len() || err != nil {
			t.Fatalf("%d of %d done, %v", done, b.Len(), err)
		}
		g.must(g.StreamSynchronize(g.ctx, second))
		want := scaled(data, k, 7)
		want[0], want[2], want[3] = 0x81, 0x83, 0x82
		want[4], want[5], want[6], want[7] = 0x87, 0x86, 0x85, 0x84
		g.same("a batch", out, want)
	}
	var b cu.Batch
	b.EventRecord(e, first)
	b.MemcpyDtoDAsync(1, 2, 3, first)
	b.EventRecord(e, first)
	if done, err := g.Submit(g.ctx, &b); done != 1 || err == nil {
		t.Errorf("a bad copy: %d done, %v", done, err)
	}
}

// TestGPUMemcpyBatch copies in both directions, and checks the refusals that the
// manual lists.
func TestGPUMemcpyBatch(t *testing.T) {
	g := newGPU(t)
	const n, count = 3000, 20
	in, inPtr := g.pinned(n*count, 0)
	out, outPtr := g.pinned(n*count, 0)
	dev, s := g.alloc(n*count), g.stream()
	var up, mid, down []cu.DevicePtr
	var sizes []uintptr
	for i := range count {
		up, down = append(up, devicePtr(inPtr)+cu.DevicePtr(i*n)), append(down, devicePtr(outPtr)+cu.DevicePtr((count-1-i)*n))
		mid, sizes = append(mid, dev+cu.DevicePtr(i*n)), append(sizes, n-uintptr(i))
	}
	data := random(n * count)
	copy(in, data)
	clear(out)
	g.must(g.MemcpyBatchAsync(g.ctx, mid, up, sizes, s))
	g.must(g.MemcpyBatchAsync(g.ctx, down, mid, sizes, s))
	g.must(g.StreamSynchronize(g.ctx, s))
	want := make([]byte, n*count)
	for i := range count {
		copy(want[(count-1-i)*n:], data[i*n:(i+1)*n-i])
	}
	g.same("there and back", out, want)
	g.want(g.MemcpyBatchAsync(g.ctx, mid, up[1:], sizes, s), cu.ErrorInvalidValue)
	for name, err := range map[string]error{
		"no copies":          g.MemcpyBatchAsync(g.ctx, nil, nil, nil, s),
		"the default stream": g.MemcpyBatchAsync(g.ctx, mid, up, sizes, 0),
		"the legacy stream":  g.MemcpyBatchAsync(g.ctx, mid, up, sizes, cu.StreamLegacy),
	} {
		t.Logf("%s: %v", name, err)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
