package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// fixture is a GPU with kernels.
type fixture struct {
	*ferry.GPU
	t              testing.TB
	inc, copy, add *ferry.Kernel
}

func newFixture(t testing.TB, g *ferry.GPU) *fixture {
	t.Helper()
	m := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	t.Cleanup(func() { closeAll(t, m) })
	return &fixture{g, t, must(m.Kernel("increment"))(t), must(m.Kernel("copy"))(t), must(m.Kernel("vector_add"))(t)}
}

// increment is a Step that works in place.
func (p *fixture) increment(s *ferry.Stream, c *pipeline.Chunk) error {
	return s.Launch(p.inc, ferry.Cover(c.Len, 256), c.Out[0], uint64(c.Len))
}

// incrementOver is a Step from an input to an output.
func (p *fixture) incrementOver(s *ferry.Stream, c *pipeline.Chunk) error {
	return errors.Join(s.Launch(p.copy, ferry.Cover(c.Len, 256), c.Out[0], c.In[0], uint64(4*c.Len)), p.increment(s, c))
}

// run runs a pipeline that must succeed, and closes it.
func (p *fixture) run(x *pipeline.Pipeline, n int) {
	p.t.Helper()
	x.GPU = p.GPU
	got, err := x.Run(context.Background())
	if err != nil || got != n {
		p.t.Fatalf("Run: %d elements, %v; want %d", got, err, n)
	}
	closeAll(p.t, x)
}

// iota32 returns n floats. Neighbours differ, and so do the floats of different seeds.
func iota32(n, seed int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32((i*7 + seed) % 999_983)
	}
	return s
}

// wantIncremented compares every element.
func wantIncremented(t testing.TB, got, in []float32) {
	t.Helper()
	for i := range in {
		if got[i] != in[i]+1 {
			t.Fatalf("element %d of %d is %v, want %v", i, len(in), got[i], in[i]+1)
		}
	}
}

var schedules = []string{"eager", "lazy", "random:3", "random:4"}

// onSchedules runs a test on software GPUs of two of the schedules, in a race build of one, and with openAsHardware.
func onSchedules(t *testing.T, f func(t *testing.T, p *fixture)) {
	drawn := 2
	if sample.Race() {
		drawn = 1
	}
	for _, name := range sample.Of(t, schedules, drawn) {
		t.Run(name, func(t *testing.T) {
			s, err := softgpu.ParseSchedule(name)
			check(t, err)
			f(t, newFixture(t, openSoft(t, "h200", s)))
		})
	}
	t.Run("hardware", func(t *testing.T) { f(t, newFixture(t, openAsHardware(t))) })
}

