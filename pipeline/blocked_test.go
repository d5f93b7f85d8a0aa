package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// countedDriver counts the events and the page-locked allocations that exist, and the most
// events that existed at once.
type countedDriver struct {
	cu.Driver
	events, most, hosts, released atomic.Int64
}

func (d *countedDriver) Unwrap() cu.Driver { return d.Driver }

func (d *countedDriver) EventCreate(ctx cu.Context, flags cu.EventFlags) (cu.Event, error) {
	e, err := d.Driver.EventCreate(ctx, flags)
	if err == nil {
		if n := d.events.Add(1); n > d.most.Load() {
			d.most.Store(n)
		}
	}
	return e, err
}

func (d *countedDriver) EventDestroy(ctx cu.Context, e cu.Event) error {
	d.events.Add(-1)
	return d.Driver.EventDestroy(ctx, e)
}

func (d *countedDriver) MemHostAlloc(ctx cu.Context, bytes uintptr, flags cu.MemHostAllocFlags) (cu.HostPtr, error) {
	d.hosts.Add(1)
	return d.Driver.MemHostAlloc(ctx, bytes, flags)
}

func (d *countedDriver) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	err := d.Driver.MemFreeHost(ctx, p)
	if err == nil {
		d.hosts.Add(-1)
	}
	return err
}

func (d *countedDriver) DevicePrimaryCtxRelease(dev cu.Device) error {
	d.released.Add(1)
	return d.Driver.DevicePrimaryCtxRelease(dev)
}

// runWithin runs a pipeline on another goroutine, and ends the test if it hangs.
func runWithin(t *testing.T, ctx context.Context, p *pipeline.Pipeline) (int, error) {
	t.Helper()
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() { n, err := p.Run(ctx); done <- result{n, err} }()
	select {
	case r := <-done:
		return r.n, r.err
	case <-time.After(timeout):
		t.Fatal("Run hangs")
		return 0, nil
	}
}

// TestEndsWhileBlocked: while another stream stands still, Run returns when its context ends,
// whether that was before Run, or in Step, or while Run takes memory. The memory is freed when the
// device is idle.
func TestEndsWhileBlocked(t *testing.T) {
	d := &countedDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
	g := must(ferry.OpenDriver(d, 0))(t)
	data := ferry.Pageable(make([]float32, 10_000))
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	release := make(chan struct{})
	check(t, s.HostFunc(func() { <-release }))
	planted := errors.New("planted")
	for name, end := range map[string]func(cancel context.CancelFunc) error{
		"before": nil,
		"Step":   func(cancel context.CancelFunc) error { cancel(); return nil },
		"error": func(cancel context.CancelFunc) error {
			time.AfterFunc(10*time.Millisecond, cancel)
			return planted
		},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		if end == nil {
			cancel()
		}
		p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{data}, ChunkLen: 100, Depth: 3,
			Step: func(*ferry.Stream, *pipeline.Chunk) error { return end(cancel) }}
		if _, err := runWithin(t, ctx, p); !errors.Is(err, context.Canceled) && !errors.Is(err, planted) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		check(t, p.Close())
	}
	if d.hosts.Load() == 0 {
		t.Error("no memory waits for the device: the test does not test what it should")
	}
	close(release)
	closeAll(t, s)
	check(t, g.Close())
	for end := time.Now().Add(timeout); d.hosts.Load() != 0 || d.released.Load() != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d page-locked allocations are left, the context was released %d times", d.hosts.Load(), d.released.Load())
		}
	}
}

