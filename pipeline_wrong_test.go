package ferry_test

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
	"github.com/ferrygpu/ferry/kernels"
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

// failing fails after so many bytes.
type failing struct{ left int }

func (f *failing) Read(b []byte) (int, error)  { return f.move(b) }
func (f *failing) Write(b []byte) (int, error) { return f.move(b) }
func (f *failing) move(b []byte) (int, error) {
	n := min(f.left, len(b))
	f.left -= n
	if n < len(b) {
		return n, errPlanted
	}
	return n, nil
}

// TestPipelineGoesWrong: whoever fails at a chunk, the error says where, the chunks
// before it are whole, other work goes on, and nothing stays behind.
func TestPipelineGoesWrong(t *testing.T) {
	const n, chunk, at = 4000, 100, 17 // of the chunk that fails
	onSchedules(t, func(t *testing.T, p *plant) {
		for name, change := range map[string]func(x *ferry.Pipeline){
			"read":  func(x *ferry.Pipeline) { x.In[0] = ferry.From[float32](&failing{4*chunk*at + 6}) },
			"write": func(x *ferry.Pipeline) { x.Out[0] = ferry.To[float32](&failing{4*chunk*at + 6}) },
			"Step": func(x *ferry.Pipeline) {
				x.Step = func(s *ferry.Stream, c *ferry.Chunk) error {
					if c.Index == at {
						return errPlanted
					}
					return p.increment(s, c)
				}
			},
		} {
			for _, direct := range []bool{true, false} {
				in, out := iota32(n, 1), make([]float32, n)
				x := &ferry.Pipeline{GPU: p.GPU, In: []ferry.End{ferry.Plain(in)}, Out: []ferry.End{ferry.Plain(out)}, Step: p.increment, InPlace: true, ChunkLen: chunk, Depth: 4}
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
				good := &ferry.Pipeline{In: []ferry.End{ferry.Plain(iota32(n, 2))}, Out: []ferry.End{ferry.Plain(out)}, Step: p.increment, InPlace: true}
				p.run(good, n)
				wantIncremented(t, out, iota32(n, 2))
			}
		}
	})
}

// stuck is a reader and writer that gives or takes so much and then blocks until it is
// let go.
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

// TestPipelineCancelled: the end of the context ends a pipeline whose reader or writer
// hangs. What it hangs with is given back when it returns.
func TestPipelineCancelled(t *testing.T) { onSchedules(t, cancelled) }

func cancelled(t *testing.T, p *plant) {
	pool := must(p.NewHostPool(nil))(t)
	defer closeAll(t, pool)
	for _, writes := range []bool{false, true} {
		before := runtime.NumGoroutine()
		ctx, cancel := context.WithCancel(context.Background())
		s := newStuck(4 * 1000)
		out := make([]float32, 3000)
		queued := make(chan struct{}) // chunk 9, the last before the one that hangs
		step := func(s *ferry.Stream, c *ferry.Chunk) error {
			if c.First == 900 {
				close(queued)
			}
			return p.increment(s, c)
		}
		x := &ferry.Pipeline{GPU: p.GPU, In: []ferry.End{ferry.From[float32](s)}, Out: []ferry.End{ferry.Plain(out)}, Step: step, InPlace: true, ChunkLen: 100, Depth: 3, Pool: pool}
		if writes {
			x.In[0], x.Out[0] = ferry.Plain(out), ferry.To[float32](s)
		}
		go func() { <-queued; <-s.blocked; cancel() }()
		done, err := x.Run(ctx)
		wantError(t, err, context.Canceled, "chunk 10 (elements 1000 to 1099")
		if done != 1000 {
			t.Errorf("%d elements are done, want 1000", done)
		}
		closeAll(t, x)
		if pool.Stats().Used == 0 {
			t.Error("the chunk of the one that hangs is free")
		}
		close(s.free)
		for end := time.Now().Add(late); pool.Stats().Used > 0 || runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d bytes of the pool are in use, %d goroutines, %d before", pool.Stats().Used, runtime.NumGoroutine(), before)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	x := &ferry.Pipeline{GPU: p.GPU, In: []ferry.End{ferry.Plain(make([]float32, 10))}, Step: p.increment}
	if n, err := x.Run(ctx); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %d, %v", n, err)
	}
}

