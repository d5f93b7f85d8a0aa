package pipeline_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestSeveralEnds: a pipeline has two inputs, one of them a file, and two outputs with
// elements of different sizes. It takes page-locked memory from a pool and runs again.
func TestSeveralEnds(t *testing.T) {
	onSchedules(t, func(t *testing.T, p *fixture) {
		const n = 5000
		pool := must(ferry.NewPinnedPool(p.GPU, nil))(t)
		defer closeAll(t, pool)
		a, b, sum, firsts := iota32(n, 1), iota32(n, 2), make([]float32, n), make([]uint8, n)
		var seen []int
		x := &pipeline.Pipeline{
			GPU: p.GPU, Pool: pool, ChunkLen: 512, Depth: 3,
			In:  []pipeline.End{ferry.Pageable(a), pipeline.From[float32](bytes.NewReader(asBytes(b)))},
			Out: []pipeline.End{ferry.Pageable(sum), ferry.Pageable(firsts)},
			Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
				seen = append(seen, c.Index, c.First)
				return errors.Join(s.Launch(p.add, ferry.Cover(c.Len, 256), c.In[0], c.In[1], c.Out[0], uint64(c.Len)),
					s.Launch(p.copy, ferry.Cover(c.Len, 256), c.Out[1], c.In[0], uint64(c.Len)))
			},
		}
		defer closeAll(t, x)
		for range 3 {
			seen = nil
			clear(sum)
			clear(firsts)
			a[n/2]++ // what is left in the chunks must not matter
			x.In[1] = pipeline.From[float32](bytes.NewReader(asBytes(b)))
			if got := must(x.Run(context.Background()))(t); got != n {
				t.Fatalf("%d elements, want %d", got, n)
			}
			for i := range sum {
				if c := i / 512 * 512; sum[i] != a[i]+b[i] || firsts[i] != asBytes(a)[4*c+i-c] {
					t.Fatalf("element %d is %v and %d, want %v and %d", i, sum[i], firsts[i], a[i]+b[i], asBytes(a)[4*c+i-c])
				}
			}
			for k := range len(seen) / 2 {
				if seen[2*k] != k || seen[2*k+1] != 512*k {
					t.Fatalf("Step saw chunk and first element %v", seen)
				}
			}
		}
		if must(pool.Stats())(t).Pinned == 0 {
			t.Error("no chunk is from the pool")
		}
		for site := range must(pool.Stats())(t).PinnedBy {
			if !strings.HasPrefix(site, "run_test.go:") {
				t.Errorf("memory is pinned by %s, not by the caller of Run", site)
			}
		}
	})
}

// smallMachine opens an H200 with the given bytes of memory.
func smallMachine(t *testing.T, bytes float64, schedule softgpu.Schedule) *fixture {
	p := *must(profile.Named("h200"))(t)
	p.Memory.Value = bytes + p.Reserved.Value
	d := must(softgpu.Open(softgpu.Options{Profile: &p, Schedule: schedule}))(t)
	g := must(ferry.OpenDriver(d, 0))(t)
	t.Cleanup(func() { closeAll(t, g) })
	return newFixture(t, g)
}

// TestLargerThanMemory: the data is eight times as large as the GPU's memory. Ferry
// chooses chunks that fit.
func TestLargerThanMemory(t *testing.T) {
	p := smallMachine(t, 2<<20, softgpu.Eager)
	const n = 4 << 20
	if d, err := ferry.Alloc[float32](p.GPU, n); err == nil {
		closeAll(t, d)
		t.Fatal("the data fits in the memory of the GPU")
	}
	in, out := iota32(n, 3), make([]float32, n)
	p.run(&pipeline.Pipeline{In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.increment, InPlace: true}, n)
	wantIncremented(t, out, in)
}

// memoryDriver counts the questions for free memory.
type memoryDriver struct {
	cu.Driver
	asked int
}

func (d *memoryDriver) Unwrap() cu.Driver { return d.Driver }

func (d *memoryDriver) MemGetInfo(c cu.Context) (free, total uintptr, err error) {
	d.asked++
	return d.Driver.MemGetInfo(c)
}

