package pipeline_test

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestStepPanics: when Step panics or ends its goroutine, that reaches the caller of Run,
// whatever the ends are. No memory and no goroutine is left, and the pipeline can run
// again.
func TestStepPanics(t *testing.T) {
	d := &failingDriver{Driver: softDriver(t, "h200", softgpu.Lazy)}
	p := newFixture(t, must(ferry.OpenDriver(d, 0))(t))
	const n, at = 3000, 11
	for _, kind := range []string{"pageable", "registered", "device"} {
		in, out := iota32(n, 1), make([]float32, n)
		x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)}, InPlace: true, ChunkLen: 100, Depth: 3}
		switch kind {
		case "registered":
			a, b := must(ferry.Register(p.GPU, in, nil))(t), must(ferry.Register(p.GPU, out, nil))(t)
			defer closeAll(t, a, b)
			x.In[0], x.Out[0] = a, b
		case "device":
			a, b := must(ferry.Alloc[float32](p.GPU, n))(t), must(ferry.Alloc[float32](p.GPU, n))(t)
			defer closeAll(t, a, b)
			x.In[0], x.Out[0], x.InPlace = a, b, false
		}
		memory := d.memory.Load()
		for name, end := range map[string]func(){"panic": func() { panic(errPlanted) }, "Goexit": runtime.Goexit} {
			clear(out)
			var ran atomic.Bool
			before := runtime.NumGoroutine()
			x.Step = func(s *ferry.Stream, c *pipeline.Chunk) error {
				if c.Index == at {
					check(t, s.HostFunc(func() { ran.Store(true) }))
					end()
				}
				return p.increment(s, c)
			}
			returned, ended := false, make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				_, _ = x.Run(context.Background())
				returned = true
			}()
			value := <-ended
			if want := any(errPlanted); returned || name == "panic" && value != want || name == "Goexit" && value != nil {
				t.Errorf("%s, %s: Run returned %v, panic of %v", kind, name, returned, value)
			}
			if !ran.Load() {
				t.Errorf("%s, %s: something is in flight", kind, name)
			}
			if got := d.memory.Load(); got != memory {
				t.Errorf("%s, %s: %d allocations are left, %d before", kind, name, got, memory)
			}
			// Under the race detector the software GPU keeps goroutines that stand for its last work.
			for end := time.Now().Add(timeout); !racebuild.On && runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s, %s: %d goroutines are left, %d before", kind, name, runtime.NumGoroutine(), before)
				}
			}
			if kind != "device" {
				wantIncremented(t, out[:100*at], in[:100*at])
			}
		}
		x.Step = p.increment
		p.run(x, n)
		if kind != "device" {
			wantIncremented(t, out, in)
		}
	}
}

// lengths runs a pipeline and returns the lengths of its chunks.
func lengths(t *testing.T, p *fixture, x *pipeline.Pipeline, n int) (all []int) {
	t.Helper()
	x.Step = func(_ *ferry.Stream, c *pipeline.Chunk) error {
		all = append(all, c.Len)
		return nil
	}
	p.run(x, n)
	return all
}

// TestChunkLengths: chunks that are copied begin small, so that the copies out can begin,
// and grow. Chunks that are not copied are large. ChunkLen sets the length of all.
func TestChunkLengths(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	const n = 20<<20 + 77
	h := must(ferry.AllocHost[float32](p.GPU, n, &ferry.HostOptions{Mapped: true}))(t)
	defer closeAll(t, h)
	ends := []pipeline.End{h}
	for _, ends := range [][]pipeline.End{ends, {ferry.Pageable(h.Slice())}, {pipeline.From[float32](onlyReader{bytes.NewReader(make([]byte, 4*n))})}} {
		grown := lengths(t, p, &pipeline.Pipeline{In: ends}, n)
		rest := grown[:len(grown)-1]
		if !slices.IsSorted(rest) || rest[0] > rest[len(rest)-1]/9 || rest[len(rest)-1] > n/8 {
			t.Errorf("%v: chunks have %v elements", ends, grown)
		}
		for _, l := range rest {
			if l%256 != 0 {
				t.Errorf("%v: a chunk has %d elements", ends, l)
			}
		}
	}
	if got := lengths(t, p, &pipeline.Pipeline{In: ends, Once: true}, n); got[0] != 16<<20 {
		t.Errorf("chunks that are not copied have %v elements", got)
	}
	if got := lengths(t, p, &pipeline.Pipeline{In: ends, ChunkLen: n/2 + 1}, n); !slices.Equal(got, []int{n/2 + 1, n - n/2 - 1}) {
		t.Errorf("chunks of %d elements have %v", n/2+1, got)
	}
}