// TestPipelineFault: a kernel that faults is told of with the chunks that may be meant,
// and all memory is given back.
func TestPipelineFault(t *testing.T) {
	for _, staged := range []bool{true, false} {
		g := must(ferry.OpenDriver(softDriver(t, "h200", 1, softgpu.Eager), 0))(t)
		inc := must(must(g.Load([]byte(kernels.PTX)))(t).Kernel("increment"))(t)
		in := must(ferry.AllocHost[float32](g, 2000, nil))(t)
		x := &ferry.Pipeline{GPU: g, In: []ferry.End{in}, ChunkLen: 100, Depth: 4, Step: func(s *ferry.Stream, c *ferry.Chunk) error {
			if c.Index == 9 {
				return s.Launch(inc, ferry.Grid(1, 1), cu.DevicePtr(0x10), uint64(1))
			}
			return s.Launch(inc, ferry.Grid(c.Len, 256), c.In[0], uint64(c.Len))
		}}
		if staged {
			x.In[0] = ferry.Plain(make([]float32, 2000))
		}
		done, err := x.Run(context.Background())
		if _, ok := errors.AsType[*cu.Fault](err); !ok || !strings.Contains(err.Error(), "chunk ") || done > 900 {
			t.Errorf("%d elements, %v", done, err)
		}
		_ = in.Close()
	}
}

// TestPipelineLost: a driver that fails anywhere in a run is an error of the chunk after
// those that are done, and leaves no goroutine and no memory.
func TestPipelineLost(t *testing.T) {
	for nth := int64(1); nth < 40; nth++ {
		d := &failingDriver{Driver: softDriver(t, "h200", 1, softgpu.Eager)}
		g := must(ferry.OpenDriver(d, 0))(t)
		p := newPlant(t, g)
		out := must(ferry.AllocHost[float32](g, 3000, nil))(t)
		in := iota32(3000, 1)
		x := &ferry.Pipeline{GPU: g, In: []ferry.End{ferry.Plain(in)}, Out: []ferry.End{out}, Step: p.increment, InPlace: true, ChunkLen: 100, Depth: 3}
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
			t.Errorf("call %d fails: %d elements are done, and yet %v", nth, done, err)
		}
		wantIncremented(t, out.Slice(), in[:done])
		if got := d.memory.Load(); got != 0 {
			t.Errorf("call %d fails: %d allocations are left", nth, got)
		}
		for end := time.Now().Add(late); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("call %d fails: %d goroutines are left, %d before", nth, runtime.NumGoroutine(), before)
			}
		}
		closeAll(t, out)
	}
}

// failingDriver fails the nth of its calls that take something or queue work.
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

// EventQuery fails where it would say that all is done, and so does the call after it.
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

