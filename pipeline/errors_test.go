package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// seekable is a file in memory.
type seekable struct {
	mu sync.Mutex
	b  []byte
	at int64
}

func (f *seekable) Write([]byte) (int, error) { return 0, errors.New("not by Write") }

func (f *seekable) WriteAt(b []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.b = append(f.b, make([]byte, max(0, int(off)+len(b)-len(f.b)))...)
	return copy(f.b[off:], b), nil
}

func (f *seekable) Seek(off int64, whence int) (int64, error) {
	if whence == io.SeekStart {
		f.at = off
	}
	return f.at, nil
}

var errPlanted = errors.New("planted")

// failing is a reader of zeros and a writer that fails after left bytes.
type failing struct{ left int }

func (f *failing) Read(b []byte) (int, error) {
	clear(b)
	return f.move(b)
}
func (f *failing) Write(b []byte) (int, error) { return f.move(b) }
func (f *failing) move(b []byte) (int, error) {
	n := min(f.left, len(b))
	f.left -= n
	if n < len(b) {
		return n, errPlanted
	}
	return n, nil
}

// TestFailures: when a reader, a writer or Step fails at a chunk, the error says where.
// The chunks before it are complete, and later pipelines run.
func TestFailures(t *testing.T) {
	const n, chunk, at = 4000, 100, 17 // at is the number of the chunk that fails
	onSchedules(t, func(t *testing.T, p *fixture) {
		for name, change := range map[string]func(x *pipeline.Pipeline){
			"read":  func(x *pipeline.Pipeline) { x.In[0] = pipeline.From[float32](&failing{4*chunk*at + 6}) },
			"write": func(x *pipeline.Pipeline) { x.Out[0] = pipeline.To[float32](&failing{4*chunk*at + 6}) },
			"Step": func(x *pipeline.Pipeline) {
				x.Step = func(s *ferry.Stream, c *pipeline.Chunk) error {
					if c.Index == at {
						return errPlanted
					}
					return p.increment(s, c)
				}
			},
		} {
			for _, direct := range []bool{true, false} {
				in, out := iota32(n, 1), make([]float32, n)
				x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.increment, InPlace: true, ChunkLen: chunk, Depth: 4}
				if direct {
					a, b := must(ferry.Register(p.GPU, in, nil))(t), must(ferry.Register(p.GPU, out, nil))(t)
					defer closeAll(t, a, b)
					x.In[0], x.Out[0] = a, b
				}
				change(x)
				if name == "read" {
					in = make([]float32, n)
				}
				done, err := x.Run(context.Background())
				wantError(t, err, errPlanted, "chunk 17 (elements 1700 to 1799, byte 6800 of input 0): "+name)
				if done != at*chunk {
					t.Errorf("%s: %d elements are done, want %d", name, done, at*chunk)
				}
				if name != "write" {
					wantIncremented(t, out, in[:done])
				}
				closeAll(t, x)
				good := &pipeline.Pipeline{In: []pipeline.End{ferry.Pageable(iota32(n, 2))}, Out: []pipeline.End{ferry.Pageable(out)}, Step: p.increment, InPlace: true}
				p.run(good, n)
				wantIncremented(t, out, iota32(n, 2))
			}
		}
	})
}

// stuck is a reader and writer that moves a number of bytes and then blocks until free is
// closed.
type stuck struct {
	failing
	blocked, free chan struct{}
}

func newStuck(n int) *stuck {
	return &stuck{failing{n}, make(chan struct{}, 100), make(chan struct{})}
}

func (s *stuck) Read(b []byte) (int, error)  { return s.move(b) }
func (s *stuck) Write(b []byte) (int, error) { return s.move(b) }
func (s *stuck) move(b []byte) (int, error) {
	if len(b) > s.left {
		s.blocked <- struct{}{}
		<-s.free
		return 0, io.ErrClosedPipe
	}
	return s.failing.move(b)
}

// TestCancelled: the end of the context ends a pipeline whose reader or writer hangs. The
// memory that the call uses is freed when the call returns.
func TestCancelled(t *testing.T) { onSchedules(t, cancelled) }

