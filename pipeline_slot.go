package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// slot has the memory of one chunk under way, and serves every chunk whose number is
// its own modulo the depth.
type slot struct {
	l             *line
	number        int
	in, step, out *Stream
	ready         *Event // the chunk has come in
	computed      *Event
	done          *Event // it has gone out
	ins, outs     []cell
	chunk         Chunk
	left          <-chan error // a read or write that was left behind

	// Of a run with goroutines:
	full chan bool // whether the chunk can be queued; closed when no more will come
	gone chan bool // whether it has gone out; closed when no more will
}

// cell is the memory of one end in a slot.
type cell struct {
	own  *Device[byte] // nil where kernels use other memory
	host *Host[byte]   // nil where the engines reach the end itself
	view Device[byte]  // what Step sees: a part of own, or of the end
	end  region        // what the engines copy from or to
	haul haul          // between host and the end
}

// make takes memory, streams and events. With events that let a thread sleep (Blocking)
// queueing took twice as long.
func (s *slot) make(ctx context.Context, j *job) (err error) {
	s.in, s.step, s.out = s.l.streams[0], s.l.stepStream(s.number), s.l.streams[1]
	s.ins, s.outs = make([]cell, len(j.in)), make([]cell, len(j.out))
	for _, e := range []**Event{&s.ready, &s.computed, &s.done} {
		if *e, err = j.GPU.NewEvent(&EventOptions{NoTiming: true}); err != nil {
			return err
		}
	}
	for i := range s.outs {
		c := &s.outs[i]
		if err = c.make(ctx, j, &j.out[i], !j.direct(j.out, i)); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
		s.chunk.Out = append(s.chunk.Out, &c.view)
	}
	for i := range s.ins {
		c := &s.ins[i]
		shared := j.InPlace && i < len(s.outs)
		if err = c.make(ctx, j, &j.in[i], !shared && !j.direct(j.in, i)); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		s.chunk.In = append(s.chunk.In, &c.view)
	}
	return nil
}

func (c *cell) make(ctx context.Context, j *job, p *port, own bool) (err error) {
	n := j.chunk * int(p.size)
	if own {
		if c.own, err = Alloc[byte](j.GPU, n); err != nil {
			return err
		}
	}
	if p.staged() {
		c.host, err = AllocHostContext[byte](ctx, j.GPU, n, &HostOptions{Pool: j.Pool})
	}
	return err
}

// close frees what the slot has.
func (s *slot) close() error {
	var all []error
	for _, e := range []*Event{s.ready, s.computed, s.done} {
		all = append(all, e.Close())
	}
	for _, cells := range [][]cell{s.ins, s.outs} {
		for i := range cells {
			all = append(all, cells[i].own.Close())
		}
	}
	if left := s.left; left != nil {
		go func() {
			<-left
			_ = s.closeHost()
		}()
		return errors.Join(all...)
	}
	return errors.Join(append(all, s.closeHost())...)
}

func (s *slot) closeHost() error {
	var all []error
	for _, cells := range [][]cell{s.ins, s.outs} {
		for i := range cells {
			all = append(all, cells[i].host.Close())
		}
	}
	return errors.Join(all...)
}

// serve brings every chunk of the slot from one end to the other.
func (s *slot) serve(ctx, within context.Context) {
	l, i := s.l, s.number
	defer close(s.full)
	for k := i; ; k += len(l.slots) {
		on := l.cut.take(i) && s.cut(k)
		more := on && s.receive(within)
		if on = on && s.chunk.Len > 0; on {
			s.load()
		}
		l.cut.pass(i, more)
		s.full <- on && s.fill(ctx)
		on = <-s.gone
		if l.g.emulated != nil {
			l.await.take(i)
			on = on && s.await()
			l.await.pass(i, true)
		}
		on = on && s.empty(ctx)
		on = l.finish.take(i) && on && s.send(ctx)
		l.finish.pass(i, on)
		if !on {
			return
		}
	}
}

// cut makes the slot's chunk the one of number k, and the next. It is false after the last.
func (s *slot) cut(k int) bool {
	c, l := &s.chunk, s.l
	c.Index, c.First, c.Len = k, l.next, l.job.length(l.next)
	l.next += c.Len
	return c.Len > 0
}

// fail notes that the chunk went wrong.
func (s *slot) fail(what string, err error) bool {
	s.l.fail(&s.chunk, what, err)
	return false
}

// endPanic is what a reader or a writer panicked with, on its way to the goroutine
// that called Run.
type endPanic struct{ value any }

func (e *endPanic) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// errGoexit is of a reader or a writer that neither returned nor panicked.
var errGoexit = errors.New("it ended its goroutine (runtime.Goexit)")

