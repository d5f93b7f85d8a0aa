package nccl

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// frame has what the queueing of calls needs. It is used again, so that a call allocates nothing.
type frame struct {
	calls []pending
	comms []*Comm // of the calls, each once, in the order in which they are locked
	works []*bridge.Work
	gpus  []any
	items []backend.Item
	run   func() error // submit, made once
}

var frames = sync.Pool{New: func() any {
	f := new(frame)
	f.run = f.submit
	return f
}}

// queueAll queues calls as one group. what names it.
func queueAll(what string, calls ...pending) error {
	f := frames.Get().(*frame)
	defer f.free()
	f.calls = append(f.calls, calls...)
	return f.queue(what)
}

// add adds an empty call.
func (f *frame) add() *pending {
	f.calls = append(f.calls, pending{})
	return &f.calls[len(f.calls)-1]
}

// free makes the frame ready for other calls.
func (f *frame) free() {
	clear(f.calls)
	clear(f.comms)
	clear(f.gpus)
	clear(f.items)
	for _, w := range f.works {
		w.Stream, w.Memory = nil, [2]bridge.Piece{}
	}
	f.calls, f.comms, f.gpus, f.items = f.calls[:0], f.comms[:0], f.gpus[:0], f.items[:0]
	frames.Put(f)
}

// queue checks and queues the calls.
func (f *frame) queue(what string) error {
	for i := range f.calls {
		if c := f.calls[i].c; !slices.Contains(f.comms, c) {
			f.comms = append(f.comms, c)
		}
	}
	slices.SortFunc(f.comms, func(a, b *Comm) int { return cmp.Compare(a.number, b.number) }) // two groups cannot wait for each other
	for i, c := range f.comms {
		if err := c.begin(what); err != nil {
			f.end(i)
			return err
		}
	}
	defer f.end(len(f.comms))
	if err := f.prepare(what); err != nil {
		return err
	}
	return bridge.Queue(what, f.gpus, f.works[:len(f.calls)], f.run)
}

// end ends the calls of the first n communicators.
func (f *frame) end(n int) {
	for _, c := range f.comms[:n] {
		c.end()
	}
}

// prepare fills the works and items.
func (f *frame) prepare(what string) error {
	for i := range f.calls {
		p := &f.calls[i]
		c := p.c
		if c.library != f.calls[0].c.library {
			return fmt.Errorf("%s: %v is of %s, and %v of %s: a group has one of them", what, f.calls[0].c, f.calls[0].c.library.Name(), c, c.library.Name())
		}
		if p.call.Kind.Reduces() {
			op, err := c.reduction(p.op, p.call.Type)
			if err != nil {
				return fmt.Errorf("%v by %v: %w", p.call.Kind, c, err)
			}
			p.call.Op = op
		}
		if i == len(f.works) {
			f.works = append(f.works, new(bridge.Work))
		}
		w := f.works[i]
		w.Stream, w.Memory = p.stream, [2]bridge.Piece{p.send, p.recv}
		f.gpus = append(f.gpus, c.gpu)
		f.items = append(f.items, backend.Item{Comm: c.backend, Call: p.call})
	}
	return verify(f.calls)
}

// submit hands the calls to the library. It runs with all memory in flight.
func (f *frame) submit() error {
	for i := range f.items {
		x, w := &f.items[i], f.works[i]
		x.Stream = w.Handle
		x.Call.Send, x.Call.Recv = uint64(w.Memory[0].Address), uint64(w.Memory[1].Address)
		if err := f.calls[i].c.overlap(&x.Call); err != nil {
			return err
		}
	}
	return f.calls[0].c.library.Submit(f.items)
}

// overlap refuses memory that overlaps in another way than the call does in place.
func (c *Comm) overlap(q *backend.Call) error {
	if q.SendBytes == 0 || q.RecvBytes == 0 || q.Send >= q.Recv+uint64(q.RecvBytes) || q.Recv >= q.Send+uint64(q.SendBytes) {
		return nil
	}
	at, want := q.Recv, q.Send
	switch q.Kind {
	case backend.AllGather, backend.Gather:
		at, want = q.Send, q.Recv+uint64(c.rank*q.SendBytes)
	case backend.ReduceScatter, backend.Scatter:
		want = q.Send + uint64(c.rank*q.RecvBytes)
	case backend.AllToAll:
		return c.refuse(q.Kind, "what is sent (%d bytes at %#x) and what is received (%d bytes at %#x) overlap", q.SendBytes, q.Send, q.RecvBytes, q.Recv)
	}
	if at != want {
		return c.refuse(q.Kind, "what is sent (%d bytes at %#x) and what is received (%d bytes at %#x) overlap, but not as in place: that would be %#x", q.SendBytes, q.Send, q.RecvBytes, q.Recv, want)
	}
	return nil
}
