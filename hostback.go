package ferry

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// How a buffer goes back to its pool.

// mark stands for the operations of a stream that were in flight on a buffer when it
// was closed.
type mark struct {
	q     *queue
	need  uint64   // the last of them
	seq   uint64   // what the stream has passed when the event has
	event cu.Event // 0 where none could be recorded: then the stream is asked
}

// giveBack is Close of a buffer of a pool, by somebody who knew it in a generation.
func (a *allocation) giveBack(age uint32) error {
	if !a.shutOf(age) {
		return nil
	}
	a.leak.Stop()
	return a.dismiss(a.back)
}

// comeBack gives the block to the pool, to be used at once or when it is not in
// flight any more. With the pool closed there is nobody to ask later: it waits.
func (a *allocation) comeBack() error {
	p := a.pool
	if a.lastMarks(); len(a.marks) == 0 {
		return p.put(a.block)
	}
	for i := range a.marks {
		a.marks[i].event = p.record(&a.marks[i])
	}
	p.pool.PutLater(a.block)
	if p.closed.Load() {
		return p.g.soon(p.drain)
	}
	return nil
}

// put is Put; what a host function may not give back goes later.
func (p *HostPool) put(b *pin.Block) error {
	err := p.pool.Put(b)
	if inCallback(err) {
		return p.g.soon(p.pool.Release)
	}
	return err
}

// lastMarks finds the streams that may still use the memory.
func (a *allocation) lastMarks() {
	for _, l := range *a.lanes.Load() {
		if q := l.owner(); q != nil {
			if need := l.latest(writes); q.passed.Load() < need {
				a.marks = append(a.marks, mark{q: q, need: need})
			}
		}
	}
}

// record records an event for a mark, if the stream is one of the pool's GPU and
// open.
func (p *HostPool) record(m *mark) cu.Event {
	q := m.q
	if q.g.ctx != p.g.ctx || q.g.released.Load() || !q.enter() {
		return 0
	}
	defer q.leave()
	e, err := p.event()
	if err != nil {
		return 0
	}
	m.seq = q.issued()
	if err := q.g.driver.EventRecord(q.g.ctx, e, q.handle); err != nil {
		p.keep(e)
		return 0
	}
	return e
}

// event is one that is not in use.
func (p *HostPool) event() (cu.Event, error) {
	p.mu.Lock()
	if n := len(p.events); n > 0 {
		e := p.events[n-1]
		p.events = p.events[:n-1]
		p.mu.Unlock()
		return e, nil
	}
	p.mu.Unlock()
	return p.g.driver.EventCreate(p.g.ctx, cu.EventDisableTiming)
}

func (p *HostPool) keep(e cu.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
}

// dropEvents gives the events back. Those that a host function must not touch go
// with the context.
func (p *HostPool) dropEvents() error {
	p.mu.Lock()
	all := p.events
	p.events = nil
	p.mu.Unlock()
	var failed error
	for _, e := range all {
		failed = errors.Join(failed, p.g.driver.EventDestroy(p.g.ctx, e))
	}
	return failed
}

// drain waits for what was closed in flight.
func (p *HostPool) drain() error {
	return p.pool.Drain(func(o pin.Owner) error {
		a := o.(*allocation)
		if err := a.wait(context.Background(), writes); err != nil && !sticky(err) {
			return err
		}
		for len(a.marks) > 0 {
			a.unmark()
		}
		return nil
	})
}

// Passed says whether the hardware is done with a closed buffer.
func (a *allocation) Passed() bool {
	for len(a.marks) > 0 {
		m := &a.marks[len(a.marks)-1]
		if m.q.passed.Load() < m.need && !a.pool.passed(m) {
			return false
		}
		a.unmark()
	}
	return true
}

// unmark ends the last mark.
func (a *allocation) unmark() {
	m := &a.marks[len(a.marks)-1]
	if m.event != 0 {
		a.pool.keep(m.event)
	}
	*m = mark{}
	a.marks = a.marks[:len(a.marks)-1]
}

// passed asks the driver, without waiting. On a device that is lost nothing runs.
func (p *HostPool) passed(m *mark) bool {
	if m.event == 0 {
		return m.q.ask()
	}
	err := p.g.driver.EventQuery(p.g.ctx, m.event)
	if err == nil {
		m.q.pass(m.seq)
	}
	return err == nil || sticky(err)
}

// ask says whether all work of the stream is done, without waiting.
func (q *queue) ask() bool {
	if q.g.released.Load() {
		return true
	}
	if q.enter() {
		defer q.leave()
		n := q.issued()
		err := q.g.driver.StreamQuery(q.g.ctx, q.handle)
		if err == nil {
			q.pass(n)
		}
		return err == nil || sticky(err)
	}
	select {
	case <-q.gone:
		return q.tail.ask(q.g)
	default: // it is being destroyed
		return false
	}
}

// Retire takes the buffer out of what Ferry knows by address: its block is none any
// more.
func (a *allocation) Retire() { a.delist() }