// caught is what f returns, or how else it ended.
func caught(f func() error, done chan<- error) {
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &endPanic{v}
		}
		done <- err
	}()
	err = f()
}

// blocking calls a reader or a writer until ctx ends. It is then left behind.
func (s *slot) blocking(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go caught(f, done)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		s.left = done
		return ctx.Err()
	}
}

// receive reads what must be read in order. It says whether another chunk may follow:
// one that is not full is the last, if only readers know the end, and may be empty.
func (s *slot) receive(ctx context.Context) bool {
	j, c := s.l.job, &s.chunk
	asked, first := c.Len, true
	for i := range j.in {
		p := &j.in[i]
		if !p.ordered() {
			continue
		}
		n := 0
		err := s.blocking(ctx, func() (err error) {
			n, err = p.fetch(s.ins[i].bytes(asked, p), c.First)
			return err
		})
		switch {
		case err != nil:
		case j.total != endless && n < asked:
			err = fmt.Errorf("it ended after %d elements of %d: %w", c.First+n, j.total, io.ErrUnexpectedEOF)
		case !first && n != c.Len:
			err = fmt.Errorf("it has %d elements where an input before it has %d: %w", c.First+n, c.First+c.Len, io.ErrUnexpectedEOF)
		}
		if err != nil {
			s.fail(fmt.Sprintf("read input %d", i), err)
			c.Len = 0
			return false
		}
		c.Len, first = n, false
	}
	return c.Len == asked
}

// load has the crew begin with what is in plain memory, for the chunk that is first.
func (s *slot) load() {
	c := &s.chunk
	for i := range s.ins {
		if p, b := &s.l.job.in[i], s.ins[i].bytes(c.Len, &s.l.job.in[i]); p.staged() && p.r != nil {
			s.ins[i].haulage(p, c, b, true).start(s.l.crew)
		}
	}
}

// fill brings what need not be read in order to the page-locked chunk.
func (s *slot) fill(ctx context.Context) bool {
	c := &s.chunk
	for i := range s.ins {
		p, b := &s.l.job.in[i], s.ins[i].bytes(c.Len, &s.l.job.in[i])
		switch {
		case !p.staged() || p.ordered():
		case p.r != nil:
			if err := s.ins[i].haul.wait(); err != nil {
				return s.fail(fmt.Sprintf("read input %d", i), err)
			}
		default:
			if err := s.blocking(ctx, func() error { _, err := p.fetch(b, c.First); return err }); err != nil {
				return s.fail(fmt.Sprintf("read input %d", i), err)
			}
		}
	}
	return true
}

// empty brings what has come out to where no order is needed.
func (s *slot) empty(ctx context.Context) bool {
	c := &s.chunk
	for i := range s.outs {
		p, b := &s.l.job.out[i], s.outs[i].bytes(c.Len, &s.l.job.out[i])
		switch {
		case !p.staged() || p.ordered():
		case p.r != nil:
			h := s.outs[i].haulage(p, c, b, false)
			h.start(s.l.crew)
			if err := h.wait(); err != nil {
				return s.fail(fmt.Sprintf("write output %d", i), err)
			}
		default:
			if err := s.blocking(ctx, func() error { return p.store(b, c.First) }); err != nil {
				return s.fail(fmt.Sprintf("write output %d", i), err)
			}
		}
	}
	return true
}

// send writes what must be written in order, and counts the chunk as done.
func (s *slot) send(ctx context.Context) bool {
	l, c := s.l, &s.chunk
	for i := range s.outs {
		p, b := &l.job.out[i], s.outs[i].bytes(c.Len, &l.job.out[i])
		if !p.staged() || !p.ordered() {
			continue
		}
		if err := s.blocking(ctx, func() error { return p.store(b, c.First) }); err != nil {
			return s.fail(fmt.Sprintf("write output %d", i), err)
		}
	}
	return l.count(c)
}

// bytes is the page-locked memory of n elements; nil without any.
func (c *cell) bytes(n int, p *port) []byte {
	if c.host == nil {
		return nil
	}
	return bytesAt(c.host.host, uintptr(n)*p.size)
}

// haulage is the copy between a chunk and its part of plain memory.
func (x *cell) haulage(p *port, c *Chunk, b []byte, in bool) *haul {
	h := &x.haul
	h.memory, h.chunk, h.off, h.in = bytesAt(p.r.host, p.r.bytes), b, c.First*int(p.size), in
	return h
}

// part is a chunk's part of memory, in bytes.
func (p *port) part(c *Chunk) region {
	return piecewise(p.r, uintptr(c.First)*p.size, uintptr(c.Len)*p.size)
}

// piecewise is n bytes of a region, as elements of one byte.
func piecewise(r *region, off, n uintptr) region {
	out := r.cut(off, n)
	out.n, out.part = int(n), true
	return out
}