// TestPipelineRefused: what cannot be run is refused with the reason.
func TestPipelineRefused(t *testing.T) {
	p := newPlant(t, openSoft(t, "h200", softgpu.Eager))
	s := make([]float32, 100)
	h := must(ferry.Register(p.GPU, s, nil))(t)
	defer closeAll(t, h)
	closed := must(ferry.Alloc[float32](p.GPU, 100))(t)
	closeAll(t, closed)
	plain := func() ferry.End { return ferry.Plain(make([]float32, 100)) }
	for want, x := range map[string]*ferry.Pipeline{
		"no Step":                {In: []ferry.End{plain()}},
		"it has no ends":         {Step: p.increment},
		"input 0 is nil":         {Step: p.increment, In: []ferry.End{nil}},
		"no buffer given":        {Step: p.increment, In: []ferry.End{(*ferry.Host[float32])(nil)}},
		"no reader":              {Step: p.increment, In: []ferry.End{ferry.From[float32](nil)}},
		"hold Go pointers":       {Step: p.increment, In: []ferry.End{ferry.From[*int](&bytes.Buffer{})}},
		"have no bytes":          {Step: p.increment, In: []ferry.End{ferry.From[struct{}](&bytes.Buffer{})}},
		"elements without bytes": {Step: p.increment, In: []ferry.End{ferry.Plain(make([]struct{}, 4))}},
		"From is for inputs":     {Step: p.increment, Out: []ferry.End{ferry.From[byte](&bytes.Buffer{})}},
		"set Len":                {Step: p.increment, Out: []ferry.End{ferry.To[byte](&bytes.Buffer{})}},
		"not 100: ends must":     {Step: p.increment, In: []ferry.End{plain(), ferry.Plain(s[:50])}, Out: []ferry.End{plain()}},
		"cannot be negative":     {Step: p.increment, In: []ferry.End{plain()}, Depth: -1},
		"overlaps input 0":       {Step: p.increment, In: []ferry.End{h.Range(0, 60)}, Out: []ferry.End{h.Range(30, 90)}},
		"overlaps output 0":      {Step: p.increment, Out: []ferry.End{h, h}},
		"have 4 bytes":           {Step: p.increment, In: []ferry.End{plain()}, Out: []ferry.End{ferry.Plain(make([]byte, 100))}, InPlace: true},
		"it has elements 0 to":   {Step: p.increment, In: []ferry.End{h.Range(30, 101)}},
	} {
		x.GPU = p.GPU
		n, err := x.Run(context.Background())
		wantError(t, err, cu.ErrorInvalidValue, want)
		if n != 0 {
			t.Errorf("%s: %d elements", want, n)
		}
	}
	wantError(t, last((&ferry.Pipeline{GPU: p.GPU, Step: p.increment, In: []ferry.End{closed}}).Run(context.Background())), ferry.ErrClosed, "input 0")
	wantError(t, last((&ferry.Pipeline{Step: p.increment}).Run(context.Background())), cu.ErrorInvalidValue, "no GPU")
	wantError(t, last((*ferry.Pipeline)(nil).Run(context.Background())), cu.ErrorInvalidValue, "pipeline")
	closeAll(t, (*ferry.Pipeline)(nil))
	p.run(&ferry.Pipeline{Step: p.increment, In: []ferry.End{ferry.Plain([]float32{})}}, 0)
}

// zeros is a reader without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// pipeFake is a fakeDriver whose streams wait.
type pipeFake struct{ *fakeDriver }

func (pipeFake) StreamWaitEvent(cu.Context, cu.Stream, cu.Event, cu.EventWaitFlags) error { return nil }

func (pipeFake) EventQuery(cu.Context, cu.Event) error { return nil }

// TestPipelineAllocations: a chunk takes few allocations, from buffers to buffers fewest.
func TestPipelineAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	g := openFake(t, pipeFake{newFake()})
	p := newPlant(t, g)
	h := must(ferry.AllocHost[float32](g, 1<<16, nil))(t)
	defer closeAll(t, h)
	step := func(s *ferry.Stream, c *ferry.Chunk) error { return nil }
	for _, c := range []struct {
		end  ferry.End
		most float64
	}{{h, 2}, {ferry.Plain(make([]float32, 1<<16)), 2}, {ferry.From[float32](zeros{}), 12}} {
		per := func(chunk int) float64 {
			x := &ferry.Pipeline{GPU: p.GPU, In: []ferry.End{c.end}, Out: []ferry.End{h}, Step: step, ChunkLen: chunk, Depth: 4}
			defer closeAll(t, x)
			return testing.AllocsPerRun(5, func() { check(t, last(x.Run(context.Background()))) })
		}
		few, many := per(1<<15), per(1<<8)
		if got := (many - few) / (256 - 2); got > c.most {
			t.Errorf("%T: %.1f allocations a chunk, want at most %v", c.end, got, c.most)
		}
	}
}
