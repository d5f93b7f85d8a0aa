package sweep

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
)

// Scenario is a short program on a device.
type Scenario struct {
	Name  string
	steps func(ctx context.Context, g *ferry.GPU, b *base) error // on what prepare takes
}

// Run runs the scenario, and frees all that it has taken.
func (s Scenario) Run(ctx context.Context, g *ferry.GPU) error {
	b, ok := prepare(g)
	if !ok {
		return b.done(nil)
	}
	return b.done(s.steps(ctx, g, b))
}

// n is the number of elements of a buffer.
const n = 1 << 12

// Scenarios lists all.
var Scenarios = []Scenario{
	{"copy", copies}, {"pageable", pageable}, {"register", register}, {"managed", managed}, {"launch", launch},
	{"batch", batch}, {"graph", graph}, {"stream-ordered", streamOrdered}, {"pinned pool", pinnedPool},
	{"copy all", copyAll}, {"reader and writer", readerAndWriter}, {"events", events}, {"host function", hostFunction},
	{"pipeline", pipe}, {"staged pipeline", stagedPipe},
	{"upload", upload}, {"memory pool", memPool}, {"times", times}, {"values", values}, {"graph update", update}, {"kernel facts", facts},
	{"advice", advice}, {"priority", priority}, {"warm pool", warm}, {"rectangle", rectangle}, {"views", views}, {"wraps", wraps},
	{"virtual memory", grown}, {"shared memory", shared},
	{"boxes", boxes}, {"peer", peer}, {"link", linked}, {"managed global", managedGlobal}, {"bound kernel", bound},
	{"batch events", batchEvents}, {"attach", attached}, {"waits", waits}, {"default memory pool", defaultPool},
	{"streams of a pipeline", endsPipe}, {"external work", external}, {"parts", parts},
	{"checkpoint", loads(checkpoint.NoDType, 0x80, 0x3f)},
	{"checkpoint as F16", loads(checkpoint.F16, 0, 0x3c)}, {"checkpoint as F32", loads(checkpoint.F32, 0, 0, 0x80, 0x3f)},
}

// A user takes things and frees them in the opposite order.
type user struct {
	err   error
	frees []func() error
}

// take keeps what a call returns, unless it failed.
func take[T io.Closer](u *user, v T, err error) (T, bool) {
	if err != nil {
		u.err = errors.Join(u.err, err)
		return v, false
	}
	u.frees = append(u.frees, v.Close)
	return v, true
}

// done frees all and returns all errors.
func (u *user) done(err error) error {
	err = errors.Join(u.err, err)
	for i := len(u.frees) - 1; i >= 0; i-- {
		err = errors.Join(err, u.frees[i]())
	}
	return err
}

// base is a stream, page-locked memory with numbers, and device memory.
type base struct {
	user
	s    *ferry.Stream
	host *ferry.Host[float32]
	on   *ferry.Device[float32]
}

// prepare takes what most scenarios need. ok is false if that failed.
func prepare(g *ferry.GPU) (b *base, ok bool) {
	b = &base{}
	s, err := ferry.NewStream(g, nil)
	if b.s, ok = take(&b.user, s, err); !ok {
		return b, false
	}
	host, err := ferry.AllocHost[float32](g, n, nil)
	if b.host, ok = take(&b.user, host, err); !ok {
		return b, false
	}
	on, err := ferry.Alloc[float32](g, n)
	if b.on, ok = take(&b.user, on, err); !ok {
		return b, false
	}
	for i := range b.host.Slice() {
		b.host.Slice()[i] = float32(i)
	}
	return b, true
}

// same returns an error if the page-locked memory does not have the numbers that prepare
// wrote, each larger by more.
func same(got []float32, more float32) error {
	for i, v := range got {
		if v != float32(i)+more {
			return fmt.Errorf("wrong data: element %d is %v, want %v", i, v, float32(i)+more)
		}
	}
	return nil
}

// steps makes calls until one fails.
func steps(calls ...func() error) error {
	for _, f := range calls {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func copies(ctx context.Context, g *ferry.GPU, b *base) error {
	return steps(
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return ferry.Fill(b.s, b.on.Range(0, 1), 0) },
		func() error { return ferry.Copy(b.s, b.host, b.on) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 0) })
}

