package pipeline_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// floatFile returns a file with the floats.
func floatFile(t *testing.T, s []float32) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "floats")
	check(t, os.WriteFile(path, asBytes(s), 0o600))
	f := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func offsetOf(t *testing.T, f io.Seeker) int64 {
	t.Helper()
	return must(f.Seek(0, io.SeekCurrent))(t)
}

// contents returns the floats in a file.
func contents(t *testing.T, f *os.File) []float32 {
	t.Helper()
	b := must(os.ReadFile(f.Name()))(t)
	s := make([]float32, len(b)/4)
	copy(asBytes(s), b)
	return s
}

// wantEach demands that got has the elements of in, incremented, in any order.
func wantEach(t *testing.T, got, in []float32) {
	t.Helper()
	if len(got) != len(in) {
		t.Fatalf("%d elements, want %d", len(got), len(in))
	}
	wantIncremented(t, slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(in)))
}

// TestOneFile: pipelines that run at the same time read each element of one file once, and
// write each to a place of its own in another, through a struct around the file, too.
func TestOneFile(t *testing.T) {
	type wrapped struct{ *os.File }
	const users, n = 4, 30_000
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	in := iota32(users*n, 3)
	for name, c := range map[string]struct {
		from func(i int, f *os.File) (end pipeline.End, n int)
		to   func(f *os.File) pipeline.End
	}{
		"a number of elements": {
			func(_ int, f *os.File) (pipeline.End, int) { return pipeline.From[float32](f), n },
			func(f *os.File) pipeline.End { return pipeline.To[float32](f) },
		},
		"a struct around the file": {
			func(_ int, f *os.File) (pipeline.End, int) { return pipeline.From[float32](wrapped{f}), n },
			func(f *os.File) pipeline.End { return pipeline.To[float32](wrapped{f}) },
		},
		"all that there is": {
			func(_ int, f *os.File) (pipeline.End, int) { return pipeline.From[float32](f), 0 },
			func(f *os.File) pipeline.End { return pipeline.To[float32](f) },
		},
		"as many as a reader has": {
			func(i int, _ *os.File) (pipeline.End, int) {
				return pipeline.From[float32](onlyReader{bytes.NewReader(asBytes(in[i*n : (i+1)*n]))}), 0
			},
			func(f *os.File) pipeline.End { return pipeline.To[float32](f) },
		},
	} {
		from, to := floatFile(t, in), floatFile(t, nil)
		done := make([]int, users)
		var all sync.WaitGroup
		for i := range users {
			all.Go(func() {
				end, count := c.from(i, from)
				x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{end}, Out: []pipeline.End{c.to(to)}, Step: p.increment, InPlace: true, Len: count, ChunkLen: 1000}
				var err error
				if done[i], err = x.Run(t.Context()); err != nil {
					t.Errorf("%s: %d elements, %v", name, done[i], err)
				}
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if sum := done[0] + done[1] + done[2] + done[3]; sum != len(in) {
			t.Errorf("%s: %v elements, want %d in all", name, done, len(in))
		}
		wantEach(t, contents(t, to), in)
		if at := offsetOf(t, to); at != 4*users*n {
			t.Errorf("%s: the offset is %d, want %d", name, at, 4*users*n)
		}
	}
}

// TestOneFileTaken: a pipeline has taken its elements when it calls Step, so that what Step
// reads and writes is behind them. If it ends early, it gives back what it has not used,
// unless something else has moved the offset.
func TestOneFileTaken(t *testing.T) {
	const n = 5000
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	in := iota32(2*n, 9)
	for name, c := range map[string]struct {
		reads, fails bool
		used, after  int64 // elements, and the offset of the input in elements
	}{
		"all":                         {used: n, after: n},
		"all, and Step reads":         {reads: true, used: n, after: n + 1},
		"an error":                    {fails: true, used: 2000, after: 2000},
		"an error, and Step has read": {reads: true, fails: true, used: 2000, after: n + 1},
	} {
		from, to := floatFile(t, in), floatFile(t, nil)
		x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{pipeline.From[float32](from)}, Out: []pipeline.End{pipeline.To[float32](to)}, InPlace: true, Len: n, ChunkLen: 1000}
		x.Step = func(s *ferry.Stream, k *pipeline.Chunk) error {
			next := make([]float32, 1)
			switch {
			case k.Index == 1 && c.reads:
				if _, err := from.Read(asBytes(next)); err != nil || next[0] != in[n] {
					t.Errorf("%s: Step read %v, %v; want %v", name, next, err, in[n])
				}
			case k.Index == 2 && c.fails:
				return errPlanted
			}
			return p.increment(s, k)
		}
		got, err := x.Run(t.Context())
		if int64(got) != c.used || (err != nil) != c.fails || err != nil && !errors.Is(err, errPlanted) {
			t.Errorf("%s: %d elements, %v", name, got, err)
		}
		if offsetOf(t, from) != 4*c.after || offsetOf(t, to) != 4*c.used {
			t.Errorf("%s: the offsets are %d and %d", name, offsetOf(t, from), offsetOf(t, to))
		}
		wantIncremented(t, contents(t, to), in[:c.used])
		closeAll(t, x)
	}
}

// TestOneFileEndless: outputs of a number that only readers know stand after what is done.
func TestOneFileEndless(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	in := iota32(4500, 1)
	for _, fails := range []bool{false, true} {
		to := floatFile(t, []float32{1, 2, 3})
		check(t, last(to.Seek(12, io.SeekStart)))
		x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{pipeline.From[float32](onlyReader{bytes.NewReader(asBytes(in))})}, Out: []pipeline.End{pipeline.To[float32](to)}, InPlace: true, ChunkLen: 1000}
		x.Step = func(s *ferry.Stream, k *pipeline.Chunk) error {
			if fails && k.Index == 3 {
				return errPlanted
			}
			return p.increment(s, k)
		}
		got, err := x.Run(t.Context())
		want := 4500
		if fails {
			want = 3000
		}
		if got != want || (err != nil) != fails || offsetOf(t, to) != int64(12+4*want) {
			t.Errorf("%d elements, %v, the offset is %d", got, err, offsetOf(t, to))
		}
		wantIncremented(t, contents(t, to)[3:], in[:want])
		closeAll(t, x)
	}
}

