package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// runOf runs a pipeline, which must end. value is that of a panic.
func runOf(ctx context.Context, t *testing.T, what string, x *pipeline.Pipeline) (returned bool, value any, err error) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { value = recover() }()
		_, err = x.Run(ctx)
		returned = true
	}()
	select {
	case <-ended:
	case <-time.After(timeout):
		t.Fatalf("%s hangs", what)
	}
	return returned, value, err
}

// wantFreed waits until all is freed that the driver has made. Memory of a read that was abandoned is
// freed by another goroutine.
func wantFreed(t *testing.T, what string, d *fault.Driver) {
	t.Helper()
	for end := time.Now().Add(timeout); len(d.Live()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if live := d.Live(); len(live) > 0 {
		t.Errorf("%s: %v are left", what, live)
	}
}

// brokenError is an error whose methods panic for a typed nil.
type brokenError struct{ error }

func (e *brokenError) Error() string { return e.error.Error() }
func (e *brokenError) Unwrap() error { return e.error }

// TestBrokenError: a panic in a method of the error that a reader, a writer or Step returns reaches
// the caller of Run. It ends no goroutine of the pipeline.
func TestBrokenError(t *testing.T) {
	d := fault.Wrap(softDriver(t, "h200", softgpu.Eager), fault.Options{})
	g := must(ferry.OpenDriver(d, 0))(t)
	broken := (*brokenError)(nil)
	memory := []pipeline.End{ferry.Pageable(make([]float32, 3000))}
	for what, x := range map[string]*pipeline.Pipeline{
		"Read":    {In: []pipeline.End{pipeline.From[float32](&brokenEnd{broken})}, Out: memory},
		"Write":   {In: memory, Out: []pipeline.End{pipeline.To[float32](&brokenEnd{broken})}},
		"ReadAt":  {In: []pipeline.End{pipeline.From[float32](&brokenFile{brokenEnd{broken}})}, Out: memory},
		"WriteAt": {In: memory, Out: []pipeline.End{pipeline.To[float32](&brokenFile{brokenEnd{broken}})}},
		"Step":    {In: memory, Out: memory, Step: func(*ferry.Stream, *pipeline.Chunk) error { return broken }},
	} {
		x.GPU, x.InPlace, x.ChunkLen, x.Depth = g, true, 100, 3
		if x.Step == nil {
			x.Step = func(*ferry.Stream, *pipeline.Chunk) error { return nil }
		}
		returned, value, err := runOf(context.Background(), t, what, x)
		if _, ok := value.(runtime.Error); returned || !ok {
			t.Errorf("%s: returned %t, %v, panic of %v", what, returned, err, value)
		}
		check(t, x.Close())
	}
	check(t, g.Close())
	wantFreed(t, "all", d)
}

// brokenEnd is a reader and writer that returns an error.
type brokenEnd struct{ err error }

func (b *brokenEnd) Read([]byte) (int, error)  { return 0, b.err }
func (b *brokenEnd) Write([]byte) (int, error) { return 0, b.err }

// brokenFile is one at any offset.
type brokenFile struct{ brokenEnd }

func (b *brokenFile) ReadAt([]byte, int64) (int, error) { return 0, b.err }

func (b *brokenFile) WriteAt(p []byte, _ int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return 0, b.err
}

func (b *brokenFile) Seek(off int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		off += 12000
	}
	return off, nil
}

// TestContextPanics: a panic of the context's Done reaches the caller of Run, one of its Err is the
// error of Run. Nothing is left, and no goroutine of the pipeline ends the process.
func TestContextPanics(t *testing.T) {
	d := fault.Wrap(softDriver(t, "h200", softgpu.Eager), fault.Options{})
	g := must(ferry.OpenDriver(d, 0))(t)
	nothing, panics := func() {}, func() { panic(errPlanted) }
	for what, c := range map[string]struct {
		ask, ended func()
		says       string // "" if Run does not return
	}{
		"Done panics": {panics, nothing, ""},
		"Done exits":  {runtime.Goexit, nothing, ""},
		"Err panics":  {nothing, panics, "Err of the context panicked: planted"},
		"Err exits":   {nothing, runtime.Goexit, "runtime.Goexit"},
	} {
		for kind, in := range map[string]pipeline.End{"pageable": ferry.Pageable(make([]float32, 3000)), "reader": pipeline.From[float32](bytes.NewBuffer(make([]byte, 12000)))} {
			what := what + ", " + kind
			ctx := &gputest.Context{Ended: make(chan struct{}), Ask: c.ask, AtEnd: c.ended}
			x := &pipeline.Pipeline{GPU: g, In: []pipeline.End{in}, ChunkLen: 100, Depth: 3}
			x.Step = func(_ *ferry.Stream, k *pipeline.Chunk) error {
				if k.Index == 5 {
					close(ctx.Ended)
				}
				return nil
			}
			returned, value, err := runOf(ctx, t, what, x)
			if returned != (c.says != "") || value != nil != (what[:4] == "Done" && strings.Contains(what, "panics")) {
				t.Errorf("%s: returned %t, panic of %v", what, returned, value)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: got %v, want %q", what, err, c.says)
			}
			check(t, x.Close())
		}
	}
	check(t, g.Close())
	wantFreed(t, "all", d)
}