func pageable(ctx context.Context, g *ferry.GPU, b *base) error {
	in, out := make([]float32, 1<<18), make([]float32, 1<<18)
	for i := range in {
		in[i] = float32(i)
	}
	large, err := ferry.Alloc[float32](g, len(in))
	if large, ok := take(&b.user, large, err); ok {
		return steps(
			func() error { return ferry.Copy(b.s, large, ferry.Pageable(in)) },
			func() error { return ferry.CopyContext(ctx, b.s, ferry.Pageable(out), large) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(out, 0) })
	}
	return nil
}

func register(ctx context.Context, g *ferry.GPU, b *base) error {
	words := make([]float32, n)
	r, err := ferry.Register(g, words, &ferry.RegisterOptions{Mapped: true})
	if r, ok := take(&b.user, r, err); ok {
		return steps(
			func() error { return ferry.Copy(b.s, b.on, b.host) },
			func() error { return ferry.Copy(b.s, r, b.on) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(words, 0) })
	}
	return nil
}

func managed(ctx context.Context, g *ferry.GPU, b *base) error {
	m, err := ferry.AllocManaged[float32](g, n, nil)
	if m, ok := take(&b.user, m, err); ok {
		return steps(
			func() error { return ferry.Copy(b.s, m, b.host) },
			func() error { return m.Prefetch(b.s, g.CUDevice()) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(m.Slice(), 0) })
	}
	return nil
}

// increment loads a kernel that adds one to each element.
func increment(g *ferry.GPU, u *user) (k *ferry.Kernel, ok bool) {
	m, err := ferry.Load(g, []byte(kernels.PTX), nil)
	if m, ok = take(u, m, err); !ok {
		return nil, false
	}
	if k, err = m.Kernel("increment"); err != nil {
		u.err = errors.Join(u.err, err)
	}
	return k, err == nil
}

func launch(ctx context.Context, g *ferry.GPU, b *base) error {
	k, ok := increment(g, &b.user)
	if !ok {
		return nil
	}
	return steps(
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return b.s.Launch(k, ferry.Cover2D(n, 1, 256, 1), b.on, uint64(n)) },
		func() error { return ferry.Copy(b.s, b.host, b.on) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 1) })
}

func batch(ctx context.Context, g *ferry.GPU, b *base) error {
	k, ok := increment(g, &b.user)
	if !ok {
		return nil
	}
	var list ferry.Batch
	return steps(
		func() error { return ferry.Copy(&list, b.on, b.host) },
		func() error { return list.Launch(k, ferry.Cover(n, 256), b.on, uint64(n)) },
		func() error { return ferry.Copy(&list, b.host, b.on) },
		func() error { return b.s.Submit(&list) },
		func() error { return b.s.Submit(&list) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(b.host.Slice(), 2) })
}

func graph(ctx context.Context, g *ferry.GPU, b *base) error {
	k, ok := increment(g, &b.user)
	if !ok {
		return nil
	}
	x, err := b.s.Capture(func(s *ferry.Stream) error {
		return steps(
			func() error { return ferry.Copy(s, b.on, b.host) },
			func() error { return s.Launch(k, ferry.Cover(n, 256), b.on, uint64(n)) },
			func() error { return ferry.Copy(s, b.host, b.on) })
	})
	if x, ok := take(&b.user, x, err); ok {
		return steps(
			func() error { return x.Launch(b.s) },
			func() error { return x.Launch(b.s) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(b.host.Slice(), 2) })
	}
	return nil
}

func streamOrdered(ctx context.Context, g *ferry.GPU, b *base) error { return throughPool(ctx, b, nil) }

// throughPool copies to memory of a pool and back; nil is the default pool.
func throughPool(ctx context.Context, b *base, p *ferry.MemPool) error {
	m, err := ferry.AllocAsync[float32](b.s, n, p)
	if m, ok := take(&b.user, m, err); ok {
		return steps(
			func() error { return ferry.Copy(b.s, m, b.host) },
			func() error { return ferry.Copy(b.s, b.host, m) },
			func() error { return b.s.Wait(ctx) },
			func() error { return same(b.host.Slice(), 0) })
	}
	return nil
}

func pinnedPool(ctx context.Context, g *ferry.GPU, b *base) error {
	p, err := ferry.NewPinnedPool(g, nil)
	if p, ok := take(&b.user, p, err); ok {
		h := new(ferry.Host[float32])
		if h, ok := take(&b.user, h, h.AllocContext(ctx, p, n)); ok {
			return steps(
				func() error { return ferry.Copy(b.s, b.on, b.host) },
				func() error { return ferry.Copy(b.s, h, b.on) },
				func() error { return b.s.Wait(ctx) },
				func() error { return same(h.Slice(), 0) })
		}
	}
	return nil
}