// TestStreams: kernels that take longer than the copies run in several streams, so that
// one begins while another ends. Light kernels seldom change the stream.
func TestStreams(t *testing.T) {
	gputest.NeedsH200(t, "its times")
	p := newFixture(t, openTimed(t, "h200"))
	const n, chunk = 4 << 20, 1 << 16
	h := must(ferry.AllocHost[float32](p.GPU, n, nil))(t)
	defer closeAll(t, h)
	for _, heavy := range []bool{false, true} {
		changes := 0
		var before *ferry.Stream
		p.run(&pipeline.Pipeline{In: []pipeline.End{h}, ChunkLen: chunk, Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			if s != before {
				changes++
			}
			before = s
			if !heavy {
				return s.Launch(p.inc, ferry.Cover(64, 64), c.In[0], uint64(64))
			}
			for range 8 {
				if err := s.Launch(p.inc, ferry.Cover(32, 32), c.In[0], uint64(c.Len)); err != nil { // too few threads
					return err
				}
			}
			return nil
		}}, n)
		if few := n / chunk / 4; heavy && changes < 2*few || !heavy && changes > few {
			t.Errorf("heavy %v: %d chunks changed streams %d times", heavy, n/chunk, changes)
		}
	}
}

// TestBlocks: chunks of pageable memory that several goroutines copy together arrive
// complete, in both directions.
func TestBlocks(t *testing.T) {
	onSchedules(t, func(t *testing.T, p *fixture) {
		const n = 1<<20 + 5
		in, out := iota32(n, 6), make([]float32, n)
		p.run(&pipeline.Pipeline{In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.increment, InPlace: true, ChunkLen: 300_001, Depth: 2}, n)
		wantIncremented(t, out, in)
	})
}

// abnormal is a reader and writer that calls end, which does not return, after a number of
// bytes.
type abnormal struct {
	failing
	end func()
}

func (w *abnormal) Read(b []byte) (int, error)  { return w.move(b) }
func (w *abnormal) Write(b []byte) (int, error) { return w.move(b) }
func (w *abnormal) move(b []byte) (int, error) {
	if len(b) > w.left {
		w.end()
	}
	return w.failing.move(b)
}

// TestEndPanics: a panic of a reader or a writer reaches the caller of Run, and leaves no
// memory. When one ends its goroutine, Run returns an error.
func TestEndPanics(t *testing.T) { onSchedules(t, endPanics) }

func endPanics(t *testing.T, p *fixture) {
	pool := must(ferry.NewPinnedPool(p.GPU, nil))(t)
	defer closeAll(t, pool)
	for _, writes := range []bool{false, true} {
		for _, panics := range []bool{false, true} {
			end := runtime.Goexit
			if panics {
				end = func() { panic(errPlanted) }
			}
			var of pipeline.End = pipeline.From[float32](&abnormal{failing{4000}, end})
			out := make([]float32, 3000)
			x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{of}, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.increment, InPlace: true, ChunkLen: 100, Pool: pool}
			if writes {
				x.In[0], x.Out[0] = ferry.Pageable(out), pipeline.To[float32](&abnormal{failing{4000}, end})
			}
			var err error
			value := func() (v any) {
				defer func() { v = recover() }()
				_, err = x.Run(context.Background())
				return nil
			}()
			if panics && value != any(errPlanted) || !panics && value != nil {
				t.Errorf("writes %v, panics %v: panic of %v", writes, panics, value)
			}
			if !panics {
				wantError(t, err, err, "chunk 10 (elements 1000 to 1099", "runtime.Goexit")
			}
			closeAll(t, x)
			if got := must(pool.Stats())(t).Used; got != 0 {
				t.Errorf("writes %v, panics %v: %d bytes of the pool are in use", writes, panics, got)
			}
		}
	}
}

// endingFile is a file of zeros that calls end in a call about bytes after the first 8000, or
// in the Seek with a number.
type endingFile struct {
	end  func()
	late bool // only Seek calls end
	seek int
}

func (f *endingFile) Read([]byte) (int, error)  { return 0, errPlanted }
func (f *endingFile) Write([]byte) (int, error) { return 0, errPlanted }
func (f *endingFile) at(n int, off int64) (int, error) {
	if off > 8000 && !f.late {
		f.end()
	}
	return n, nil
}
func (f *endingFile) ReadAt(b []byte, off int64) (int, error)  { return f.at(len(b), off) }
func (f *endingFile) WriteAt(b []byte, off int64) (int, error) { return f.at(len(b), off) }

func (f *endingFile) Seek(off int64, whence int) (int64, error) {
	if f.seek--; f.seek == 0 {
		f.end()
	}
	if whence == io.SeekEnd {
		off += 12000
	}
	return off, nil
}