// actor is a reader and writer whose fifth call runs a function.
type actor struct {
	calls int
	act   func()
}

func (a *actor) move(p []byte) (int, error) {
	if a.calls++; a.calls == 5 {
		a.act()
	}
	return len(p), nil
}

func (a *actor) Read(p []byte) (int, error)  { return a.move(p) }
func (a *actor) Write(p []byte) (int, error) { return a.move(p) }

// TestReenter: Step, readers and writers may call Ferry. They may close the pipeline, run it or
// another one, and close its ends and the GPU. Run ends, with or without an error, and nothing is left.
func TestReenter(t *testing.T) {
	const n = 3000
	for _, place := range []string{"Step", "Read", "Write"} {
		for action, act := range map[string]func(x *pipeline.Pipeline, end *ferry.Host[float32], s *ferry.Stream) error{
			"close the pipeline": func(x *pipeline.Pipeline, _ *ferry.Host[float32], _ *ferry.Stream) error { return x.Close() },
			"run another": func(x *pipeline.Pipeline, _ *ferry.Host[float32], _ *ferry.Stream) error {
				other := &pipeline.Pipeline{GPU: x.GPU, In: []pipeline.End{ferry.Pageable(make([]float32, n))}, ChunkLen: 100, Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
				return errors.Join(last(other.Run(context.Background())), other.Close())
			},
			"close an end":  func(_ *pipeline.Pipeline, end *ferry.Host[float32], _ *ferry.Stream) error { return end.Close() },
			"close the GPU": func(x *pipeline.Pipeline, _ *ferry.Host[float32], _ *ferry.Stream) error { return x.GPU.Close() },
			"use the stream": func(_ *pipeline.Pipeline, _ *ferry.Host[float32], s *ferry.Stream) error {
				return s.Wait(context.Background())
			},
			"close the stream": func(_ *pipeline.Pipeline, _ *ferry.Host[float32], s *ferry.Stream) error { return s.Close() },
		} {
			what := action + " in " + place
			d := fault.Wrap(softDriver(t, "h200", softgpu.Eager), fault.Options{})
			g := must(ferry.OpenDriver(d, 0))(t)
			own, end := must(ferry.NewStream(g, nil))(t), must(ferry.AllocHost[float32](g, n, nil))(t)
			x := &pipeline.Pipeline{GPU: g, In: []pipeline.End{end}, Out: []pipeline.End{pipeline.To[float32](io.Discard)}, InPlace: true, ChunkLen: 100, Depth: 3}
			s, called := own, false
			inner := func() {
				called = true
				check(t, act(x, end, s))
			}
			x.Step = func(of *ferry.Stream, c *pipeline.Chunk) error {
				if place == "Step" && c.Index == 5 {
					s = of
					inner()
				}
				return nil
			}
			switch place {
			case "Read":
				x.In = append(x.In, pipeline.From[float32](&actor{act: inner}))
				x.Out = append(x.Out, pipeline.To[float32](io.Discard))
			case "Write":
				x.Out[0] = pipeline.To[float32](&actor{act: inner})
			}
			returned, value, err := runOf(context.Background(), t, what, x)
			if !returned || !called || value != nil {
				t.Errorf("%s: returned %t, called %t, panic of %v", what, returned, called, value)
			}
			if fails := action == "close an end" || action == "close the stream" && place == "Step" || action == "close the GPU" && err != nil; (err != nil) != fails {
				t.Errorf("%s: %v", what, err)
			}
			closeAll(t, x, end, own, g)
			wantFreed(t, what, d)
		}
	}
}
