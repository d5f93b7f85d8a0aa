package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// ASYNC_ENGINE_COUNT 0: copies and kernels take turns. 1: a copy runs beside a
// kernel. 2 and more: one in each direction, too.
func TestEngineCounts(t *testing.T) {
	onlyFast(t)
	for count := range 4 {
		r := newRig(t, Options{Profile: with(named(t, "h200"), "ASYNC_ENGINE_COUNT", float64(count))})
		const n = 16 << 20
		a, b, data := r.alloc(n), r.alloc(n), r.alloc(n)
		p, _ := r.pinned(n)
		q, _ := r.pinned(n)
		var s [3]cu.Stream
		for i := range s {
			s[i] = r.stream(cu.StreamNonBlocking)
		}
		f := r.shipped("vector_add")
		in := func() { r.ok(r.MemcpyHtoDAsync(r.ctx, a, p, n, s[0])) }
		out := func() { r.ok(r.MemcpyDtoHAsync(r.ctx, q, b, n, s[1])) }
		kernel := func() {
			few := cu.Dim3{X: 1, Y: 1, Z: 1}
			r.ok(r.LaunchKernel(r.ctx, f, few, cu.Dim3{X: 256, Y: 1, Z: 1}, 0, s[2], params64(uint64(data), uint64(data), uint64(data), n/16)))
		}
		// ratio of the time of both at once to that of one after the other
		ratio := func(x, y func()) float64 {
			sync := func() { r.ok(r.CtxSynchronize(r.ctx)) }
			apart := r.took(func() { x(); sync(); y(); sync() })
			return r.took(func() { x(); y(); sync() }) / apart
		}
		for _, c := range []struct {
			name     string
			ratio    float64
			overlaps bool
		}{
			{"copy in, kernel", ratio(in, kernel), count > 0},
			{"kernel, copy out", ratio(kernel, out), count > 0},
			{"copy in, copy out", ratio(in, out), count > 1},
		} {
			if overlaps := c.ratio < 0.9; overlaps != c.overlaps {
				t.Errorf("%d engines: %s take %.2f of their time one by one, overlap should be %v", count, c.name, c.ratio, c.overlaps)
			}
		}
	}
}