// TestDepthBounded: a pipeline takes memory and events for no more chunks than there are. A
// kept run serves a job with fewer chunks, and is replaced for one with more.
func TestDepthBounded(t *testing.T) {
	d := &countedDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
	g := openDriver(t, d)
	p := &pipeline.Pipeline{GPU: g, Depth: 1_000_000, ChunkLen: 100, Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
	defer p.Close()
	for _, c := range []struct{ n, most int }{{1000, 10}, {1, 10}, {2000, 20}, {1950, 20}} {
		p.In, p.Out = []pipeline.End{ferry.Pageable(iota32(c.n, 1))}, []pipeline.End{ferry.Pageable(make([]float32, c.n))}
		before := d.events.Load()
		d.most.Store(before)
		if n, err := p.Run(context.Background()); err != nil || n != c.n {
			t.Fatalf("%d of %d elements: %v", n, c.n, err)
		}
		if most := d.most.Load(); most > int64(3*c.most+20) { // 3 for each chunk; the staging ring has some
			t.Errorf("%d elements in chunks of 100: up to %d events", c.n, most)
		}
	}
	p.ChunkLen = 0
	p.In, p.Out = []pipeline.End{ferry.Pageable(iota32(1000, 1))}, []pipeline.End{ferry.Pageable(make([]float32, 1000))}
	d.most.Store(d.events.Load())
	if n, err := p.Run(context.Background()); err != nil || n != 1000 {
		t.Fatalf("%d elements: %v", n, err)
	}
	if most := d.most.Load(); most > 3*1000+100 {
		t.Errorf("1000 elements: up to %d events", most)
	}
}

// TestContextWhileTakingMemory: a context that ends while Run takes the memory of many chunks ends
// Run at the next chunk.
func TestContextWhileTakingMemory(t *testing.T) {
	d := &countedDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
	g := openDriver(t, d)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	device := must(ferry.Alloc[float32](g, 4_000_000))(t)
	defer closeAll(t, device)
	p := &pipeline.Pipeline{GPU: g, Depth: 1_000_000, ChunkLen: 1, In: []pipeline.End{device},
		Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
	_, err := runWithin(t, ctx, p)
	wantError(t, err, context.Canceled)
	if n := d.most.Load(); n >= 3_000_000 {
		t.Errorf("Run made %d events before it looked at its context", n)
	}
}

// wrongCount returns a wrong number for each call.
type wrongCount func(asked int) int

func (c wrongCount) Read(p []byte) (int, error)             { return c(len(p)), nil }
func (c wrongCount) Write(p []byte) (int, error)            { return c(len(p)), nil }
func (c wrongCount) ReadAt(p []byte, _ int64) (int, error)  { return c(len(p)), nil }
func (c wrongCount) WriteAt(p []byte, _ int64) (int, error) { return c(len(p)), nil }

// wrongFile is a wrongCount whose size is known.
type wrongFile struct{ wrongCount }

func (wrongFile) Seek(off int64, whence int) (int64, error) {
	if whence == 2 {
		return 4000, nil
	}
	return off, nil
}

// TestWrongCount: a reader or writer that returns a number of bytes that it cannot have moved
// is an error that says so.
func TestWrongCount(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	memory := []pipeline.End{ferry.Pageable(make([]float32, 1000))}
	for what, wrong := range map[string]wrongCount{"-1": func(int) int { return -1 }, "one more": func(asked int) int { return asked + 1 }} {
		for name, p := range map[string]*pipeline.Pipeline{
			"Read":    {In: []pipeline.End{pipeline.From[float32](wrong)}, Out: memory},
			"Write":   {In: memory, Out: []pipeline.End{pipeline.To[float32](wrong)}},
			"ReadAt":  {In: []pipeline.End{pipeline.From[float32](wrongFile{wrong})}, Out: memory},
			"WriteAt": {In: memory, Out: []pipeline.End{pipeline.To[float32](wrongFile{wrong})}},
		} {
			p.GPU, p.Step = g, func(*ferry.Stream, *pipeline.Chunk) error { return nil }
			n, err := runWithin(t, context.Background(), p)
			if n != 0 || err == nil || !strings.Contains(err.Error(), "the reader or writer is wrong") {
				t.Errorf("%s returns %s: %d elements, %v", name, what, n, err)
			}
			closeAll(t, p)
		}
	}
}
