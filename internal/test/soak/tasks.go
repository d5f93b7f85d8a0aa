package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
)

// task is one kind of round. weight is how often it is chosen.
type task struct {
	name   string
	weight int
	run    func(*worker, context.Context) error
}

// tasks are all kinds of rounds. All but "wrong" end with right data, or with the end of
// their context.
var tasks = []task{
	{"pooled", 40, (*worker).pooled},
	{"page-locked", 2, (*worker).pageLocked},
	{"pageable", 20, (*worker).pageable},
	{"large pageable", 1, (*worker).largePageable},
	{"registered", 4, (*worker).registered},
	{"reader", 4, (*worker).reader},
	{"pipeline", 3, (*worker).pipeline},
	{"graph", 3, (*worker).graph},
	{"batch", 6, (*worker).batch},
	{"notified", 6, (*worker).notified},
	{"cancelled", 6, (*worker).cancelled},
	{"closed in flight", 6, (*worker).closedInFlight},
	{"wrong", 6, (*worker).wrong},
}

// choose returns the named tasks, or all.
func choose(names []string) (chosen []task, err error) {
	if len(names) == 0 {
		return tasks, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(tasks, func(t task) bool { return t.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no task %q: the tasks are %s", name, strings.Join(taskNames(), ", "))
		}
		chosen = append(chosen, tasks[i])
	}
	return chosen, nil
}

func taskNames() (names []string) {
	for _, t := range tasks {
		names = append(names, t.name)
	}
	return names
}

// worker is a goroutine that runs tasks.
type worker struct {
	*run
	random *rand.Rand
	tasks  []task
	done   map[string]int
}

// round runs a random task.
func (w *worker) round(ctx context.Context) error {
	total := 0
	for _, t := range w.tasks {
		total += t.weight
	}
	pick := w.random.IntN(total)
	for _, t := range w.tasks {
		if pick -= t.weight; pick < 0 {
			w.done[t.name]++
			if err := t.run(w, ctx); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			break
		}
	}
	return nil
}

// length returns a number of elements up to most, small ones more often.
func (w *worker) length(most int) int {
	return 1 + int(math.Exp(w.random.Float64()*math.Log(float64(most))))%most
}

// pattern returns element i of the data of a round.
func pattern(seed uint64, i int) float32 {
	return float32((seed + uint64(i)*0x9e3779b9) & 0xfffff)
}

// write writes the data of a round.
func write(x []float32, seed uint64) {
	for i := range x {
		x[i] = pattern(seed, i)
	}
}

// verify compares x with the data of a round, increased by more.
func (w *worker) verify(x []float32, seed uint64, more float32) error {
	for i, v := range x {
		if want := pattern(seed, i) + more; v != want {
			return fmt.Errorf("element %d of %d is %v, want %v", i, len(x), v, want)
		}
	}
	w.verified.Add(uint64(len(x)))
	return nil
}

// closeAll closes what a round has made, the last first.
type closeAll []io.Closer

func (c *closeAll) close() (err error) {
	for _, x := range slices.Backward(*c) {
		err = errors.Join(err, x.Close())
	}
	*c = nil
	return err
}

// keep notes what a call has made.
func keep[T io.Closer](c *closeAll, err *error, v T, failed error) T {
	if failed != nil {
		*err = errors.Join(*err, failed)
	} else {
		*c = append(*c, v)
	}
	return v
}

// buffers are what most rounds use.
type buffers struct {
	all    closeAll
	stream *ferry.Stream
	host   *ferry.Host[float32]
	device *ferry.Device[float32]
	seed   uint64
}

// take makes a stream, and n elements of device memory and of page-locked memory, which it
// writes. The device memory is in stream order half of the time.
func (w *worker) take(n int, o *ferry.HostOptions) (b *buffers, err error) {
	b = &buffers{seed: w.random.Uint64()}
	s, failed := ferry.NewStream(w.g, &ferry.StreamOptions{NonBlocking: w.random.IntN(2) == 0})
	b.stream = keep(&b.all, &err, s, failed)
	if err != nil {
		return b, err
	}
	h, failed := w.allocHost(n, o)
	b.host = keep(&b.all, &err, h, failed)
	var d *ferry.Device[float32]
	if w.random.IntN(2) == 0 {
		d, failed = ferry.Alloc[float32](w.g, n)
	} else {
		d, failed = ferry.AllocAsync[float32](b.stream, n, w.pool)
	}
	b.device = keep(&b.all, &err, d, failed)
	if err == nil {
		write(b.host.Slice(), b.seed)
	}
	return b, err
}

// increment queues the kernel.
func (w *worker) increment(s *ferry.Stream, x ferry.Memory[float32]) error {
	return s.Launch(w.k, ferry.Cover(x.Len(), 256), x, uint64(x.Len()))
}

// queue queues copy in, kernel, copy out.
func (w *worker) queue(b *buffers) error {
	return firstOf(
		func() error { return ferry.Copy(b.stream, b.device, b.host) },
		func() error { return w.increment(b.stream, b.device) },
		func() error { return ferry.Copy(b.stream, b.host, b.device) })
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

// allocHost allocates page-locked memory, from the pool if o is nil.
func (w *worker) allocHost(n int, o *ferry.HostOptions) (*ferry.Host[float32], error) {
	if o != nil {
		return ferry.AllocHost[float32](w.g, n, o)
	}
	h := new(ferry.Host[float32])
	if err := h.Alloc(w.pinned, n); err != nil {
		return nil, err
	}
	return h, nil
}

// through sends page-locked memory through the kernel. It is from the pool if o is nil.
func (w *worker) through(ctx context.Context, n int, o *ferry.HostOptions) error {
	b, err := w.take(n, o)
	if err == nil {
		err = firstOf(
			func() error { return w.queue(b) },
			func() error { return b.stream.Wait(ctx) },
			func() error { return w.verify(b.host.Slice(), b.seed, 1) })
	}
	return errors.Join(err, b.all.close())
}

func (w *worker) pooled(ctx context.Context) error {
	return w.through(ctx, w.length(1<<14), nil)
}

func (w *worker) pageLocked(ctx context.Context) error {
	return w.through(ctx, w.length(1<<14), &ferry.HostOptions{Mapped: w.random.IntN(2) == 0})
}

func (w *worker) pageable(ctx context.Context) error { return w.slice(ctx, w.length(1<<14)) }

// largePageable uses sizes that are staged by several goroutines.
func (w *worker) largePageable(ctx context.Context) error {
	return w.slice(ctx, mostPageable/2+w.length(mostPageable/2))
}

// mostPageable is how many elements a slice of a task has at most.
const mostPageable = 1 << 19

// slice sends a slice through the kernel.
func (w *worker) slice(ctx context.Context, n int) error {
	x, seed := make([]float32, n), w.random.Uint64()
	write(x, seed)
	var all closeAll
	var err error
	s, failed := ferry.NewStream(w.g, nil)
	s = keep(&all, &err, s, failed)
	d, failed := ferry.Alloc[float32](w.g, n)
	d = keep(&all, &err, d, failed)
	if err == nil {
		err = firstOf(
			func() error { return ferry.Copy(s, d, ferry.Pageable(x)) },
			func() error { return w.increment(s, d) },
			func() error { clear(x); return ferry.CopyContext(ctx, s, ferry.Pageable(x), d) },
			func() error { return s.Wait(ctx) },
			func() error { return w.verify(x, seed, 1) })
	}
	return errors.Join(err, all.close())
}

// registered page-locks a slice and lets the GPU copy from and to it.
func (w *worker) registered(ctx context.Context) error {
	x := make([]float32, w.length(1<<14))
	b, err := w.take(len(x), nil)
	if err == nil {
		r, failed := ferry.Register(w.g, x, nil)
		r = keep(&b.all, &err, r, failed)
		if err == nil {
			err = firstOf(
				func() error { return ferry.Copy(b.stream, b.device, b.host) },
				func() error { return ferry.Copy(b.stream, r, b.device) },
				func() error { return b.stream.Wait(ctx) },
				func() error { return w.verify(x, b.seed, 0) })
		}
	}
	return errors.Join(err, b.all.close())
}

// errRead is the error of a reader that ends too early.
var errRead = errors.New("the reader fails")

// reader reads into the device and writes from it. Every second reader fails in its
// middle, and the error must be its own.
func (w *worker) reader(ctx context.Context) error {
	n := w.length(1 << 16)
	b, err := w.take(n, nil)
	if err != nil {
		return errors.Join(err, b.all.close())
	}
	text := make([]byte, 4*n)
	for i, v := range b.host.Slice() {
		binary.NativeEndian.PutUint32(text[4*i:], math.Float32bits(v))
	}
	if w.random.IntN(2) == 0 {
		_, err = ferry.CopyFrom(ctx, b.stream, b.device, io.MultiReader(bytes.NewReader(text[:2*n]), failing{}))
		if err = mustBe(err, errRead); err == nil {
			return b.all.close()
		}
		return errors.Join(err, b.all.close())
	}
	var out bytes.Buffer
	if _, err = ferry.CopyFrom(ctx, b.stream, b.device, bytes.NewReader(text)); err == nil {
		_, err = ferry.CopyTo(ctx, b.stream, &out, b.device)
	}
	if err == nil && !bytes.Equal(out.Bytes(), text) {
		err = fmt.Errorf("%d bytes were written, others than the %d read", out.Len(), len(text))
	}
	w.verified.Add(uint64(n))
	return errors.Join(err, b.all.close())
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errRead }

// mustBe returns an error unless err wraps want.
func mustBe(err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("error %w, want %w", err, want)
	}
	return nil
}

// pipeline sends a slice through a pipeline in chunks.
func (w *worker) pipeline(ctx context.Context) error {
	x, seed := make([]float32, 1+w.random.IntN(1<<16)), w.random.Uint64()
	write(x, seed)
	if err := w.pipe(ctx, x); err != nil {
		return err
	}
	return w.verify(x, seed, 1)
}

// pipe increments a slice in place.
func (w *worker) pipe(ctx context.Context, x []float32) error {
	p := pipeline.Pipeline{GPU: w.g, In: []pipeline.End{ferry.Pageable(x)}, Out: []pipeline.End{ferry.Pageable(x)}, InPlace: true, ChunkLen: 1 + len(x)/3, Pool: w.pinned}
	p.Step = func(s *ferry.Stream, c *pipeline.Chunk) error {
		return s.Launch(w.k, ferry.Cover(c.Len, 256), c.Out[0], uint64(c.Len))
	}
	_, err := p.Run(ctx)
	return errors.Join(err, p.Close())
}

// graph captures the work and launches it three times.
func (w *worker) graph(ctx context.Context) error {
	b, err := w.take(w.length(1<<12), nil)
	if err == nil {
		x, failed := b.stream.Capture(func(*ferry.Stream) error { return w.queue(b) })
		x = keep(&b.all, &err, x, failed)
		for range 3 {
			if err == nil {
				err = x.Launch(b.stream)
			}
		}
		if err = errors.Join(err, b.stream.Wait(ctx)); err == nil {
			err = w.verify(b.host.Slice(), b.seed, 3)
		}
	}
	return errors.Join(err, b.all.close())
}

// batch submits the work as a list, twice.
func (w *worker) batch(ctx context.Context) error {
	b, err := w.take(w.length(1<<12), nil)
	if err == nil {
		var list ferry.Batch
		err = firstOf(
			func() error { return ferry.Copy(&list, b.device, b.host) },
			func() error {
				return list.Launch(w.k, ferry.Cover(b.device.Len(), 256), b.device, uint64(b.device.Len()))
			},
			func() error { return ferry.Copy(&list, b.host, b.device) },
			func() error { return b.stream.Submit(&list) },
			func() error { return b.stream.Submit(&list) },
			func() error { return b.stream.Wait(ctx) },
			func() error { return w.verify(b.host.Slice(), b.seed, 2) })
	}
	return errors.Join(err, b.all.close())
}

// notified waits for a host function and a notification, with an event between two streams.
func (w *worker) notified(ctx context.Context) error {
	b, err := w.take(w.length(1<<12), nil)
	if err == nil {
		s, failed := ferry.NewStream(w.g, nil)
		s = keep(&b.all, &err, s, failed)
		e, failed := ferry.NewEvent(w.g, nil)
		e = keep(&b.all, &err, e, failed)
		called := make(chan struct{})
		var told <-chan struct{}
		err = errors.Join(err, firstOf(
			func() error { return w.queue(b) },
			func() error { return b.stream.Record(e) },
			func() error { return s.WaitEvent(e) },
			func() error { return s.HostFunc(func() { close(called) }) },
			func() (err error) { told, err = s.Notify(); return err }))
		if err == nil {
			<-told
			<-called
			err = w.verify(b.host.Slice(), b.seed, 1)
		}
	}
	return errors.Join(err, b.all.close())
}

// cancelled ends the context somewhere within the work. The error must be that of the
// context, or the data must be right.
func (w *worker) cancelled(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Duration(w.random.IntN(300))*time.Microsecond)
	defer stop()
	var err error
	switch w.random.IntN(4) {
	case 0:
		err = w.slice(ctx, w.length(1<<18))
	case 1:
		err = w.pipeline(ctx)
	case 2:
		var h *ferry.Host[float32]
		if h, err = ferry.AllocHostContext[float32](ctx, w.g, w.length(1<<14), nil); err == nil {
			err = h.Close()
		}
	default:
		err = w.pooled(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		w.run.cancelled.Add(1)
		return nil
	}
	return err
}

// closedInFlight closes buffers and stream while the work is queued.
func (w *worker) closedInFlight(context.Context) error {
	b, err := w.take(w.length(1<<14), nil)
	if err == nil {
		err = w.queue(b)
	}
	return errors.Join(err, b.all.close())
}

// wrong makes calls that must be refused, each with the right error.
func (w *worker) wrong(ctx context.Context) error {
	b, err := w.take(2+w.length(1<<10), nil)
	if err != nil {
		return errors.Join(err, b.all.close())
	}
	n := b.host.Len()
	switch w.random.IntN(4) {
	case 0:
		err = mustBe(ferry.Copy(b.stream, b.device.Range(0, n-1), b.host), cu.ErrorInvalidValue)
	case 1:
		err = mustBe(b.stream.Launch(w.k, ferry.Cover(n, 256), b.device), cu.ErrorInvalidValue)
	case 2:
		d, failed := ferry.Alloc[float32](w.g, n)
		if err = failed; err == nil {
			err = errors.Join(d.Close(), mustBe(ferry.Copy(b.stream, d, b.host), ferry.ErrClosed))
		}
	default:
		_, failed := ferry.Alloc[float32](w.g, 1<<50)
		err = mustBe(failed, cu.ErrorOutOfMemory)
	}
	return errors.Join(err, b.all.close())
}