// TestOneFilePairs: files that one pipeline uses twice. Two inputs begin at one offset, an
// output can replace the input, and what would overwrite other data is refused.
func TestOneFilePairs(t *testing.T) {
	const n = 3000
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	in := iota32(n, 4)
	f := floatFile(t, in)
	from, to := func() pipeline.End { return pipeline.From[float32](f) }, func() pipeline.End { return pipeline.To[float32](f) }
	p.run(&pipeline.Pipeline{In: []pipeline.End{from()}, Out: []pipeline.End{to()}, Step: p.incrementOver, ChunkLen: 100}, n)
	wantIncremented(t, contents(t, f), in)
	if at := offsetOf(t, f); at != 4*n {
		t.Errorf("the offset is %d", at)
	}
	check(t, last(f.Seek(0, io.SeekStart)))
	out := make([]float32, n)
	sum := func(s *ferry.Stream, c *pipeline.Chunk) error {
		return s.Launch(p.add, ferry.Cover(c.Len, 256), c.In[0], c.In[1], c.Out[0], uint64(c.Len))
	}
	p.run(&pipeline.Pipeline{In: []pipeline.End{from(), from()}, Out: []pipeline.End{ferry.Pageable(out)}, Step: sum, ChunkLen: 100}, n)
	for i := range out {
		if out[i] != 2*(in[i]+1) {
			t.Fatalf("element %d is %v, want %v", i, out[i], 2*(in[i]+1))
		}
	}
	check(t, last(f.Seek(0, io.SeekStart)))
	before := contents(t, f)
	for want, x := range map[string]*pipeline.Pipeline{
		"output 0 is the file of input 0: their elements have 8 and 4 bytes": {In: []pipeline.End{from()}, Out: []pipeline.End{pipeline.To[float64](f)}},
		"output 1 is the file of output 0":                                   {In: []pipeline.End{ferry.Pageable(out)}, Out: []pipeline.End{to(), to()}},
	} {
		x.GPU, x.Step = p.GPU, p.increment
		_, err := x.Run(t.Context())
		wantError(t, err, cu.ErrorInvalidValue, want)
	}
	if at := offsetOf(t, f); at != 0 || !slices.Equal(contents(t, f), before) {
		t.Errorf("a refused pipeline has changed its file, or the offset, %d", at)
	}
}

// usedFile is a file that another user reads: at some calls of Seek, each counted once, it has
// moved on by 100 elements.
type usedFile struct {
	*bytes.Reader
	seeks int
	moves func(seek int) bool
}

func (f *usedFile) Seek(off int64, whence int) (int64, error) {
	if f.seeks++; f.moves(f.seeks) {
		if _, err := f.Reader.Seek(400, io.SeekCurrent); err != nil {
			return 0, err
		}
	}
	return f.Reader.Seek(off, whence)
}

// TestOneFileMoves: if others read a file between the moment in which a pipeline counts its
// elements and that in which it takes them, the pipeline uses those that are left.
func TestOneFileMoves(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	in := iota32(3000, 6)
	out := make([]float32, 1000)
	run := func(f *usedFile, n int) (int, error) {
		x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{pipeline.From[float32](f)}, Out: []pipeline.End{pipeline.To[float32](&seekable{})}, InPlace: true, Step: p.increment, Len: n, ChunkLen: 1000}
		if n > 0 {
			x.Out = []pipeline.End{ferry.Pageable(out)}
		}
		defer closeAll(t, x)
		return x.Run(t.Context())
	}
	// Seeks 1 to 3 find the size, 4 and 5 take the range.
	once := func(seek int) bool { return seek == 4 }
	f := &usedFile{bytes.NewReader(asBytes(in)), 0, once}
	if n, err := run(f, 0); n != 2900 || err != nil || offsetOf(t, f) != 12000 {
		t.Errorf("all: %d elements, %v, the offset is %d", n, err, offsetOf(t, f))
	}
	f = &usedFile{bytes.NewReader(asBytes(in)), 0, once}
	if n, err := run(f, 1000); n != 1000 || err != nil || offsetOf(t, f) != 4400 {
		t.Errorf("1000: %d elements, %v, the offset is %d", n, err, offsetOf(t, f))
	}
	wantIncremented(t, out, in[100:1100])
	f = &usedFile{bytes.NewReader(asBytes(in[:1050])), 0, once}
	if n, err := run(f, 1000); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) || offsetOf(t, f) != 400 {
		t.Errorf("too few are left: %d elements, %v, the offset is %d", n, err, offsetOf(t, f))
	}
}