func cancelled(t *testing.T, p *fixture) {
	pool := must(ferry.NewPinnedPool(p.GPU, nil))(t)
	defer closeAll(t, pool)
	for _, writes := range []bool{false, true} {
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(context.Background())
		s := newStuck(4 * 1000)
		out := make([]float32, 3000)
		queued := make(chan struct{}) // chunk 9, the last before the one that hangs
		step := func(s *ferry.Stream, c *pipeline.Chunk) error {
			if c.First == 900 {
				close(queued)
			}
			return p.increment(s, c)
		}
		x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{pipeline.From[float32](s)}, Out: []pipeline.End{ferry.Pageable(out)}, Step: step, InPlace: true, ChunkLen: 100, Depth: 3, Pool: pool}
		if writes {
			x.In[0], x.Out[0] = ferry.Pageable(out), pipeline.To[float32](s)
		}
		go func() { <-queued; <-s.blocked; cancel() }()
		done, err := x.Run(ctx)
		wantError(t, err, context.Canceled, "chunk 10 (elements 1000 to 1099")
		if done != 1000 {
			t.Errorf("%d elements are done, want 1000", done)
		}
		closeAll(t, x)
		if must(pool.Stats())(t).Used == 0 {
			t.Error("the memory of the call that hangs is free")
		}
		close(s.free)
		for end := time.Now().Add(timeout); must(pool.Stats())(t).Used > 0 || !racebuild.On && runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d bytes of the pool are in use, %d goroutines, %d before", must(pool.Stats())(t).Used, runtime.NumGoroutine(), before)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x := &pipeline.Pipeline{GPU: p.GPU, In: []pipeline.End{ferry.Pageable(make([]float32, 10))}, Step: p.increment}
	if n, err := x.Run(ctx); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %d, %v", n, err)
	}
}

// TestFault: the error of a kernel that faults names the chunks that may be the reason.
func TestFault(t *testing.T) {
	for _, staged := range []bool{true, false} {
		g := must(ferry.OpenDriver(softDriver(t, "h200", softgpu.Eager), 0))(t)
		inc := must(must(ferry.Load(g, []byte(kernels.PTX), nil))(t).Kernel("increment"))(t)
		in := must(ferry.AllocHost[float32](g, 2000, nil))(t)
		x := &pipeline.Pipeline{GPU: g, In: []pipeline.End{in}, ChunkLen: 100, Depth: 4, Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			if c.Index == 9 {
				return s.Launch(inc, ferry.Cover(1, 1), cu.DevicePtr(0x10), uint64(1))
			}
			return s.Launch(inc, ferry.Cover(c.Len, 256), c.In[0], uint64(c.Len))
		}}
		if staged {
			x.In[0] = ferry.Pageable(make([]float32, 2000))
		}
		done, err := x.Run(context.Background())
		if _, ok := errors.AsType[*cu.Fault](err); !ok || !strings.Contains(err.Error(), "chunk ") || done > 900 {
			t.Errorf("%d elements, %v", done, err)
		}
		_ = in.Close()
	}
}

// TestDriverFails: when a call of the driver fails anywhere in a Run, the error belongs to
// the chunk after those that are done. No goroutine and no memory is left.
func TestDriverFails(t *testing.T) {
	for nth := int64(1); nth < 40; nth++ {
		d := &failingDriver{Driver: softDriver(t, "h200", softgpu.Eager)}
		g := must(ferry.OpenDriver(d, 0))(t)
		p := newFixture(t, g)
		out := must(ferry.AllocHost[float32](g, 3000, nil))(t)
		in := iota32(3000, 1)
		x := &pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{out}, Step: p.increment, InPlace: true, ChunkLen: 100, Depth: 3}
		if nth%2 == 0 {
			h := must(ferry.Register(g, in, nil))(t)
			defer closeAll(t, h)
			x.In[0] = h
		}
		before := runtime.NumGoroutine()
		d.left.Store(nth)
		done, err := x.Run(context.Background())
		d.left.Store(0)
		wantError(t, err, cu.ErrorOutOfMemory, "pipeline on")
		if _, text, ok := strings.Cut(fmt.Sprint(err), ": chunk "); ok && !strings.HasPrefix(text, fmt.Sprint(done/100, " ")) {
			t.Errorf("call %d fails: %d elements are done, but the error is %v", nth, done, err)
		}
		wantIncremented(t, out.Slice(), in[:done])
		if got := d.memory.Load(); got != 0 {
			t.Errorf("call %d fails: %d allocations are left", nth, got)
		}
		for end := time.Now().Add(timeout); !racebuild.On && runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("call %d fails: %d goroutines are left, %d before", nth, runtime.NumGoroutine(), before)
			}
		}
		closeAll(t, out)
	}
}

