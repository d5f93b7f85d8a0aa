package ferry

import (
	"fmt"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// graphBirth is the allocation of a buffer by a graph. The driver knows the address from the capture
// on, and the memory is there from a launch on.
type graphBirth struct {
	capture     *capture
	graph       atomic.Pointer[Graph] // nil until the capture has made one
	launched    atomic.Bool
	freedInside atomic.Bool // a node of the graph frees the memory
}

// graphBirthOf returns the birth of a buffer that a graph allocates, nil for other resources.
func graphBirthOf(t *inflight.Tracker) *graphBirth {
	b, _ := t.BirthEvent().(*graphBirth)
	return b
}

// allocate allocates the memory of a, as a node of the graph that the stream records.
func (c *capture) allocate(a *allocation, st *streamState, op *inflight.Op, p *MemPool) (err error) {
	if a.dev, err = allocOn(st, a.bytes, p); err != nil {
		return err
	}
	a.SetBirth(&st.Stream, st.Next(), &graphBirth{capture: c})
	a.free, a.close = freeOfGraph, a.closeOfGraph
	op.Acquire(&a.Tracker, inflight.Write, 0)
	op.Queued()
	return nil
}

// usable returns an error if no launch has made the memory yet. Captures may use it before.
func (b *graphBirth) usable() error {
	if b.launched.Load() {
		return nil
	}
	return refusal.Invalid("it is allocated by a graph, when that is launched: launch the graph first")
}

// births returns the births of the buffers that a graph allocates.
func births(uses []inflight.GraphUse) (all []*graphBirth) {
	for _, u := range uses {
		if b := graphBirthOf(u.Tracker); b != nil && b.graph.Load() == nil {
			all = append(all, b)
		}
	}
	return all
}

// flagsOf returns the flags of an executable graph. One that allocates memory frees, before a
// launch, what the launch before has left.
func flagsOf(born []*graphBirth) uint64 {
	if len(born) > 0 {
		return cu.GraphInstantiateAutoFreeOnLaunch
	}
	return 0
}

// allocates reports whether x allocates the resource.
func (x *Graph) allocates(t *inflight.Tracker) bool {
	b := graphBirthOf(t)
	return b != nil && b.graph.Load() == x
}

// hasLaunched notes that the memory of the graph is there.
func (x *Graph) hasLaunched() {
	for _, b := range x.born {
		b.launched.Store(true)
	}
}

// closeOfGraph is Close of a buffer that a graph allocates. In the capture it makes a node that
// frees the memory. Later the graph keeps the memory, as it keeps all that it uses.
func (a *allocation) closeOfGraph(generation uint32) error {
	if !a.CloseIn(generation) {
		return a.closeNow(generation)
	}
	a.leak.Stop()
	return closing.AfterHostFunction(func() error {
		if err := a.TryDrain(a.g.mayWait); err != nil {
			return err
		}
		err := graphBirthOf(&a.Tracker).freeInCapture(a)
		return refusal.Join(err, a.drain())
	})
}

// freeInCapture makes a node that frees the memory, behind all that the capture has recorded. After
// the capture it does nothing.
func (b *graphBirth) freeInCapture(a *allocation) error {
	st := stateOfStream(a.BornOn())
	var op inflight.Op
	if b.freedInside.Load() || !op.Begin(&st.Stream) {
		return nil
	}
	defer op.End()
	for _, other := range b.capture.joined() {
		if other == st {
			continue
		}
		if err := b.capture.followInside(st, other); err != nil {
			return fmt.Errorf("close %v: %w", a, err)
		}
	}
	if err := st.g.driver.MemFreeAsync(st.g.ctx, a.dev, st.handle); err != nil {
		return fmt.Errorf("close %v in the capture that allocates it: %w", a, err)
	}
	b.freedInside.Store(true)
	return nil
}

// joined returns the streams of the capture.
func (c *capture) joined() []*streamState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*streamState(nil), c.states...)
}

// followInside makes later work of a stream of the capture follow what another one has recorded.
func (c *capture) followInside(st, other *streamState) error {
	var op inflight.Op
	if !op.Begin(&other.Stream) {
		return errCaptured
	}
	defer op.End()
	e, err := c.ownEventFor(&Event{g: other.g})
	if err != nil {
		return err
	}
	if err := other.g.driver.EventRecord(other.g.ctx, e, other.handle); err != nil {
		return err
	}
	return follow(st, e)
}

// freeOfGraph frees what the last launch of a graph has left of its memory. The graph is closed, or
// its capture failed.
func freeOfGraph(a *allocation) error {
	b := graphBirthOf(&a.Tracker)
	if b.freedInside.Load() || !b.launched.Load() {
		return nil
	}
	if err := a.g.settle(); err != nil {
		return err
	}
	return a.g.driver.MemFree(a.g.ctx, a.dev)
}
