package advise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
)

// lab runs ways on one device.
type lab struct {
	g          *ferry.GPU
	kernels    map[string]*ferry.Kernel
	processors int
	clock      int // of the multiprocessors, kHz
	sink       *ferry.Device[float32]
	stream     *ferry.Stream
	scratch    *ferry.Host[float32]
	round      float32 // the input of the last step
	touched    float32 // keeps the compiler from removing reads of memory
	undo       []func() error
}

// scratchBytes is more than the caches have from which devices read slowly: those of one
// core, and those of all cores.
const (
	scratchBytes    = 4 * oneCore
	allScratchBytes = 64 << 20
)

// warmRounds is how many small steps come before a measured one.
const warmRounds = 4

// newLab prepares a device.
func newLab(g *ferry.GPU) (l *lab, err error) {
	l = &lab{g: g}
	if err = l.load(); err == nil {
		l.sink, err = keep(l, func() (*ferry.Device[float32], error) { return ferry.Alloc[float32](g, 64) })
	}
	if err == nil {
		l.stream, err = keep(l, func() (*ferry.Stream, error) { return ferry.NewStream(g, nil) })
	}
	if err == nil {
		bytes := allScratchBytes
		if g.Emulated() {
			bytes = scratchBytes
		}
		l.scratch, err = l.pinned(bytes, nil)
	}
	if err != nil {
		return nil, errors.Join(err, l.close(0))
	}
	return l, nil
}

// keep lets close call f.
func (l *lab) keep(f func() error) { l.undo = append(l.undo, f) }

// close calls the functions of undo from the index since on, the newest first.
func (l *lab) close(since int) (err error) {
	for _, f := range slices.Backward(l.undo[since:]) {
		err = errors.Join(err, f())
	}
	l.undo = l.undo[:since]
	return err
}

// trial is a way that is ready to run.
type trial struct {
	l      *lab
	j      *Job
	w      way
	host   *host
	submit func(context.Context) error
	wait   func(context.Context) error
	began  time.Duration // the last step, of the first trial
	reads  time.Duration // of the last step: how long the CPU read results
	shadow *ferry.Host[float32]
	turn   *ferry.Event // of the last kernel of a pipeline
	close  func() error
}

