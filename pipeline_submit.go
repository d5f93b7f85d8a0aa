package ferry

import (
	"context"
	"errors"
	"fmt"
)

// submit queues the slot's chunk: in, what Step queues, out.
func (s *slot) submit(ctx context.Context) bool {
	if err := ctx.Err(); err != nil {
		return s.fail("queue", err)
	}
	returned := false
	defer func() {
		if !returned { // Step panicked
			s.quiet()
		}
	}()
	s.look()
	what, err := "copy in", s.comeIn()
	if err == nil {
		what, err = "Step", s.l.job.Step(s.step, &s.chunk)
	}
	if err == nil {
		what, err = "copy out", s.goOut()
	}
	returned = true
	s.l.queued.Add(1)
	if err != nil {
		s.quiet()
		return s.fail(what, err)
	}
	return true
}

// look sets what Step sees, and what the engines copy.
func (s *slot) look() {
	j, c := s.l.job, &s.chunk
	for i := range s.outs {
		s.outs[i].look(&j.out[i], c)
	}
	for i := range s.ins {
		s.ins[i].look(&j.in[i], c)
		if j.InPlace && i < len(s.outs) {
			s.ins[i].view = s.outs[i].view
		}
	}
}

func (x *cell) look(p *port, c *Chunk) {
	n := uintptr(c.Len) * p.size
	switch {
	case x.host != nil:
		x.end = piecewise(&x.host.region, 0, n)
	default:
		x.end = p.part(c)
	}
	x.view.region = x.end
	if x.own != nil {
		x.view.region = piecewise(&x.own.region, 0, n)
	}
}

// apart says that the end's data is not where kernels see it.
func (x *cell) apart() bool {
	return x.view.a != x.end.a || x.view.place() != x.end.place()
}

// comeIn queues the copies in, and has the kernels wait for them.
func (s *slot) comeIn() error {
	moved := false
	for i := range s.ins {
		if x := &s.ins[i]; x.apart() {
			if err := s.in.copy(&x.view.region, &x.end); err != nil {
				return fmt.Errorf("input %d: %w", i, err)
			}
			moved = true
		}
	}
	if !moved {
		return nil
	}
	return errors.Join(s.in.Record(s.ready), s.step.WaitEvent(s.ready))
}

// goOut has the copies out wait for the kernels, and marks their end.
func (s *slot) goOut() error {
	if err := errors.Join(s.step.Record(s.computed), s.out.WaitEvent(s.computed)); err != nil {
		return err
	}
	for i := range s.outs {
		if x := &s.outs[i]; x.apart() {
			if err := s.out.copy(&x.end, &x.view.region); err != nil {
				return fmt.Errorf("output %d: %w", i, err)
			}
		}
	}
	return s.out.Record(s.done)
}

// await waits until the chunk has gone out.
func (s *slot) await() bool {
	if err := s.done.Wait(context.Background()); err != nil {
		return s.fail("wait", err)
	}
	return true
}

// computes says that the chunk has come in and its kernels are not done.
func (s *slot) computes() bool {
	in, err := s.ready.Done()
	if !in || err != nil {
		return false
	}
	computed, err := s.computed.Done()
	return !computed && err == nil
}

// quiet waits for what was queued of a chunk that could not be queued whole. What goes
// wrong then is a later error than the one there is.
func (s *slot) quiet() {
	for _, q := range []*Stream{s.in, s.step, s.out} {
		_ = q.Wait(context.Background())
	}
}

// complete waits for the chunk and counts it.
func (s *slot) complete(ctx context.Context) bool { return s.await() && s.send(ctx) }
