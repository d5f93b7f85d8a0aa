package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/pipeline"
)

// act is something that a round does with what is shared.
type act struct {
	name string
	do   func(*worker, context.Context) error
}

var acts = []act{
	{"make a source", (*worker).makeSource}, {"copy a source", (*worker).copySource}, {"copy a source", (*worker).copySource},
	{"copy parts of a source", (*worker).copyParts}, {"read", (*worker).read}, {"read", (*worker).read}, {"write", (*worker).write}, {"write", (*worker).write},
	{"share events", (*worker).shareEvents}, {"share graphs", (*worker).shareGraphs}, {"share modules", (*worker).shareModules},
	{"share page-locked memory", (*worker).sharePinned}, {"share a memory pool", (*worker).sharePool}, {"share streams", (*worker).shareStreams},
	{"batches", (*worker).batch}, {"the GPU", (*worker).useGPU}, {"page-lock", (*worker).pageLock}, {"open", (*worker).open},
	{"pipeline", (*worker).pipe}, {"names", (*worker).names}, {"external work", (*worker).external},
}

// firstOf makes calls until one fails.
func firstOf(calls ...func() error) error {
	for _, f := range calls {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// source is memory that goroutines read and close, but never write.
type source struct {
	memory ferry.Memory[byte]
	seed   byte
	of     io.Closer
	slice  func(ctx context.Context) ([]byte, error) // nil for device memory
}

func (s *source) Close() error { return s.of.Close() }

// length is the number of bytes of a source.
const length = 40_000

// at is byte i of a source.
func at(seed byte, i int) byte { return byte(i*7+i>>8) + seed }

// pattern returns the bytes of a source, or some of them.
func pattern(seed byte, from, to int) []byte {
	b := make([]byte, to-from)
	for i := range b {
		b[i] = at(seed, from+i)
	}
	return b
}

// verify compares bytes that an operation without an error has moved.
func (w *worker) verify(got []byte, seed byte, from int) error {
	for i, b := range got {
		if b != at(seed, from+i) {
			return fmt.Errorf("wrong data: byte %d of %d is %d, want %d", i, len(got), b, at(seed, from+i))
		}
	}
	w.count.verified.Add(1)
	return nil
}

// pick returns what is in one of the slots, perhaps nil.
func pick[T any](w *worker, from []slot[T]) *T { return from[w.random.IntN(len(from))].Load() }

// anyStream returns a shared stream, the default stream, or one of the round's own.
func (w *worker) anyStream() *ferry.Stream {
	switch w.random.IntN(4) {
	case 0:
		return w.g.DefaultStream()
	case 1:
		s, err := ferry.NewStream(w.g, &ferry.StreamOptions{NonBlocking: w.one(2)})
		if s, ok := keep(w, s, err); ok {
			return s
		}
	}
	return pick(w, w.streams[:])
}

// makeSource makes a source of any kind, and puts it into the place of another one.
func (w *worker) makeSource(ctx context.Context) (err error) {
	x := &source{seed: byte(w.random.IntN(256))}
	data := pattern(x.seed, 0, length)
	onHost := func(h *ferry.Host[byte], err error) error {
		if h, ok := keep(w, h, err); !ok {
			return err
		} else if s, err := h.SliceContext(ctx); err != nil {
			return err
		} else {
			copy(s, data)
			x.memory, x.of, x.slice = h, h, h.ReadSliceContext
		}
		return nil
	}
	onDevice := func(d *ferry.Device[byte], err error) error {
		if d, ok := keep(w, d, err); !ok {
			return err
		} else {
			x.memory, x.of = d, d
		}
		return w.fill(ctx, x.memory, data)
	}
	switch w.random.IntN(7) {
	case 0:
		err = onDevice(ferry.Alloc[byte](w.g, length))
	case 1:
		err = onDevice(ferry.AllocAsync[byte](w.anyStream(), length, pick(w, w.pools[:])))
	case 2:
		err = onHost(ferry.AllocHost[byte](w.g, length, &ferry.HostOptions{Mapped: w.one(2), NotPortable: w.one(2)}))
	case 3:
		h := new(ferry.Host[byte])
		err = onHost(h, w.allocPooled(h))
	case 4:
		err = onHost(ferry.Register(w.g, make([]byte, length), nil))
	case 5:
		m, failed := ferry.AllocManaged[byte](w.g, length, nil)
		if m, ok := keep(w, m, failed); ok {
			x.memory, x.of, x.slice = m, m, m.ReadSliceContext
			err = w.fill(ctx, m, data)
		} else {
			err = failed
		}
	default:
		err = onDevice(ferry.Upload(w.g, data))
	}
	if err == nil {
		w.own = w.own[:len(w.own)-1] // it is shared now
		replace(w.storm, &w.sources[w.random.IntN(len(w.sources))], x)
	}
	return err
}

// fill copies data to memory on a stream of its own.
func (w *worker) fill(ctx context.Context, m ferry.Memory[byte], data []byte) error {
	s, err := ferry.NewStream(w.g, nil)
	if err != nil {
		return err
	}
	defer w.close(s)
	return errors.Join(ferry.Copy(s, m, ferry.Memory[byte](ferry.Pageable(data))), s.Wait(ctx))
}

// copySource copies a source through other memory.
func (w *worker) copySource(ctx context.Context) error {
	x, s := pick(w, w.sources[:]), w.anyStream()
	if x == nil {
		return nil
	}
	if x.slice != nil && w.one(3) {
		_, err := x.slice(ctx)
		return err
	}
	got := make([]byte, length)
	var through ferry.Memory[byte] = ferry.Pageable(got)
	switch w.random.IntN(6) {
	case 5:
		got, err := ferry.Download(ferry.View[[2]byte](x.memory))
		if err != nil {
			return err
		}
		return w.verify(ferry.View[byte](ferry.Pageable(got)).ReadSlice(), x.seed, 0)
	case 0:
		d, err := ferry.Alloc[byte](w.g, length)
		if d, ok := keep(w, d, err); ok {
			through = d
		}
	case 1:
		h, err := ferry.AllocHost[byte](w.g, length, nil)
		if h, ok := keep(w, h, err); ok {
			through = h
		}
	case 2:
		got, err := ferry.Download(x.memory)
		if err != nil {
			return err
		}
		return w.verify(got, x.seed, 0)
	}
	if _, err := through, ferry.CopyContext(ctx, s, through, x.memory); err != nil {
		return err
	}
	if err := s.Wait(ctx); err != nil {
		return err
	}
	if _, ok := through.(*ferry.PageableSlice[byte]); !ok {
		var err error
		if got, err = ferry.Download(through); err != nil {
			return err
		}
	}
	return w.verify(got, x.seed, 0)
}

// copyParts copies parts of sources in one call.
func (w *worker) copyParts(ctx context.Context) error {
	x, s := pick(w, w.sources[:]), w.anyStream()
	h, err := ferry.AllocHost[byte](w.g, length, nil)
	if h, ok := keep(w, h, err); !ok || x == nil {
		return err
	} else {
		from := func(i, j int) ferry.Memory[byte] {
			switch m := x.memory.(type) {
			case *ferry.Device[byte]:
				return m.Range(i, j)
			case *ferry.Host[byte]:
				return m.Range(i, j)
			case *ferry.Managed[byte]:
				return m.Range(i, j)
			}
			return x.memory
		}
		if w.one(2) {
			var all []ferry.Pair[byte]
			for i := 0; i < length; i += length / 8 {
				all = append(all, ferry.Pair[byte]{Dst: h.Range(i, i+length/8), Src: from(i, i+length/8)})
			}
			err = ferry.CopyAll(s, all)
		} else {
			rect := func(m ferry.Memory[byte]) ferry.Rect[byte] {
				return ferry.Rect[byte]{Memory: m, Pitch: 200, Width: 200, Height: length / 200}
			}
			err = ferry.CopyRect(s, rect(h), rect(x.memory))
		}
		if err = errors.Join(err, s.Wait(ctx)); err != nil {
			return err
		}
		got, err := h.ReadSliceContext(ctx)
		if err != nil {
			return err
		}
		return w.verify(got, x.seed, 0)
	}
}

// disturb is what a function of the program may do with Ferry. It has random numbers of its own,
// because it may run on another goroutine.
func (w *worker) disturb(own io.Closer, s *ferry.Stream) func() {
	random := rand.New(rand.NewPCG(w.random.Uint64(), 0))
	return func() {
		switch random.IntN(7) {
		case 0:
			_ = own.Close()
		case 1:
			if s != nil {
				_ = s.Close()
			}
		case 2:
			replace(w.storm, &w.sources[random.IntN(len(w.sources))], nil)
		case 3:
			var out bytes.Buffer
			if x := w.sources[random.IntN(len(w.sources))].Load(); x != nil {
				_, _ = ferry.CopyTo(context.Background(), s, &out, x.memory)
			}
		case 4:
			if d, err := ferry.Upload(w.g, make([]byte, 100)); err == nil {
				w.close(d)
			}
		case 5:
			_ = w.g.Wait(context.Background())
		case 6:
			replace(w.storm, &w.streams[random.IntN(len(w.streams))], nil)
		}
	}
}

// allocPooled takes a buffer of a pool. It waits at the limit of the pool, but not for ever, because the
// others may all wait with buffers of their own.
func (w *worker) allocPooled(h *ferry.Host[byte]) error {
	if w.one(2) {
		return h.Alloc(pick(w, w.pinned[:]), length)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	return h.AllocContext(ctx, pick(w, w.pinned[:]), length)
}

// read lets a reader fill memory.
func (w *worker) read(ctx context.Context) error {
	s, seed := w.anyStream(), byte(w.random.IntN(256))
	d, err := ferry.Alloc[byte](w.g, length)
	w.own = append(w.own, d)
	var m ferry.Memory[byte] = d
	var of io.Closer = d
	if w.one(3) {
		h := new(ferry.Host[byte])
		err, m, of = errors.Join(err, w.allocPooled(h)), h, h
		w.own = append(w.own, h)
	}
	if err != nil {
		return err
	}
	r := w.reader(ctx, func(i int) byte { return at(seed, i) }, w.disturb(of, s))
	if _, err := ferry.CopyFrom(ctx, s, m, r); err != nil {
		return err
	}
	got, err := ferry.Download(m)
	if err != nil {
		return err
	}
	return w.verify(got, seed, 0)
}

// write lets a writer have a source.
func (w *worker) write(ctx context.Context) error {
	x, s := pick(w, w.sources[:]), w.anyStream()
	if x == nil {
		return nil
	}
	r := w.reader(ctx, nil, w.disturb(x, s))
	if _, err := ferry.CopyTo(ctx, s, r, x.memory); err != nil {
		return err
	}
	if len(r.got) != length {
		return fmt.Errorf("wrong data: %d bytes were written", len(r.got))
	}
	return w.verify(r.got, x.seed, 0)
}

func (w *worker) shareEvents(ctx context.Context) error {
	e, f, s := pick(w, w.events[:]), pick(w, w.events[:]), w.anyStream()
	if w.one(3) {
		made, err := ferry.NewEvent(w.g, &ferry.EventOptions{NoTiming: w.one(2)})
		if err == nil {
			replace(w.storm, &w.events[w.random.IntN(len(w.events))], made)
		}
		return err
	}
	return firstOf(
		func() error { return s.Record(e) },
		func() error { return w.anyStream().WaitEvent(e) },
		func() error { return e.Wait(ctx) },
		func() error { _, err := e.Done(); return err },
		func() error { _, err := e.Since(f); return err })
}

// shareGraphs makes, launches, changes and closes graphs. Each fills memory of its own, which the
// graph alone keeps.
func (w *worker) shareGraphs(ctx context.Context) error {
	x, s := pick(w, w.graphs[:]), w.anyStream()
	if !w.one(3) {
		return errors.Join(x.Launch(s), s.Wait(ctx))
	}
	own, err := ferry.NewStream(w.g, nil)
	if own, ok := keep(w, own, err); !ok {
		return err
	} else if d, err := ferry.Alloc[byte](w.g, 64); err != nil {
		return err
	} else {
		defer w.close(d)
		end := w.ending()
		queue := func(s *ferry.Stream) error {
			err := ferry.Fill(s, ferry.Memory[byte](d), 1)
			end()
			return err
		}
		if w.one(2) {
			return x.Update(own, queue)
		}
		made, err := own.Capture(queue)
		if err == nil {
			replace(w.storm, &w.graphs[w.random.IntN(len(w.graphs))], made)
		}
		return err
	}
}

func (w *worker) shareModules(ctx context.Context) error {
	m := pick(w, w.modules[:])
	if w.one(4) {
		made, err := ferry.Load(w.g, []byte(kernels.PTX), nil)
		if err == nil {
			replace(w.storm, &w.modules[w.random.IntN(len(w.modules))], made)
		}
		return err
	}
	k, err := m.Kernel("increment")
	if err != nil {
		return err
	}
	own, err := ferry.NewStream(w.g, nil)
	if own, ok := keep(w, own, err); !ok {
		return err
	} else if d, err := ferry.Upload(w.g, make([]float32, 100)); err != nil {
		return err
	} else {
		w.own = append(w.own, d)
		if err := errors.Join(own.Launch(k, ferry.Cover(100, 32), d, uint64(100)), own.Wait(ctx)); err != nil {
			return err
		}
		got, err := ferry.Download(d)
		if err == nil && got[99] != 1 {
			err = fmt.Errorf("wrong data: the kernel left %v", got[99])
		}
		return err
	}
}

func (w *worker) sharePinned(ctx context.Context) error {
	p := pick(w, w.pinned[:])
	switch w.random.IntN(6) {
	case 0:
		made, err := ferry.NewPinnedPool(w.g, &ferry.PinnedPoolOptions{Max: 8 << 20})
		if err == nil {
			replace(w.storm, &w.pinned[w.random.IntN(len(w.pinned))], made)
		}
		return err
	case 1:
		return p.Trim(w.random.IntN(1 << 20))
	case 2:
		return p.Warm(ctx, 1<<20)
	case 3:
		_, err := p.Stats()
		return err
	}
	h, s, seed := new(ferry.Host[byte]), w.anyStream(), byte(w.random.IntN(256))
	if err := h.Alloc(p, length); err != nil {
		return err
	}
	w.own = append(w.own, h)
	b, err := h.SliceContext(ctx)
	if err != nil {
		return err
	}
	copy(b, pattern(seed, 0, length))
	got := make([]byte, length)
	if err := errors.Join(ferry.CopyContext(ctx, s, ferry.Memory[byte](ferry.Pageable(got)), ferry.Memory[byte](h)), s.Wait(ctx)); err != nil {
		return err
	}
	return w.verify(got, seed, 0)
}

func (w *worker) sharePool(ctx context.Context) error {
	p, s := pick(w, w.pools[:]), w.anyStream()
	switch w.random.IntN(6) {
	case 0:
		made, err := ferry.NewMemPool(w.g, nil)
		if err == nil {
			replace(w.storm, &w.pools[w.random.IntN(len(w.pools))], made)
		}
		return err
	case 1:
		return errors.Join(p.Trim(0), p.SetKeep(1<<20))
	case 2:
		_, err := p.Stats()
		return err
	}
	d, err := ferry.AllocAsync[byte](s, length, p)
	if d, ok := keep(w, d, err); ok {
		return errors.Join(ferry.Fill(s, ferry.Memory[byte](d), 3), d.Wait(ctx))
	}
	return err
}

func (w *worker) shareStreams(ctx context.Context) error {
	s := pick(w, w.streams[:])
	if w.one(4) {
		made, err := ferry.NewStream(w.g, &ferry.StreamOptions{NonBlocking: w.one(2)})
		if err == nil {
			replace(w.storm, &w.streams[w.random.IntN(len(w.streams))], made)
		}
		return err
	}
	return firstOf(
		func() error { return s.HostFunc(w.ending()) },
		func() error {
			done, err := s.Notify()
			if err == nil && w.one(2) {
				select {
				case <-done:
				case <-ctx.Done():
				}
			}
			return err
		},
		func() error { _, err := s.Done(); return err },
		func() error { return s.Wait(ctx) })
}

func (w *worker) batch(ctx context.Context) error {
	x, s := pick(w, w.sources[:]), w.anyStream()
	d, err := ferry.Alloc[byte](w.g, length)
	if d, ok := keep(w, d, err); !ok || x == nil {
		return err
	} else {
		var b ferry.Batch
		if err := errors.Join(ferry.Copy(&b, ferry.Memory[byte](d), x.memory), s.Submit(&b), s.Submit(&b), s.Wait(ctx)); err != nil {
			return err
		}
		got, err := ferry.Download(d)
		if err != nil {
			return err
		}
		return w.verify(got, x.seed, 0)
	}
}

func (w *worker) useGPU(ctx context.Context) error {
	other := w.gpus[w.random.IntN(2)]
	_, _, memory := w.g.MemInfo()
	_, attribute := w.g.Attribute(cu.DeviceAttributeWarpSize)
	_, _, priorities := w.g.Priorities()
	_, peer := w.g.CanAccessPeer(other)
	staging, ring := w.g.Staging().Stats()
	limit := w.g.Staging().SetLimit(staging.SlotBytes * w.random.IntN(4)) // 0: as the settings say
	_, use := ferry.HostStats(w.g)
	w.g.RecordPlaces(w.one(2))
	_, places := ferry.MemoryPlaces(w.g)
	most := w.g.LimitHost(w.random.IntN(2) << 30)
	return errors.Join(memory, attribute, priorities, peer, ring, limit, use, places, most, w.g.SetSaveCPU(w.one(2)), w.g.EnablePeer(other), w.g.Wait(ctx))
}

// pageLock allocates memory with a function that is told of the progress.
func (w *worker) pageLock(ctx context.Context) error {
	end := w.ending()
	o := &ferry.HostOptions{Progress: func(int, int) { end() }}
	h, err := ferry.AllocHostContext[byte](ctx, w.g, 1<<(12+w.random.IntN(11)), o)
	keep(w, h, err)
	return err
}

// open opens another GPU of the driver, and one of a driver of its own.
func (w *worker) open(ctx context.Context) error {
	g, err := ferry.OpenDriver(w.d, w.random.IntN(2))
	if g, ok := keep(w, g, err); ok {
		d, err := ferry.Upload(g, pattern(9, 0, length))
		if _, ok := keep(w, d, err); !ok {
			return err
		}
		if w.one(2) {
			w.close(g)
		}
		got, err := ferry.Download(d)
		if err != nil {
			return err
		}
		return w.verify(got, 9, 0)
	}
	return err
}

// pipe runs a pipeline between a reader and a writer that do what they like.
func (w *worker) pipe(ctx context.Context) error {
	seed := byte(w.random.IntN(256))
	p := &pipeline.Pipeline{GPU: w.g, ChunkLen: 1 + length/5, Len: length, InPlace: true}
	w.own = append(w.own, p)
	in, out := w.reader(ctx, func(i int) byte { return at(seed, i) }, w.disturb(p, nil)), w.reader(ctx, nil, w.disturb(p, nil))
	p.In, p.Out = []pipeline.End{pipeline.From[byte](in)}, []pipeline.End{pipeline.To[byte](out)}
	end := func() {}
	if w.one(4) {
		end = w.ending()
	}
	p.Step = func(s *ferry.Stream, c *pipeline.Chunk) error { end(); return nil }
	n, err := p.Run(ctx)
	if err != nil {
		return err
	}
	if n != length || len(out.got) != length {
		return fmt.Errorf("wrong data: %d elements, %d bytes", n, len(out.got))
	}
	return w.verify(out.got, seed, 0)
}

// names calls what makes no call of the driver.
func (w *worker) names(context.Context) error {
	s, m, x := w.anyStream(), pick(w, w.modules[:]), pick(w, w.sources[:])
	all := []any{w.g.Name(), w.g.Profile(), w.g.Emulated(), w.g.Fallback(), w.g.Now(), w.g.CUContext(), w.g.CUDevice(), w.g.Driver() == nil,
		m.Kernels(), m.Log(), m.Warnings(), new(ferry.Batch).Len()}
	all = append(all, w.g.String(), s.String(), m.String(), pick(w, w.events[:]).String(), pick(w, w.graphs[:]).String(), pick(w, w.pinned[:]).String(),
		pick(w, w.pools[:]).String(), ferry.Cover(1, 1).String(), ferry.Cover2D(1, 1, 1, 1).String())
	new(ferry.Batch).Reset()
	if k, err := m.Kernel("increment"); err == nil {
		all = append(all, k.Name(), k.Params(), k.GPU(), k.Handle())
	}
	e, graph, pool, pinned := pick(w, w.events[:]), pick(w, w.graphs[:]), pick(w, w.pools[:]), pick(w, w.pinned[:])
	all = append(all, s.GPU(), e.GPU(), m.GPU(), graph.GPU(), pool.GPU(), pinned.GPU(), m.Handle(), graph.Handle(), pool.Handle())
	if w.one(4) { // from then on less is known of them
		all = append(all, s.Handle(), e.Handle())
	}
	if x == nil {
		return nil
	}
	p := ferry.Pageable(pattern(1, 0, 10))
	all = append(all, x.memory.Len(), x.memory.Size(), ferry.Synchronous(s, x.memory, x.memory), p.Range(1, 2).Slice(), p.Len(), p.Size(), p.String())
	v := ferry.View[[2]byte](x.memory)
	all = append(all, v.GPU() == nil, v.Pointer(), v.Range(1, 2).Len(), v.Size(), v.String())
	switch v := x.memory.(type) {
	case *ferry.Device[byte]:
		all = append(all, v.GPU(), v.Pointer(), v.Len(), v.Size(), v.String())
	case *ferry.Host[byte]:
		all = append(all, v.GPU(), v.Pointer(), v.Len(), v.Size(), v.String())
	case *ferry.Managed[byte]:
		all = append(all, v.GPU(), v.Pointer(), v.Len(), v.Size(), v.String())
	}
	if len(fmt.Sprint(all...)) == 0 {
		return errors.New("no names")
	}
	return nil
}

// external lets another library fill memory, in one of the two ways, beside what a function of the
// program does.
func (w *worker) external(ctx context.Context) error {
	s, value := w.anyStream(), byte(w.random.IntN(256))
	d, err := ferry.Alloc[byte](w.g, length)
	if d, ok := keep(w, d, err); ok {
		disturb, end := w.disturb(d, s), func() {}
		if w.one(4) {
			end = w.ending()
		}
		f := func(h cu.Stream) error {
			err := w.g.Driver().MemsetD8Async(w.g.CUContext(), d.Pointer(), value, length, h)
			disturb()
			end()
			return err
		}
		if w.one(2) {
			err = s.External(f, ferry.Writes(d))
		} else {
			err = s.ExternalPerThread(f, ferry.Writes(d))
		}
		if err != nil {
			return err
		}
		if err := w.g.Current(func() error { return d.Wait(ctx) }); err != nil {
			return err
		}
		got, err := ferry.Download(d)
		if err != nil {
			return err
		}
		for i, b := range got {
			if b != value {
				return fmt.Errorf("wrong data: byte %d of %d is %d, want %d", i, len(got), b, value)
			}
		}
		w.count.verified.Add(1)
	}
	return err
}