func copyAll(ctx context.Context, g *ferry.GPU, b *base) error {
	const parts = 8
	words := make([]float32, n)
	var in, out []ferry.Pair[float32]
	for i := range parts {
		from, to := i*n/parts, (i+1)*n/parts
		in = append(in, ferry.Pair[float32]{Dst: b.on.Range(from, to), Src: b.host.Range(from, to)})
		out = append(out, ferry.Pair[float32]{Dst: ferry.Pageable(words[from:to]), Src: b.on.Range(from, to)})
	}
	return steps(
		func() error { return ferry.CopyAll(b.s, in) },
		func() error { return ferry.CopyAll(b.s, out) },
		func() error { return b.s.Wait(ctx) },
		func() error { return same(words, 0) })
}

func readerAndWriter(ctx context.Context, g *ferry.GPU, b *base) error {
	text := bytes.Repeat([]byte{7}, 4*n)
	var out bytes.Buffer
	return steps(
		func() error { _, err := ferry.CopyFrom(ctx, b.s, b.on, bytes.NewReader(text)); return err },
		func() error { _, err := ferry.CopyTo(ctx, b.s, &out, b.on); return err },
		func() error {
			if !bytes.Equal(out.Bytes(), text) {
				return errors.New("wrong data: other bytes were written than read")
			}
			return nil
		})
}

func events(ctx context.Context, g *ferry.GPU, b *base) error {
	other, err := ferry.NewStream(g, nil)
	other, ok := take(&b.user, other, err)
	if !ok {
		return nil
	}
	e, err := ferry.NewEvent(g, nil)
	if e, ok := take(&b.user, e, err); ok {
		return steps(
			func() error { return ferry.Copy(b.s, b.on, b.host) },
			func() error { return b.s.Record(e) },
			func() error { return other.WaitEvent(e) },
			func() error { return ferry.Copy(other, b.host, b.on) },
			func() error { return other.Wait(ctx) },
			func() error { return e.Wait(ctx) },
			func() error { return same(b.host.Slice(), 0) })
	}
	return nil
}

func hostFunction(ctx context.Context, g *ferry.GPU, b *base) error {
	return steps(
		func() error { return ferry.Copy(b.s, b.on, b.host) },
		func() error { return b.s.HostFunc(func() {}) },
		func() error { _, err := b.s.Notify(); return err },
		func() error { return b.s.Wait(ctx) })
}

func pipe(ctx context.Context, g *ferry.GPU, b *base) error {
	return runPipe(ctx, g, b, b.host, b.host, func() error { return same(b.host.Slice(), 1) })
}

func stagedPipe(ctx context.Context, g *ferry.GPU, b *base) error {
	in := append([]float32(nil), b.host.Slice()...)
	return runPipe(ctx, g, b, ferry.Pageable(in), b.host, func() error { return same(b.host.Slice(), 1) })
}

// endsPipe increments what a reader has, and writes it.
func endsPipe(ctx context.Context, g *ferry.GPU, b *base) error {
	var in, out bytes.Buffer
	if err := binary.Write(&in, binary.NativeEndian, b.host.Slice()); err != nil {
		return err
	}
	words := make([]float32, n)
	return runPipe(ctx, g, b, pipeline.From[float32](&in), pipeline.To[float32](&out), func() error {
		return errors.Join(binary.Read(&out, binary.NativeEndian, words), same(words, 1))
	})
}

// runPipe increments n elements in four chunks, and calls check.
func runPipe(ctx context.Context, g *ferry.GPU, b *base, in, out pipeline.End, check func() error) error {
	k, ok := increment(g, &b.user)
	if !ok {
		return nil
	}
	p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{in}, Out: []pipeline.End{out}, InPlace: true, ChunkLen: n / 4}
	p.Step = func(s *ferry.Stream, c *pipeline.Chunk) error {
		return s.Launch(k, ferry.Cover(c.Len, 256), c.In[0], uint64(c.Len))
	}
	b.frees = append(b.frees, p.Close)
	return steps(
		func() error { _, err := p.Run(ctx); return err },
		check)
}