// TestFreeMemory: the driver is asked for free memory once for jobs of one size, and again for a job
// that needs other chunks.
func TestFreeMemory(t *testing.T) {
	d := &memoryDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
	p := newFixture(t, openDriver(t, d))
	x := &pipeline.Pipeline{GPU: p.GPU, Step: p.increment, InPlace: true}
	for i, n := range []int{1 << 20, 1 << 20, 1 << 20, 4 << 20} {
		d.asked = 0
		in, out := iota32(n, i), make([]float32, n)
		x.In, x.Out = []pipeline.End{ferry.Pageable(in)}, []pipeline.End{ferry.Pageable(out)}
		if got, err := x.Run(context.Background()); got != n || err != nil {
			t.Fatalf("job %d: %d elements, %v", i, got, err)
		}
		wantIncremented(t, out, in)
		want := 0
		if i == 0 || i == 3 {
			want = 1
		}
		if d.asked != want {
			t.Errorf("job %d: asked %d times for free memory, want %d", i, d.asked, want)
		}
	}
	closeAll(t, x)
}

// TestReaders: readers say how many elements there are. They must end together, not within
// an element, and not before other ends.
func TestReaders(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	data := iota32(10_000, 4)
	for _, c := range []struct {
		name   string
		bytes  []int // of each reader
		out    int   // elements of a slice, or 0 for a writer
		n      int
		is     error
		chunks int
	}{
		{"several chunks", []int{4 * 5000}, 0, 5000, nil, 1000},
		{"at a border", []int{4 * 3000}, 0, 3000, nil, 1000},
		{"nothing", []int{0}, 0, 0, nil, 1000},
		{"two", []int{4 * 2500, 4 * 2500}, 0, 2500, nil, 1000},
		{"two, one longer", []int{4 * 2500, 4 * 2600}, 0, 2000, io.ErrUnexpectedEOF, 1000},
		{"two, one longer, at a border", []int{4 * 2000, 4 * 2600}, 0, 2000, io.ErrUnexpectedEOF, 1000},
		{"two, one shorter", []int{4 * 2500, 4 * 2400}, 0, 2000, io.ErrUnexpectedEOF, 1000},
		{"half an element", []int{4*2500 + 2}, 0, 2000, io.ErrUnexpectedEOF, 1000},
		{"too short for the slice", []int{4 * 2500}, 3000, 2000, io.ErrUnexpectedEOF, 1000},
		{"longer than the slice", []int{4 * 3500}, 3000, 3000, nil, 1000},
	} {
		for _, ordered := range []bool{true, false} {
			var written bytes.Buffer
			out := make([]float32, c.out)
			x := &pipeline.Pipeline{GPU: p.GPU, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.increment, InPlace: true, ChunkLen: c.chunks, Depth: 3}
			if c.out == 0 {
				x.Out[0] = pipeline.To[float32](&written)
			}
			for _, n := range c.bytes {
				var r io.Reader = bytes.NewReader(asBytes(data)[:n])
				if ordered {
					r = onlyReader{r}
				}
				x.In = append(x.In, pipeline.From[float32](r))
			}
			n, err := x.Run(context.Background())
			if c.out == 0 {
				out = make([]float32, written.Len()/4)
				copy(asBytes(out), written.Bytes())
				if len(out) != n {
					t.Errorf("%s: %d elements written, Run returned %d", c.name, len(out), n)
				}
			}
			if n != c.n && (ordered || c.is == nil) || !errors.Is(err, c.is) || err == nil != (c.is == nil) {
				t.Errorf("%s (ordered %v): %d elements, %v; want %d, %v", c.name, ordered, n, err, c.n, c.is)
			}
			wantIncremented(t, out[:n], data[:n])
			closeAll(t, x)
		}
	}
}

// TestCutOff: a compressed file that is cut off is an error, also where its data has whole elements until then.
func TestCutOff(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	check(t, last(z.Write(asBytes(iota32(2500, 4)))))
	check(t, z.Flush()) // without the end of Close
	in := must(gzip.NewReader(&packed))(t)
	x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{pipeline.From[float32](in)},
		Out: []pipeline.End{pipeline.To[float32](io.Discard)}, Step: p.increment, InPlace: true, ChunkLen: 1000}
	n, err := x.Run(context.Background())
	if n != 2000 || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "the reader returned") {
		t.Errorf("%d elements, error %v, want 2000 and %v of the reader", n, err, io.ErrUnexpectedEOF)
	}
	closeAll(t, x)
}