// openAsHardware opens hardware if that is required. Otherwise it opens a software GPU that
// hides that it is emulated: pipelines then treat it as hardware.
func openAsHardware(t testing.TB) *ferry.GPU {
	t.Helper()
	if os.Getenv("FERRY_REQUIRE_GPU") == "1" {
		return openTest(t)
	}
	g := must(ferry.OpenDriver(struct{ cu.Driver }{softDriver(t, "h200", softgpu.Eager)}, 0))(t)
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// oneAtATime counts the calls that are in a driver at once.
type oneAtATime struct {
	cu.Driver
	inside, most atomic.Int64
}

func (d *oneAtATime) call(f func() error) error {
	d.most.Store(max(d.most.Load(), d.inside.Add(1)))
	defer d.inside.Add(-1)
	runtime.Gosched()
	return f()
}

func (d *oneAtATime) MemcpyHtoDAsync(c cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	return d.call(func() error { return d.Driver.MemcpyHtoDAsync(c, dst, src, n, s) })
}

func (d *oneAtATime) EventRecord(c cu.Context, e cu.Event, s cu.Stream) error {
	return d.call(func() error { return d.Driver.EventRecord(c, e, s) })
}

func (d *oneAtATime) EventQuery(c cu.Context, e cu.Event) error {
	return d.call(func() error { return d.Driver.EventQuery(c, e) })
}

func (d *oneAtATime) EventSynchronize(c cu.Context, e cu.Event) error {
	return d.call(func() error { return d.Driver.EventSynchronize(c, e) })
}

// TestOneCaller: only one goroutine calls the driver, although several copy.
func TestOneCaller(t *testing.T) {
	d := &oneAtATime{Driver: softDriver(t, "h200", softgpu.Lazy)}
	p := newFixture(t, must(ferry.OpenDriver(d, 0))(t))
	in := iota32(100_000, 1)
	out := make([]float32, len(in))
	p.run(&pipeline.Pipeline{In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.incrementOver, ChunkLen: 1024}, len(in))
	wantIncremented(t, out, in)
	if got := d.most.Load(); got != 1 {
		t.Errorf("%d calls were in the driver at once", got)
	}
}

// TestEnds: data arrives complete and in order between all kinds of ends, in place and
// not.
func TestEnds(t *testing.T) {
	const n = 20_003
	type made struct {
		in, out pipeline.End
		data    func() []float32 // what an output has now
	}
	dir := t.TempDir()
	file := func(t *testing.T, p *fixture, in []float32) *os.File {
		name := filepath.Join(dir, strings.NewReplacer("/", "_", ":", "_").Replace(t.Name())+fmt.Sprint(time.Now().UnixNano()))
		check(t, os.WriteFile(name, asBytes(in), 0o600))
		f := must(os.OpenFile(name, os.O_RDWR, 0))(t)
		t.Cleanup(func() { closeAll(t, f) })
		return f
	}
	kinds := map[string]func(t *testing.T, p *fixture, in []float32) made{
		"pageable": func(_ *testing.T, _ *fixture, in []float32) made {
			in = slices.Clone(in)
			return made{ferry.Pageable(in), ferry.Pageable(in), func() []float32 { return in }}
		},
		"host": func(t *testing.T, p *fixture, in []float32) made {
			h := must(ferry.AllocHost[float32](p.GPU, n, nil))(t)
			t.Cleanup(func() { closeAll(t, h) })
			copy(h.Slice(), in)
			return made{h, h, h.Slice}
		},
		"registered": func(t *testing.T, p *fixture, in []float32) made {
			in = slices.Clone(in)
			h := must(ferry.Register(p.GPU, in, nil))(t)
			t.Cleanup(func() { closeAll(t, h) })
			return made{h, h, h.Slice}
		},
		"device": func(t *testing.T, p *fixture, in []float32) made {
			d := must(ferry.Alloc[float32](p.GPU, n))(t)
			t.Cleanup(func() { closeAll(t, d) })
			check(t, ferry.Copy(p.GPU.DefaultStream(), d, ferry.Pageable(in)))
			return made{d, d, func() []float32 {
				out := make([]float32, n)
				check(t, ferry.Copy(p.GPU.DefaultStream(), ferry.Pageable(out), d))
				return out
			}}
		},
		"managed": func(t *testing.T, p *fixture, in []float32) made {
			m := must(ferry.AllocManaged[float32](p.GPU, n, nil))(t)
			t.Cleanup(func() { closeAll(t, m) })
			copy(m.Slice(), in)
			return made{m, m, m.Slice}
		},
		"file": func(t *testing.T, p *fixture, in []float32) made {
			f := file(t, p, in)
			return made{pipeline.From[float32](f), pipeline.To[float32](f), func() []float32 {
				out := make([]float32, n)
				_, err := f.ReadAt(asBytes(out), 0)
				check(t, err)
				return out
			}}
		},
		"stream": func(_ *testing.T, _ *fixture, in []float32) made {
			b := bytes.NewBuffer(nil)
			return made{pipeline.From[float32](onlyReader{bytes.NewReader(asBytes(in))}), pipeline.To[float32](b), func() []float32 {
				out := make([]float32, n)
				copy(asBytes(out), b.Bytes())
				return out
			}}
		},
	}
	onSchedules(t, func(t *testing.T, p *fixture) {
		turn := 0
		for from, makeIn := range kinds {
			for to, makeOut := range kinds {
				turn++
				in := iota32(n, turn)
				src, dst := makeIn(t, p, in), makeOut(t, p, make([]float32, n))
				x := &pipeline.Pipeline{In: []pipeline.End{src.in}, Out: []pipeline.End{dst.out}, Len: n, Step: p.incrementOver, ChunkLen: 1024 * (turn%5 + 1), Depth: turn%4 + 1}
				if turn%2 == 0 {
					x.InPlace, x.Step = true, p.increment
				}
				x.Once = turn%3 == 0
				p.run(x, n)
				if got := dst.data(); !t.Failed() {
					for i := range in {
						if got[i] != in[i]+1 {
							t.Fatalf("%s to %s (in place %v, once %v): element %d is %v, want %v", from, to, x.InPlace, x.Once, i, got[i], in[i]+1)
						}
					}
				}
				if from != "stream" && !slices.Equal(src.data(), in) {
					t.Fatalf("%s to %s (in place %v): the input has changed", from, to, x.InPlace)
				}
			}
		}
	})
}

// onlyReader hides the other methods of a reader.
type onlyReader struct{ io.Reader }