// failsAt returns a Step that fails at a chunk.
func failsAt(chunk int) func(*ferry.Stream, *pipeline.Chunk) error {
	return func(_ *ferry.Stream, c *pipeline.Chunk) error {
		if c.Index == chunk {
			return errPlanted
		}
		return nil
	}
}

// TestUserCodeEnds: what TestStepPanics, TestEndPanics and TestSeekPanics demand also holds for
// files that are read and written at any offset, for Step between readers and writers, and for
// Step with chunks that are not copied. The next Run works, and the GPU can be closed.
func TestUserCodeEnds(t *testing.T) {
	const n = 3000
	for _, name := range []string{"panic", "Goexit"} {
		end := map[string]func(){"panic": func() { panic(errPlanted) }, "Goexit": runtime.Goexit}[name]
		d := &failingDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
		g := must(ferry.OpenDriver(d, 0))(t)
		p := newFixture(t, g)
		mapped := must(ferry.AllocHost[float32](g, n, &ferry.HostOptions{Mapped: true}))(t)
		memory := []pipeline.End{ferry.Pageable(make([]float32, n))}
		from := func(f io.Reader) []pipeline.End { return []pipeline.End{pipeline.From[float32](f)} }
		to := func(f io.Writer) []pipeline.End { return []pipeline.End{pipeline.To[float32](f)} }
		step := func(_ *ferry.Stream, c *pipeline.Chunk) error {
			if c.Index > 5 || c.Len == n {
				end()
			}
			return nil
		}
		before := d.memory.Load()
		for what, c := range map[string]struct {
			x        *pipeline.Pipeline
			onWorker bool
		}{
			"ReadAt":                       {&pipeline.Pipeline{In: from(&endingFile{end: end}), Out: memory}, true},
			"WriteAt":                      {&pipeline.Pipeline{In: memory, Out: to(&endingFile{end: end})}, true},
			"first Seek of a writer":       {&pipeline.Pipeline{In: memory, Out: to(&endingFile{end: end, late: true, seek: 1})}, false},
			"third Seek of a writer":       {&pipeline.Pipeline{In: memory, Out: to(&endingFile{end: end, late: true, seek: 3})}, false},
			"Seek of a writer, at the end": {&pipeline.Pipeline{In: memory, Out: to(&endingFile{end: end, late: true, seek: 4}), Step: failsAt(7)}, false},
			"Seek for a chunk":             {&pipeline.Pipeline{In: from(bytes.NewBuffer(make([]byte, 4*n))), Out: to(&endingFile{end: end, late: true, seek: 7})}, true},
			"Step between files":           {&pipeline.Pipeline{In: from(&endingFile{late: true}), Out: to(&endingFile{late: true}), Step: step}, false},
			"Step of a reader":             {&pipeline.Pipeline{In: from(bytes.NewBuffer(make([]byte, 4*n))), Step: step}, false},
			"Step with mapped memory":      {&pipeline.Pipeline{In: []pipeline.End{mapped}, Out: []pipeline.End{mapped}, Once: true, Step: step, ChunkLen: n}, false},
			"Step with page-locked memory": {&pipeline.Pipeline{In: []pipeline.End{mapped}, Out: memory, Step: step}, false},
		} {
			x := c.x
			x.GPU, x.InPlace = g, x.Out != nil
			if x.ChunkLen == 0 {
				x.ChunkLen, x.Depth = 100, 3
			}
			if x.Step == nil {
				x.Step = p.increment
			}
			for _, cancels := range []bool{false, true} {
				what := name + " in " + what
				ctx, cancel := context.WithCancel(context.Background())
				if !cancels {
					ctx = nil
				}
				var err error
				returned, ended := false, make(chan any)
				go func() {
					defer func() { ended <- recover() }()
					_, err = x.Run(ctx)
					returned = true
				}()
				var value any
				select {
				case value = <-ended:
				case <-time.After(timeout):
					t.Fatalf("%s hangs", what)
				}
				cancel()
				if returned != (name == "Goexit" && c.onWorker) || (value == any(errPlanted)) != (name == "panic") {
					t.Errorf("%s: returned %t, %v, panic of %v", what, returned, err, value)
				}
				if returned {
					wantError(t, err, err, "runtime.Goexit")
				}
				if got := d.memory.Load(); got != before {
					t.Errorf("%s: %d allocations are left, %d before", what, got, before)
				}
				if strings.Contains(what, "Seek") || strings.Contains(what, "reader") {
					break // they end once
				}
			}
			x.In, x.Out, x.Step, x.InPlace = memory, memory, p.increment, true
			p.run(x, n)
		}
		closeAll(t, mapped)
	}
}