// failingDriver fails one of the calls that allocate something or queue work: the call
// number left. memory counts allocations.
type failingDriver struct {
	cu.Driver
	left, memory atomic.Int64
}

func (d *failingDriver) fails() error {
	if d.left.Add(-1) == 0 {
		return cu.ErrorOutOfMemory
	}
	return nil
}

func (d *failingDriver) MemAlloc(c cu.Context, n uintptr) (cu.DevicePtr, error) {
	if err := d.fails(); err != nil {
		return 0, err
	}
	d.memory.Add(1)
	return d.Driver.MemAlloc(c, n)
}

func (d *failingDriver) MemFree(c cu.Context, p cu.DevicePtr) error {
	d.memory.Add(-1)
	return d.Driver.MemFree(c, p)
}

func (d *failingDriver) EventCreate(c cu.Context, f cu.EventFlags) (cu.Event, error) {
	if err := d.fails(); err != nil {
		return 0, err
	}
	return d.Driver.EventCreate(c, f)
}

func (d *failingDriver) EventSynchronize(c cu.Context, e cu.Event) error {
	err := d.Driver.EventSynchronize(c, e)
	if failed := d.fails(); failed != nil {
		return failed
	}
	return err
}

// EventQuery fails where it would report that all is done, and so does the call after it.
func (d *failingDriver) EventQuery(c cu.Context, e cu.Event) error {
	err := d.Driver.EventQuery(c, e)
	if err != nil {
		return err
	}
	if err = d.fails(); err != nil {
		d.left.Store(1)
	}
	return err
}

func (d *failingDriver) MemcpyHtoDAsync(c cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Driver.MemcpyHtoDAsync(c, dst, src, n, s)
}

func (d *failingDriver) MemcpyDtoHAsync(c cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	if err := d.fails(); err != nil {
		return err
	}
	return d.Driver.MemcpyDtoHAsync(c, dst, src, n, s)
}

