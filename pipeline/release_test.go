package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestEndsCollectable: an open pipeline, which keeps its memory for another Run, does not hold
// the ends of a finished Run. The garbage collector finds that they are unused.
func TestEndsCollectable(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *ferry.GPU{
		"hardware": openAsHardware,
		"emulated": func(t testing.TB) *ferry.GPU { return openSoft(t, "h200", softgpu.Eager) },
	} {
		p := newFixture(t, open(t))
		for _, kind := range []string{"pageable", "registered", "device", "stream"} {
			x := &pipeline.Pipeline{GPU: p.GPU, Step: p.increment, InPlace: kind != "device", ChunkLen: 100, Depth: 3}
			if kind == "device" {
				x.Step = p.incrementOver
			}
			for run := range 2 {
				for what, used := range p.runOnce(x, kind) {
					for end := time.Now().Add(timeout); used(); time.Sleep(time.Millisecond) {
						if runtime.GC(); time.Now().After(end) {
							t.Fatalf("%s, run %d: the %s of a finished Run is in use", name, run, what)
						}
					}
				}
			}
			closeAll(t, x)
		}
	}
}

// runOnce runs a pipeline with new ends of a kind, and takes them from the pipeline. It returns
// functions that report whether an end is in use.
func (p *fixture) runOnce(x *pipeline.Pipeline, kind string) map[string]func() bool {
	const n = 3000
	in, out := iota32(n, 1), make([]float32, n)
	used := map[string]func() bool{}
	watch(used, kind+" input", &in[0])
	watch(used, kind+" output", &out[0])
	switch kind {
	case "pageable":
		x.In, x.Out = []pipeline.End{ferry.Pageable(in)}, []pipeline.End{ferry.Pageable(out)}
	case "registered":
		a, b := must(ferry.Register(p.GPU, in, nil))(p.t), must(ferry.Register(p.GPU, out, nil))(p.t)
		defer closeAll(p.t, a, b)
		x.In, x.Out = []pipeline.End{a}, []pipeline.End{b}
	case "device":
		a, b := must(ferry.Upload(p.GPU, in))(p.t), must(ferry.Alloc[float32](p.GPU, n))(p.t)
		defer closeAll(p.t, a, b)
		watch(used, "buffer of the input", a)
		watch(used, "buffer of the output", b)
		x.In, x.Out = []pipeline.End{a}, []pipeline.End{b}
	case "stream":
		r, w := bytes.NewReader(asBytes(in)), &bytes.Buffer{}
		watch(used, "reader", r)
		watch(used, "writer", w)
		x.In, x.Out = []pipeline.End{pipeline.From[float32](r)}, []pipeline.End{pipeline.To[float32](w)}
	}
	got, err := x.Run(context.Background())
	if err != nil || got != n {
		p.t.Fatalf("%s: %d elements, %v", kind, got, err)
	}
	x.In, x.Out = nil, nil
	return used
}

// watch adds a function that reports whether the object at v is in use.
func watch[T any](used map[string]func() bool, what string, v *T) {
	w := weak.Make(v)
	used[what] = func() bool { return w.Value() != nil }
}

// TestEndsLeak: an open pipeline does not hold buffers, either. The garbage collector finds
// those that the program has not closed, and they are reported as leaks.
func TestEndsLeak(t *testing.T) {
	g := openDriver(t, gputest.NewFake())
	reports := make(chan string, 100)
	ferry.OnLeak(func(text string) { reports <- text })
	defer ferry.OnLeak(nil)
	x := &pipeline.Pipeline{GPU: g, ChunkLen: 100, Depth: 3, Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
	defer closeAll(t, x)
	for _, onDevice := range []bool{true, false} {
		runAndLeak(t, x, onDevice)
		for found, end := 0, time.Now().Add(timeout); found < 2; {
			if runtime.GC(); time.Now().After(end) {
				t.Fatalf("on the device %t: %d of two buffers are unused", onDevice, found)
			}
			select {
			case text := <-reports:
				if found++; !strings.Contains(text, ".runAndLeak") {
					t.Errorf("report %q, want an end of the pipeline", text)
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// runAndLeak runs a pipeline with buffers that nobody closes.
func runAndLeak(t *testing.T, x *pipeline.Pipeline, onDevice bool) {
	x.In, x.Out = make([]pipeline.End, 1), make([]pipeline.End, 1)
	for _, end := range []*pipeline.End{&x.In[0], &x.Out[0]} {
		if onDevice {
			*end = must(ferry.Alloc[float32](x.GPU, 3000))(t)
		} else {
			*end = must(ferry.AllocHost[float32](x.GPU, 3000, nil))(t)
		}
	}
	check(t, last(x.Run(context.Background())))
	x.In, x.Out = nil, nil
}

// seekEnds is a reader of which a Seek, by number, calls end.
type seekEnds struct {
	*bytes.Reader
	left int
	end  func()
}

func (s *seekEnds) Seek(off int64, whence int) (int64, error) {
	if s.left--; s.left == 0 {
		s.end()
	}
	return s.Reader.Seek(off, whence)
}

// TestSeekPanics: a Seek that panics or ends the goroutine, at the begin of Run or, after an
// error, at its end, leaves no memory.
func TestSeekPanics(t *testing.T) {
	d := &failingDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
	p := newFixture(t, must(ferry.OpenDriver(d, 0))(t))
	defer closeAll(t, p.GPU)
	before := d.memory.Load()
	for name, end := range map[string]func(){"panic": func() { panic(errPlanted) }, "Goexit": runtime.Goexit} {
		for nth := 1; nth <= 7; nth++ { // the last two are after the chunks
			what := fmt.Sprintf("%s in Seek %d", name, nth)
			in, out := iota32(3000, 1), make([]float32, 3000)
			r := &seekEnds{bytes.NewReader(asBytes(in)), nth, end}
			x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{pipeline.From[float32](r)}, Out: []pipeline.End{ferry.Pageable(out)}, InPlace: true, ChunkLen: 100, Depth: 3}
			x.Step = func(s *ferry.Stream, c *pipeline.Chunk) error {
				if c.Index == 10 {
					return errPlanted
				}
				return p.increment(s, c)
			}
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				n, err := x.Run(context.Background())
				t.Errorf("%s: Run returned %d, %v", what, n, err)
			}()
			if value := <-ended; (value == any(errPlanted)) != (name == "panic") {
				t.Errorf("%s: panic of %v", what, value)
			}
			if got := d.memory.Load(); got != before {
				t.Errorf("%s: %d allocations are left, %d before", what, got, before)
			}
			if nth >= 6 {
				wantIncremented(t, out[:1000], in[:1000])
			}
		}
	}
}
