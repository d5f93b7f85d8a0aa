package simt

import (
	"context"
	"testing"
)

// BenchmarkKernel gives threads per second of kernels of the corpus, memory
// and launch included, on all cores.
func BenchmarkKernel(b *testing.B) {
	const n = 1 << 20
	type bench struct {
		kernel      string
		grid, block int
		args        func(m *module) []any
	}
	ints := func(m *module, n, limit int) *Segment {
		v := make([]int32, n)
		for i := range v {
			v[i] = int32(rng.IntN(limit)) + 1
		}
		return put(m.mem, v)
	}
	floats := func(m *module, n int) *Segment {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return put(m.mem, v)
	}
	empty := func(m *module, n int) *Segment { return m.mem.alloc(make([]byte, n)) }
	for _, c := range []bench{
		{"add_one_each", 1 << 16, 256, func(m *module) []any { return []any{empty(m, 1<<26), empty(m, 1<<26), empty(m, 1<<26), 1 << 24} }},
		{"saxpy", n / 256, 256, func(m *module) []any { return []any{float32(2), floats(m, n), floats(m, n), n} }},
		{"int_ops", n / 256, 256, func(m *module) []any { return []any{ints(m, n, 1<<30), ints(m, n, 1000), empty(m, 96*n), n} }},
		{"float_ops", n / 256, 256, func(m *module) []any { return []any{floats(m, n), floats(m, n), empty(m, 96*n), n} }},
		{"double_ops", n / 256, 256, func(m *module) []any { return []any{floats(m, 2*n), floats(m, 2*n), empty(m, 96*n), n} }},
		{"approx_ops", n / 256, 256, func(m *module) []any { return []any{floats(m, n), empty(m, 32*n), n} }},
		{"reduce_shared", n / 256, 256, func(m *module) []any { return []any{floats(m, n), empty(m, n), n} }},
		{"histogram", 64, 256, func(m *module) []any { return []any{ints(m, n/4, 1<<30), empty(m, 1024), n} }},
		{"collatz", n / 256, 256, func(m *module) []any { return []any{ints(m, n, 10000), empty(m, 4*n), n} }},
		{"shuffles", n / 256, 256, func(m *module) []any { return []any{ints(m, n, 100), empty(m, 28*n)} }},
		{"local_array", n / 256, 256, func(m *module) []any { return []any{ints(m, n, 100), empty(m, 4*n), n} }},
		{"recursion", n / 16 / 256, 256, func(m *module) []any { return []any{empty(m, 4*n), n / 16} }},
		{"vectors", n / 256, 256, func(m *module) []any {
			return []any{floats(m, 4*n), empty(m, 16*n), ints(m, 2*n, 99), empty(m, 8*n), n}
		}},
	} {
		b.Run("kernel="+c.kernel, func(b *testing.B) {
			m := loadFile(b, newSpace(), "corpus_nvcc.ptx")
			l := m.launch(b, c.kernel, c.grid, c.block, c.args(m)...)
			var s Stats
			for b.Loop() {
				var err error
				if s, err = Run(context.Background(), l); err != nil {
					b.Fatal(err)
				}
			}
			sec := b.Elapsed().Seconds()
			b.ReportMetric(float64(s.Threads)*float64(b.N)/sec/1e6, "Mthreads/s")
			b.ReportMetric(float64(s.WarpInstructions)*float64(b.N)*warpSize/sec/1e6, "Minstr/s")
		})
	}
}

// BenchmarkLaunch is what a launch of one warp costs.
func BenchmarkLaunch(b *testing.B) {
	m := loadFile(b, newSpace(), "corpus_nvcc.ptx")
	l := m.launch(b, "trap_here", 1, 32, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(context.Background(), l); err != nil {
			b.Fatal(err)
		}
	}
}