// TestRefused: pipelines that cannot run are refused with the reason.
func TestRefused(t *testing.T) {
	p := newFixture(t, openSoft(t, "h200", softgpu.Eager))
	s := make([]float32, 100)
	h := must(ferry.Register(p.GPU, s, nil))(t)
	defer closeAll(t, h)
	only := must(ferry.Register(p.GPU, make([]float32, 100), &ferry.RegisterOptions{ReadOnly: true}))(t)
	elsewhere := openSoft(t, "h200", softgpu.Eager)
	pool := must(ferry.NewPinnedPool(elsewhere, nil))(t)
	foreign := must(ferry.Alloc[float32](elsewhere, 100))(t)
	defer closeAll(t, only, pool, foreign)
	closed := must(ferry.Alloc[float32](p.GPU, 100))(t)
	closeAll(t, closed)
	slice := func() pipeline.End { return ferry.Pageable(make([]float32, 100)) }
	for want, x := range map[string]*pipeline.Pipeline{
		"no Step":                {In: []pipeline.End{slice()}},
		"it has no ends":         {Step: p.increment},
		"input 0 is nil":         {Step: p.increment, In: []pipeline.End{nil}},
		"no buffer given":        {Step: p.increment, In: []pipeline.End{(*ferry.Host[float32])(nil)}},
		"no reader":              {Step: p.increment, In: []pipeline.End{pipeline.From[float32](nil)}},
		"hold Go pointers":       {Step: p.increment, In: []pipeline.End{pipeline.From[*int](&bytes.Buffer{})}},
		"the type itself":        {Step: p.increment, In: []pipeline.End{pipeline.From[bool](&bytes.Buffer{})}},
		".On is bool":            {Step: p.increment, Out: []pipeline.End{pipeline.To[struct{ On bool }](&bytes.Buffer{})}},
		"[0] is bool":            {Step: p.increment, In: []pipeline.End{ferry.Pageable(make([][2]bool, 4))}},
		"have size 0":            {Step: p.increment, In: []pipeline.End{pipeline.From[struct{}](&bytes.Buffer{})}},
		"elements of size 0":     {Step: p.increment, In: []pipeline.End{ferry.Pageable(make([]struct{}, 4))}},
		"From is for inputs":     {Step: p.increment, Out: []pipeline.End{pipeline.From[byte](&bytes.Buffer{})}},
		"set Len":                {Step: p.increment, Out: []pipeline.End{pipeline.To[byte](&bytes.Buffer{})}},
		"needs 100: use ends":    {Step: p.increment, In: []pipeline.End{slice(), ferry.Pageable(s[:50])}, Out: []pipeline.End{slice()}},
		"cannot be negative":     {Step: p.increment, In: []pipeline.End{slice()}, Depth: -1},
		"overlaps input 0":       {Step: p.increment, In: []pipeline.End{h.Range(0, 60)}, Out: []pipeline.End{h.Range(30, 90)}},
		"overlaps output 0":      {Step: p.increment, Out: []pipeline.End{h, h}},
		"have 4 bytes":           {Step: p.increment, In: []pipeline.End{slice()}, Out: []pipeline.End{ferry.Pageable(make([]byte, 100))}, InPlace: true},
		"it has elements 0 to":   {Step: p.increment, In: []pipeline.End{h.Range(30, 101)}},
		"cannot be an end":       {Step: p.increment, In: []pipeline.End{&bytes100{}}},
		"is read-only":           {Step: p.increment, Out: []pipeline.End{only}},
		"belongs to another GPU": {Step: p.increment, In: []pipeline.End{slice()}, Pool: pool},
		"to another driver":      {Step: p.increment, In: []pipeline.End{foreign}},
	} {
		x.GPU = p.GPU
		n, err := x.Run(context.Background())
		wantError(t, err, cu.ErrorInvalidValue, want)
		if n != 0 {
			t.Errorf("%s: %d elements", want, n)
		}
	}
	wantError(t, last((&pipeline.Pipeline{GPU: p.GPU, Step: p.increment, In: []pipeline.End{closed}}).Run(context.Background())), ferry.ErrClosed, "input 0")
	wantError(t, last((&pipeline.Pipeline{Step: p.increment}).Run(context.Background())), cu.ErrorInvalidValue, "no GPU")
	wantError(t, last((*pipeline.Pipeline)(nil).Run(context.Background())), cu.ErrorInvalidValue, "pipeline")
	closeAll(t, (*pipeline.Pipeline)(nil))
	p.run(&pipeline.Pipeline{Step: p.increment, In: []pipeline.End{ferry.Pageable([]float32{})}}, 0)
	var noContext context.Context // nil
	n, err := (&pipeline.Pipeline{GPU: p.GPU, Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }, In: []pipeline.End{only}}).Run(noContext)
	if n != 100 || err != nil {
		t.Errorf("with a nil context: %d elements, %v", n, err)
	}
	closing := must(ferry.OpenDriver(softDriver(t, "h200", softgpu.Eager), 0))(t)
	closeAll(t, closing)
	wantError(t, last((&pipeline.Pipeline{GPU: closing, Step: p.increment, In: []pipeline.End{slice()}}).Run(context.Background())), ferry.ErrClosed, "run a pipeline")
}

// bytes100 has the methods of an End, but Run must refuse it.
type bytes100 struct{}

func (*bytes100) Len() int  { return 100 }
func (*bytes100) Size() int { return 100 }

// zeros is a reader that never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestAllocations: a chunk takes few allocations, fewest between buffers.
func TestAllocations(t *testing.T) {
	if on, _ := checks.On(checks.Memory); on || racebuild.On {
		t.Skip("the race detector and FERRY_CHECK allocate")
	}
	g := openDriver(t, gputest.NewFake())
	h := must(ferry.AllocHost[float32](g, 1<<16, nil))(t)
	defer closeAll(t, h)
	step := func(s *ferry.Stream, c *pipeline.Chunk) error { return nil }
	for _, c := range []struct {
		end  pipeline.End
		most float64
	}{{h, 2}, {ferry.Pageable(make([]float32, 1<<16)), 2}, {pipeline.From[float32](zeros{}), 12}} {
		per := func(chunk int) float64 {
			x := &pipeline.Pipeline{GPU: g, In: []pipeline.End{c.end}, Out: []pipeline.End{h}, Step: step, ChunkLen: chunk, Depth: 4}
			defer closeAll(t, x)
			return testing.AllocsPerRun(5, func() { check(t, last(x.Run(context.Background()))) })
		}
		few, many := per(1<<15), per(1<<8)
		if got := (many - few) / (256 - 2); got > c.most {
			t.Errorf("%T: %.1f allocations a chunk, want at most %v", c.end, got, c.most)
		}
	}
}
