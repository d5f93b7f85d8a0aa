package simt

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/workload"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// launchOf makes a launch of a workload, whose buffers get memory of their own.
func launchOf(t testing.TB, w *workload.Workload) (*Launch, []*Segment) {
	return launchText(t, w, workload.PTX)
}

// launchText is launchOf with the text of the module.
func launchText(t testing.TB, w *workload.Workload, text string) (*Launch, []*Segment) {
	m := load(t, newSpace(), "workload.ptx", text)
	var segs []*Segment
	var addrs []uint64
	for _, b := range w.Buffers {
		s := m.mem.alloc(b)
		segs, addrs = append(segs, s), append(addrs, s.Base)
	}
	l := &Launch{Kernel: m.Kernel(w.Kernel), Memory: m.mem, Counters: 1}
	l.Grid, l.Block, l.Params = w.Grid, w.Block, w.Params(addrs)
	return l, segs
}

// BenchmarkInterpreter measures the interpreter alone, on GOMAXPROCS cores.
func BenchmarkInterpreter(b *testing.B) {
	for _, w := range workload.Full() {
		b.Run(fmt.Sprintf("kernel=%s/n=%d", w.Kernel, w.N), func(b *testing.B) {
			l, _ := launchOf(b, w)
			benchmark(b, l)
		})
	}
}

// BenchmarkKernel runs kernels of the corpus.
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
		{"saxpy", n / 256, 256, func(m *module) []any { return []any{float32(2), floats(m, n), floats(m, n), n} }},
		{"int_ops", n / 256, 256, func(m *module) []any { return []any{ints(m, n, 1<<30), ints(m, n, 1000), empty(m, 96*n), n} }},
		{"float_ops", n / 256, 256, func(m *module) []any { return []any{floats(m, n), floats(m, n), empty(m, 96*n), n} }},
		{"double_ops", n / 256, 256, func(m *module) []any { return []any{floats(m, 2*n), floats(m, 2*n), empty(m, 96*n), n} }},
		{"approx_ops", n / 256, 256, func(m *module) []any { return []any{floats(m, n), empty(m, 32*n), n} }},
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
			benchmark(b, m.launch(b, c.kernel, c.grid, c.block, c.args(m)...))
		})
	}
}

// benchmark reports threads and thread instructions per second.
func benchmark(b *testing.B, l *Launch) {
	var s Stats
	cpu := workload.CPUTime()
	for b.Loop() {
		var err error
		if s, err = Run(context.Background(), l); err != nil {
			b.Fatal(err)
		}
	}
	cpu = workload.CPUTime() - cpu
	sec := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(s.Threads)/sec, "threads/s")
	instructions := float64(s.WarpInstructions) * warpSize
	b.ReportMetric(instructions/sec, "thread-instr/s")
	if cpu > 0 { // per second of processor time, because others may use the processors too
		b.ReportMetric(instructions*float64(b.N)/cpu.Seconds(), "thread-instr/cpu-s")
	}
}

// BenchmarkDecode decodes the kernels of the corpus.
func BenchmarkDecode(b *testing.B) {
	for _, file := range corpora {
		b.Run("file="+file, func(b *testing.B) {
			text, err := os.ReadFile("testdata/" + file)
			if err != nil {
				b.Fatal(err)
			}
			m, err := ptx.Parse(file, string(text))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLaunch measures the launch of one warp.
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

// BenchmarkCheck measures the interpreter without and with the check for races.
func BenchmarkCheck(b *testing.B) {
	for _, w := range workload.Full() {
		benchmarkCheck(b, w, workload.PTX)
	}
	for _, w := range workload.Video(1920, 1080) {
		benchmarkCheck(b, w, workload.VideoPTX)
	}
}

func benchmarkCheck(b *testing.B, w *workload.Workload, text string) {
	for _, check := range []bool{false, true} {
		b.Run(fmt.Sprintf("kernel=%s/check=%v", w.Kernel, check), func(b *testing.B) {
			l, _ := launchText(b, w, text)
			if l.Check = check; check {
				l.Written = recordOfWrites()
				l.Between = &Between{Wants: func(uint64) bool { return true }}
			}
			benchmark(b, l)
		})
	}
}

// recordOfWrites returns records for a launch on memory that copies have written, as inputs are.
// A read of other memory is a finding each time.
func recordOfWrites() func(page uint64) *kernelrace.Written {
	all := new(kernelrace.Written)
	all.Set(0, 1<<kernelrace.WrittenShift)
	return func(uint64) *kernelrace.Written { return all }
}
