package pipeline

import (
	"context"
	"fmt"
	"io"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// Chunk is the part of a pipeline's data that Step is called for.
type Chunk struct {
	Index int // of the chunk, from 0
	First int // the number of its first element
	Len   int // elements
	// In and Out are memory that kernels can use, in bytes. It is aligned as memory of
	// [ferry.Alloc] if the lengths of chunks are multiples of 256 elements, as those are
	// that Ferry chooses. Where kernels use an end's own memory, that is a Device or,
	// with Once, mapped memory, these are ranges of it.
	In, Out []*ferry.Device[byte]
}

// inflightChunk has the memory, the streams and the events of one chunk in flight. With a
// depth of n, number i serves the chunks i, i+n, i+2n and so on, one after the other.
type inflightChunk struct {
	run           *run
	number        int
	in, step, out *ferry.Stream
	ready         *ferry.Event // the chunk is copied in
	computed      *ferry.Event
	done          *ferry.Event // the chunk is copied out
	ins, outs     []endpointBuffer
	chunk         Chunk
	abandoned     <-chan error  // receives the error of an abandoned read or write when it ends
	hostClosed    chan struct{} // closed after that when its memory was freed

	// For the goroutine of a staged run:
	full      chan bool // whether the chunk can be queued; closed when there will be no more
	copiedOut chan bool // whether the chunk is copied out; closed when there will be no more
}

// newInflightChunk takes memory and events for a chunk. After an error, close what it
// returns. The events do not let threads sleep (Blocking): with that, queueing took twice
// as long.
func newInflightChunk(ctx context.Context, r *run, number int, j *job) (c *inflightChunk, err error) {
	c = &inflightChunk{run: r, number: number, in: r.streams[0], step: r.stepStream(number), out: r.streams[1],
		ins: make([]endpointBuffer, len(j.in)), outs: make([]endpointBuffer, len(j.out))}
	for _, e := range []**ferry.Event{&c.ready, &c.computed, &c.done} {
		if *e, err = ferry.NewEvent(j.GPU, &ferry.EventOptions{NoTiming: true}); err != nil {
			return c, err
		}
	}
	for i := range c.outs {
		b := &c.outs[i]
		if err = b.alloc(ctx, j, &j.out[i], !j.direct(j.out, i)); err != nil {
			return c, fmt.Errorf("output %d: %w", i, err)
		}
		c.chunk.Out = append(c.chunk.Out, &b.view)
	}
	for i := range c.ins {
		b := &c.ins[i]
		if err = b.alloc(ctx, j, &j.in[i], !j.shares(i) && !j.direct(j.in, i)); err != nil {
			return c, fmt.Errorf("input %d: %w", i, err)
		}
		c.chunk.In = append(c.chunk.In, &b.view)
	}
	return c, nil
}

// close frees the memory and the events. Page-locked memory that a read or write still
// uses is freed when that returns.
func (c *inflightChunk) close() error {
	var all []error
	for _, e := range []*ferry.Event{c.ready, c.computed, c.done} {
		all = append(all, e.Close())
	}
	for b := range c.buffers {
		all = append(all, b.own.Close())
	}
	if c.abandoned != nil {
		if c.hostClosed == nil {
			c.hostClosed = make(chan struct{})
			go func() {
				<-c.abandoned
				_ = c.closeHost()
				close(c.hostClosed)
			}()
		}
		select {
		case <-c.hostClosed: // perhaps not all of it
		default:
			return refusal.Join(all...)
		}
	}
	return refusal.Join(append(all, c.closeHost())...)
}

func (c *inflightChunk) closeHost() error {
	var all []error
	for b := range c.buffers {
		all = append(all, b.host.Close())
	}
	return refusal.Join(all...)
}

// buffers yields the memory of all inputs and outputs.
func (c *inflightChunk) buffers(yield func(b *endpointBuffer) bool) {
	for _, buffers := range [][]endpointBuffer{c.ins, c.outs} {
		for i := range buffers {
			if !yield(&buffers[i]) {
				return
			}
		}
	}
}

// serve runs on the goroutine of a chunk of a staged run. It brings each chunk from the inputs to the
// outputs, with the goroutine that queues chunks. within ends when a chunk has failed.
func (c *inflightChunk) serve(ctx, within context.Context) {
	r, i := c.run, c.number
	defer close(c.full)
	for k := i; ; k += len(r.chunks) {
		ok := r.assigning.wait(i) && c.assign(k)
		more := ok && c.readOrdered(within)
		if ok = ok && c.chunk.Len > 0 && c.takeOutputs(within); ok {
			c.startCopies()
		}
		r.assigning.pass(i, more)
		c.full <- ok && c.fill(ctx)
		ok = <-c.copiedOut
		if r.emulated {
			r.awaiting.wait(i)
			ok = ok && c.await()
			r.awaiting.pass(i, true)
		}
		ok = ok && c.empty(ctx)
		ok = r.finishing.wait(i) && ok && c.finish(ctx)
		r.finishing.pass(i, ok)
		if !ok {
			return
		}
	}
}

// assign makes this chunk number k, which has the next elements. It returns false after
// the last chunk.
func (c *inflightChunk) assign(k int) bool {
	r := c.run
	c.chunk.Index, c.chunk.First, c.chunk.Len = k, r.next, r.job.length(r.next)
	r.next += c.chunk.Len
	return c.chunk.Len > 0
}

// fail records that the chunk has failed. It returns false.
func (c *inflightChunk) fail(what string, err error) bool {
	c.run.fail(&c.chunk, what, err)
	return false
}

// call calls a reader or a writer, and abandons the call when ctx ends. f must not use the
// chunk's fields, because it may still run after call has returned.
func (c *inflightChunk) call(ctx context.Context, f func() error) error {
	abandoned, err := staging.Call(ctx, f)
	if abandoned != nil {
		c.abandoned = abandoned
	}
	return err
}

// readOrdered reads the inputs that must be read in order. It reports whether another
// chunk may follow. If only readers know how many elements there are, a chunk that is not
// full is the last one, and it may be empty.
func (c *inflightChunk) readOrdered(ctx context.Context) bool {
	j, chunk := c.run.job, &c.chunk
	asked, first := chunk.Len, true
	for i := range j.in {
		p := &j.in[i]
		if !p.ordered() {
			continue
		}
		n, at, memory := 0, chunk.First, c.ins[i].hostBytes(p, asked)
		err := c.call(ctx, func() (err error) {
			n, err = p.fetch(memory, at)
			return err
		})
		switch {
		case err != nil:
		case j.total != endless && n < asked:
			err = fmt.Errorf("it ended after %d elements of %d: %w", chunk.First+n, j.total, io.ErrUnexpectedEOF)
		case !first && n != chunk.Len:
			err = fmt.Errorf("it has %d elements where an input before it has %d: %w", chunk.First+n, chunk.First+chunk.Len, io.ErrUnexpectedEOF)
		}
		if err != nil {
			c.fail(fmt.Sprintf("read input %d", i), err)
			chunk.Len = 0
			return false
		}
		chunk.Len, first = n, false
	}
	return chunk.Len == asked
}

// startCopies has the worker pool copy pageable inputs to the page-locked memory.
func (c *inflightChunk) startCopies() {
	for i := range c.ins {
		if p := &c.run.job.in[i]; p.isMemory && p.staged() {
			c.ins[i].startCopy(c.run, p, &c.chunk, true)
		}
	}
}

// fill waits for the copies of pageable inputs, and reads the inputs that can be read in
// any order.
func (c *inflightChunk) fill(ctx context.Context) bool {
	for i := range c.ins {
		p, b := &c.run.job.in[i], &c.ins[i]
		var err error
		switch {
		case !p.staged() || p.ordered():
		case p.isMemory:
			err = b.task.Wait()
		default:
			at, memory := c.chunk.First, b.hostBytes(p, c.chunk.Len)
			err = c.call(ctx, func() error { _, err := p.fetch(memory, at); return err })
		}
		if err != nil {
			return c.fail(fmt.Sprintf("read input %d", i), err)
		}
	}
	return true
}

// empty copies or writes the outputs that need no order.
func (c *inflightChunk) empty(ctx context.Context) bool {
	for i := range c.outs {
		p, b := &c.run.job.out[i], &c.outs[i]
		var err error
		switch {
		case !p.staged() || p.ordered():
		case p.isMemory:
			b.startCopy(c.run, p, &c.chunk, false)
			err = b.task.Wait()
		default:
			err = c.write(ctx, p, b)
		}
		if err != nil {
			return c.fail(fmt.Sprintf("write output %d", i), err)
		}
	}
	return true
}

// write writes the chunk of one output.
func (c *inflightChunk) write(ctx context.Context, p *endpoint, b *endpointBuffer) error {
	at, memory := b.at, b.hostBytes(p, c.chunk.Len)
	return c.call(ctx, func() error { return p.store(memory, at) })
}

// finish writes the outputs that must be written in order, and counts the chunk as done.
func (c *inflightChunk) finish(ctx context.Context) bool {
	for i := range c.outs {
		p := &c.run.job.out[i]
		if !p.ordered() {
			continue
		}
		if err := c.write(ctx, p, &c.outs[i]); err != nil {
			return c.fail(fmt.Sprintf("write output %d", i), err)
		}
	}
	return c.run.progress.finished(&c.chunk)
}

// submit queues the chunk: the copies in, what Step queues, the copies out.
func (c *inflightChunk) submit(ctx context.Context) bool {
	if err := ctx.Err(); err != nil {
		return c.fail("queue", err)
	}
	returned := false
	defer func() {
		if !returned { // Step panicked, or ended the goroutine
			c.drain()
		}
	}()
	c.place()
	what, err := "copy in", c.queueCopiesIn()
	if err == nil {
		what, err = "Step", c.run.job.Step(c.step, &c.chunk)
	}
	if err == nil {
		what, err = "copy out", c.queueCopiesOut()
	}
	returned = true
	c.run.progress.queued.Add(1)
	if err != nil {
		c.drain()
		return c.fail(what, err)
	}
	return true
}

// place sets the memory that Step sees, and that the engines copy.
func (c *inflightChunk) place() {
	j := c.run.job
	for i := range c.outs {
		c.outs[i].place(&j.out[i], &c.chunk)
	}
	for i := range c.ins {
		c.ins[i].place(&j.in[i], &c.chunk)
		if j.shares(i) {
			c.ins[i].share(&j.in[i], &j.out[i], &c.outs[i])
		}
	}
}

// queueCopiesIn queues the copies in, and has the kernels wait for them.
func (c *inflightChunk) queueCopiesIn() error {
	queued := false
	for i := range c.ins {
		if b := &c.ins[i]; b.apart {
			if err := ferry.Copy(c.in, &b.view, &b.end); err != nil {
				return fmt.Errorf("input %d: %w", i, err)
			}
			queued = true
		}
	}
	if !queued {
		return nil
	}
	if err := c.in.Record(c.ready); err != nil {
		return err
	}
	return c.step.WaitEvent(c.ready)
}

// queueCopiesOut has the copies out wait for the kernels, and records their end.
func (c *inflightChunk) queueCopiesOut() error {
	if err := c.step.Record(c.computed); err != nil {
		return err
	}
	if err := c.out.WaitEvent(c.computed); err != nil {
		return err
	}
	for i := range c.outs {
		if b := &c.outs[i]; b.apart {
			if err := ferry.Copy(c.out, &b.end, &b.view); err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
		}
	}
	return c.out.Record(c.done)
}

// await waits until the chunk is copied out.
func (c *inflightChunk) await() bool {
	if err := c.done.Wait(context.Background()); err != nil {
		return c.fail("wait", err)
	}
	return true
}

// complete waits until the chunk is copied out, and finishes it.
func (c *inflightChunk) complete(ctx context.Context) bool { return c.await() && c.finish(ctx) }

// computes reports whether the chunk is copied in and its kernels are not done.
func (c *inflightChunk) computes() bool {
	in, err := c.ready.Done()
	if !in || err != nil {
		return false
	}
	computed, err := c.computed.Done()
	return !computed && err == nil
}

// drain waits for what was queued for a chunk of which not everything could be queued.
// Its errors are ignored, because the chunk has failed before.
func (c *inflightChunk) drain() {
	for _, s := range []*ferry.Stream{c.in, c.step, c.out} {
		_ = s.Wait(context.Background())
	}
}
