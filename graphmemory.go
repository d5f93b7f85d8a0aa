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
	tried       atomic.Bool           // a launch was tried, so the memory can be there
	launched    atomic.Bool
	lost        atomic.Bool // no launch will make the memory: there is no graph, or none any more
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
	b := &graphBirth{capture: c}
	c.addBirth(b)
	a.SetBirth(&st.Stream, st.Next(), b)
	a.free, a.close = freeOfGraph, a.closeOfGraph
	op.Acquire(&a.Tracker, inflight.Write, 0)
	op.Queued()
	return nil
}

func (c *capture) addBirth(b *graphBirth) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.born = append(c.born, b)
}

// usable returns an error if no launch has made the memory yet. Captures may use it before.
func (b *graphBirth) usable() error {
	switch {
	case b.launched.Load():
		return nil
	case b.lost.Load():
		return errLostBirth
	}
	return refusal.Invalid("it is allocated by a graph, when that is launched: launch the graph first")
}

var errLostBirth = refusal.Invalid("it was to be allocated by a graph that there is not, or that was closed before a launch: allocate another buffer")

// usableInCapture is usable for work that is recorded.
func (b *graphBirth) usableInCapture() error {
	if b.lost.Load() {
		return errLostBirth
	}
	return nil
}

// lose says of buffers that nothing will allocate them.
func lose(born []*graphBirth) {
	for _, b := range born {
		if !b.launched.Load() {
			b.lost.Store(true)
		}
	}
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

// launches notes that the memory of the graph can be there from now on.
func (x *Graph) launches() {
	for _, b := range x.born {
		b.tried.Store(true)
	}
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

// freeInCapture makes a node that frees the memory, behind all that the capture has recorded. It is
// on the stream where the capture began, because the others can have been joined already. After the
// capture it does nothing.
func (b *graphBirth) freeInCapture(a *allocation) error {
	streams := b.capture.joined()
	st := streams[0]
	var op inflight.Op
	if b.freedInside.Load() || !op.Begin(&st.Stream) {
		return nil
	}
	defer op.End()
	for _, other := range streams[1:] {
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
// its capture failed. A launch that failed can have made the memory or not: the driver knows.
func freeOfGraph(a *allocation) error {
	b := graphBirthOf(&a.Tracker)
	if b.freedInside.Load() || !b.tried.Load() {
		return nil
	}
	if err := a.g.settle(); err != nil {
		return err
	}
	if !b.launched.Load() && !a.g.driverKnows(a.dev) {
		return nil
	}
	return a.g.driver.MemFree(a.g.ctx, a.dev)
}