// TestFilePosition: a file stands after the elements that were used or written.
func TestFilePosition(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	data := iota32(1000, 5)
	r := bytes.NewReader(asBytes(data))
	check(t, last(r.Seek(40, io.SeekStart)))
	file := &seekable{}
	file.at = 7
	p.run(&pipeline.Pipeline{In: []pipeline.End{pipeline.From[float32](r)}, Out: []pipeline.End{pipeline.To[float32](file)}, Step: p.increment, InPlace: true, Len: 500, ChunkLen: 64}, 500)
	if at := must(r.Seek(0, io.SeekCurrent))(t); at != 40+2000 {
		t.Errorf("the reader stands at byte %d", at)
	}
	if file.at != 7+2000 {
		t.Errorf("the writer stands at byte %d", file.at)
	}
	out := make([]float32, 500)
	copy(asBytes(out), file.b[7:])
	wantIncremented(t, out, data[10:510])
}

// TestOverlap: by the virtual clock of an H200, copies in, kernels and copies out run at
// once. All of it takes little more than both directions without a kernel.
func TestOverlap(t *testing.T) {
	gputest.NeedsH200(t, "its times")
	g := openTimed(t, "h200")
	p := newFixture(t, g)
	const n = 32 << 20 // 128 MiB
	in, out := must(ferry.AllocHost[byte](g, 4*n, nil))(t), must(ferry.AllocHost[byte](g, 4*n, nil))(t)
	dev := must(ferry.Alloc[byte](g, 4*n))(t)
	dev2 := must(ferry.Alloc[byte](g, 4*n))(t)
	s, other := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, in, out, dev, dev2, s, other)
	light := func(s *ferry.Stream, c *pipeline.Chunk) error {
		return s.Launch(p.inc, ferry.Cover(64, 64), c.Out[0], uint64(64))
	}
	x := &pipeline.Pipeline{GPU: g, In: []pipeline.End{in}, Out: []pipeline.End{out}, Step: light, InPlace: true}
	defer closeAll(t, x)
	check(t, last(x.Run(context.Background())))
	timed := func(f func() error) float64 {
		begin := g.Now()
		check(t, f())
		check(t, s.Wait(context.Background()))
		return float64(g.Now() - begin)
	}
	there := timed(func() error { return ferry.Copy(s, dev, in) })
	back := timed(func() error { return ferry.Copy(s, out, dev) })
	free := timed(func() error { // both copies, each as a whole and without a kernel
		return errors.Join(ferry.Copy(s, dev, in), ferry.Copy(other, out, dev2), other.Wait(context.Background()))
	})
	both := timed(func() error { return last(x.Run(context.Background())) })
	t.Logf("in %.0f us, out %.0f us, both at once %.0f us, the pipeline %.0f us", there/1000, back/1000, free/1000, both/1000)
	if both > 1.07*free || both > 0.75*(there+back) {
		t.Errorf("in takes %.0f us, out %.0f us, both at once %.0f us, the pipeline %.0f us", there/1000, back/1000, free/1000, both/1000)
	}
	x.Depth, x.ChunkLen = 1, n
	if one := timed(func() error { return last(x.Run(context.Background())) }); one < 1.5*both {
		t.Errorf("one chunk, which overlaps with nothing, takes %.0f us; many chunks take %.0f us", one/1000, both/1000)
	}
}

// TestOnce: with Once, kernels use mapped memory where it is, also memory of several
// registrations. Without Once they use a copy.
func TestOnce(t *testing.T) {
	gputest.NeedsH200(t, "registered memory at its own address")
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing, cu.DeviceAttributeCanMapHostMemory)
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	s := make([]float32, 2000)
	half := must(ferry.Register(p.GPU, s[:1000], nil))(t)
	whole := must(ferry.Register(p.GPU, s, nil))(t)
	defer closeAll(t, whole, half)
	for _, once := range []bool{true, false} {
		p.run(&pipeline.Pipeline{In: []pipeline.End{whole}, Once: once, ChunkLen: 300, Step: func(_ *ferry.Stream, c *pipeline.Chunk) error {
			if same := c.In[0].Pointer() == whole.Range(c.First, c.First+c.Len).Pointer(); same != once {
				t.Errorf("Once %v, chunk %d: its memory is the input's: %v", once, c.Index, same)
			}
			return nil
		}}, 2000)
	}
}