// trial prepares a way.
func (l *lab) trial(w way, j *Job) (t *trial, err error) {
	since := len(l.undo)
	t = &trial{l: l, j: j, w: w, close: func() error { return l.close(since) }}
	if t.host, err = l.memory(w, j); err == nil {
		err = t.build()
	}
	if err == nil && j.HostReads && l.g.Emulated() && (w.onHeap() || w.kind == Managed) {
		t.shadow, err = l.pinned(j.Out, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", w, errors.Join(err, t.close()))
	}
	return t, nil
}

// build sets submit and wait.
func (t *trial) build() error {
	t.wait = t.l.stream.Wait
	switch t.w.path {
	case Staged:
		return t.buildStaged()
	case Pipelined:
		return t.buildPipeline()
	case OnDemand:
		t.submit = func(context.Context) error { return t.l.launch(t.l.stream, t.host.in, t.host.out, t.j) }
		return nil
	case Prefetched:
		t.submit = t.prefetched
		return nil
	}
	on, err := t.device()
	if err != nil {
		return err
	}
	t.submit = func(context.Context) error { return t.copied(t.host, on) }
	if t.w.path == EachTime {
		t.submit = func(ctx context.Context) error { return t.eachTime(ctx, on) }
	}
	return nil
}

// ends are the two ends of the kernel.
type ends struct{ in, out ferry.Memory[float32] }

// device allocates device memory for what the kernel does not use in place.
func (t *trial) device() (e ends, err error) {
	e = ends{t.host.in, t.host.out}
	alloc := func(m *ferry.Memory[float32]) error {
		d, err := keep(t.l, func() (*ferry.Device[float32], error) { return ferry.Alloc[float32](t.l.g, (*m).Len()) })
		*m = d
		return err
	}
	if !t.w.inPlace() {
		err = alloc(&e.in)
	}
	if err == nil && !t.w.outPlace() {
		err = alloc(&e.out)
	}
	return e, err
}

// copied submits copies where the kernel does not use host memory, and the kernel.
func (t *trial) copied(h *host, on ends) error {
	s := t.l.stream
	if on.in != h.in && h.in.Len() > 0 {
		if err := ferry.Copy(s, on.in, h.in); err != nil {
			return err
		}
	}
	if err := t.l.launch(s, on.in, on.out, t.j); err != nil {
		return err
	}
	if on.out != h.out && h.out.Len() > 0 {
		return ferry.Copy(s, h.out, on.out)
	}
	return nil
}

// eachTime registers the memory, submits, waits and ends the registrations.
func (t *trial) eachTime(ctx context.Context, on ends) error {
	in, err := ferry.Register(t.l.g, t.host.write(), nil)
	if err != nil {
		return err
	}
	out, err := ferry.Register(t.l.g, t.host.read(), nil)
	if err == nil {
		err = t.copied(&host{in: in, out: out}, on)
	}
	if err == nil {
		err = t.l.stream.Wait(ctx)
	}
	return errors.Join(err, in.Close(), out.Close())
}

// prefetched moves managed memory, runs the kernel and moves the results back.
func (t *trial) prefetched(context.Context) error {
	s, to := t.l.stream, t.l.g.CUDevice()
	in, out := t.host.in.(*ferry.Managed[float32]), t.host.out.(*ferry.Managed[float32])
	for _, m := range []*ferry.Managed[float32]{in, out} {
		if m.Len() == 0 {
			continue
		}
		if err := m.Prefetch(s, to); err != nil {
			return err
		}
	}
	if err := t.l.launch(s, in, out, t.j); err != nil || out.Len() == 0 {
		return err
	}
	return out.Prefetch(s, cu.CPUDevice)
}

// buildPipeline prepares chunks over several streams.
func (t *trial) buildPipeline() error {
	on, err := t.device()
	if err != nil {
		return err
	}
	streams := make([]*ferry.Stream, t.w.streams)
	for i := range streams {
		if streams[i], err = keep(t.l, func() (*ferry.Stream, error) { return ferry.NewStream(t.l.g, nil) }); err != nil {
			return err
		}
	}
	t.turn, err = keep(t.l, func() (*ferry.Event, error) { return ferry.NewEvent(t.l.g, &ferry.EventOptions{NoTiming: true}) })
	if err != nil {
		return err
	}
	t.submit = func(context.Context) error {
		for i := range t.w.parts {
			if err := t.chunk(streams[i%len(streams)], on, i); err != nil {
				return err
			}
		}
		return nil
	}
	t.wait = func(ctx context.Context) (err error) {
		for _, s := range streams {
			err = errors.Join(err, s.Wait(ctx))
		}
		return err
	}
	return nil
}

// chunk submits chunk i of a pipeline.
func (t *trial) chunk(s *ferry.Stream, on ends, i int) error {
	part := t.j.part(i, t.w.parts)
	first, end := t.j.bounds(t.j.In, i, t.w.parts)
	in := on.in.(*ferry.Device[float32]).Range(first, end)
	if first < end {
		if err := ferry.Copy(s, in, t.host.in.(*ferry.Host[float32]).Range(first, end)); err != nil {
			return err
		}
	}
	first, end = t.j.bounds(t.j.Out, i, t.w.parts)
	out := on.out.(*ferry.Device[float32]).Range(first, end)
	if err := t.inTurn(s, i, func() error { return t.l.launch(s, in, out, &part) }); err != nil || first == end {
		return err
	}
	return ferry.Copy(s, t.host.out.(*ferry.Host[float32]).Range(first, end), out)
}

// inTurn launches the kernel of chunk i. Kernels that only wait for a time could run at
// once. If they stand for kernels that keep the device busy, each waits for the one before.
func (t *trial) inTurn(s *ferry.Stream, i int, launch func() error) error {
	if t.j.Kernel == 0 && t.j.delay == 0 || !t.l.fills(t.j) {
		return launch()
	}
	if i > 0 {
		if err := s.WaitEvent(t.turn); err != nil {
			return err
		}
	}
	if err := launch(); err != nil {
		return err
	}
	return s.Record(t.turn)
}

// buildStaged prepares package pipeline on pageable memory.
func (t *trial) buildStaged() error {
	p := &pipeline.Pipeline{GPU: t.l.g}
	if t.j.In > 0 {
		p.In = []pipeline.End{t.host.in}
	}
	if t.j.Out > 0 {
		p.Out = []pipeline.End{t.host.out}
	}
	all := max(t.j.In, t.j.Out) / 4
	p.Step = func(s *ferry.Stream, c *pipeline.Chunk) error {
		part := *t.j
		part.Kernel = time.Duration(float64(part.Kernel) * float64(c.Len) / float64(all))
		var in, out any
		inLen, outLen := 0, 0
		if len(c.In) > 0 {
			in, inLen = c.In[0], c.Len
		}
		if len(c.Out) > 0 {
			out, outLen = c.Out[0], c.Len
		}
		return t.l.launchOn(s, in, inLen, out, outLen, &part)
	}
	t.l.keep(p.Close)
	t.submit = func(ctx context.Context) error { _, err := p.Run(ctx); return err }
	t.wait = func(context.Context) error { return nil }
	return nil
}

// run makes a step on new data, divided among trials of the same way on different devices,
// and returns its time. Before it returns, it checks the results.
func run(ctx context.Context, trials []*trial) (took time.Duration, err error) {
	for _, t := range trials {
		if err := t.begin(ctx); err != nil {
			return 0, fmt.Errorf("%v: %w", t.w, err)
		}
	}
	g := trials[0].l.g
	began := g.Now()
	for _, do := range []func(*trial) error{func(t *trial) error { return t.submit(ctx) }, func(t *trial) error { return t.end(ctx) }} {
		for _, t := range trials {
			if err := do(t); err != nil {
				return 0, fmt.Errorf("%v: %w", t.w, err)
			}
		}
	}
	took = g.Now() - began
	trials[0].began = began
	for _, t := range trials {
		err = errors.Join(err, t.check())
	}
	return took, err
}

// begin writes new input, and then other memory, so that the input has left the caches
// from which devices read slowly. On hardware small steps follow: they bring the driver's
// code and data back into the caches, which a program that makes step after step has there.
func (t *trial) begin(ctx context.Context) error {
	t.l.round++
	in := t.host.write()
	fill(in, t.l.round)
	other := t.l.scratch.Slice() // for a software GPU that is the write
	if t.l.g.Emulated() {
		return nil
	}
	if len(in) <= oneCore {
		other = other[:scratchBytes/4]
	}
	fill(other, t.l.round)
	return t.l.warm(ctx)
}

// warm makes small steps: copy in, kernel, copy out.
func (l *lab) warm(ctx context.Context) error {
	small := l.scratch.Range(0, l.sink.Len())
	for range warmRounds {
		err := ferry.Copy(l.stream, l.sink, small)
		if err == nil {
			err = l.launch(l.stream, l.sink, l.sink, &Job{Reuse: 1, Access: Access{Kind: Stream}})
		}
		if err == nil {
			err = ferry.Copy(l.stream, small, l.sink)
		}
		if err == nil {
			err = l.stream.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// end waits for the step, and reads the results if the job wants that. Results in managed
// memory are read at least once a page: they move then. A software GPU counts no time for
// reads of pageable memory, and of managed memory that is here, so page-locked memory is
// read in its place.
func (t *trial) end(ctx context.Context) error {
	if err := t.wait(ctx); err != nil {
		return err
	}
	began := t.l.g.Now()
	if t.w.kind == Managed || t.j.HostReads && t.shadow == nil {
		t.l.touched += touch(t.host.read(), t.j.HostReads)
	}
	if t.shadow != nil {
		t.shadow.ReadSlice()
	}
	t.reads = t.l.g.Now() - began
	return nil
}

// check returns an error if results are wrong. It looks at some words of the
// first chunk.
func (t *trial) check() error {
	out := t.host.read()
	if t.j.In == 0 || t.j.delay > 0 {
		return nil
	}
	want := t.l.round + 1
	first := t.j.part(0, max(1, t.w.parts)) // only these words come from a word that was read
	for i := 0; i < min(len(out), first.reads()); i += 1 + min(wordsPerPage, len(out)/7) {
		if out[i] != want {
			return fmt.Errorf("%v: result %d is %v, want %v", t.w, i, out[i], want)
		}
	}
	return nil
}

// reads returns how many reads a pass makes; for a table, those of all blocks are one.
func (j *Job) reads() int {
	if j.Access.Kind == Stride {
		return (j.In/4 + j.Access.Number - 1) / j.Access.Number
	}
	return j.In / 4
}
