package softgpu

import (
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// streamState is a queue of work. Only its last op is kept: each op knows what it follows.
type streamState struct {
	handle   cu.Stream
	ctx      *contextState
	flags    cu.StreamFlags
	priority int32
	tail     *op
	gone     bool      // destroyed
	clock    float64   // the latest time that a kernel of it saw on a clock
	kernels  int       // launches that virtual time has not passed
	panics   []error   // of host functions, told once
	freed    []*region // of pools, that it may have again

	capture *capture // nil while it runs its work
	front   []*node  // what the next captured node follows

	id uint64 // 0 until StreamGetId
}

func (s *streamState) nonBlocking() bool { return s.flags&cu.StreamNonBlocking != 0 }

// newStream makes a stream without a handle.
func (c *contextState) newStream(flags cu.StreamFlags, priority int32) *streamState {
	s := &streamState{ctx: c, flags: flags, priority: priority}
	c.streams = append(c.streams, s)
	return s
}

// stream finds a stream by its handle.
func (c *contextState) stream(h cu.Stream, what string) (*streamState, error) {
	switch h {
	case 0, cu.StreamLegacy:
		return c.legacy, nil
	case cu.StreamPerThread:
		id := goid()
		s := c.perThread[id]
		if s == nil {
			s = c.newStream(cu.StreamDefault, 0)
			s.handle = cu.StreamPerThread
			c.perThread[id] = s
		}
		return s, nil
	}
	s, err := lookup[*streamState](c.drv, uintptr(h), what, "stream")
	if err != nil {
		return nil, err
	}
	if s.ctx.fault != nil {
		return nil, s.ctx.fault
	}
	return s, nil
}

// ownStream is a stream that must be of this context.
func (c *contextState) ownStream(h cu.Stream, what string) (*streamState, error) {
	s, err := c.stream(h, what)
	if err == nil && s.ctx != c {
		return nil, refuse(cu.ErrorInvalidHandle, what, "the stream belongs to another context, of device %d", s.ctx.dev.ordinal)
	}
	return s, err
}

// before is what the next op of s must follow: the op before it, and by the rule
// of the legacy default stream, that stream's last op, or for itself the last
// ops of all blocking streams.
func (s *streamState) before() []*op {
	c := s.ctx
	switch {
	case s.nonBlocking():
		return []*op{s.tail}
	case s != c.legacy:
		return []*op{s.tail, c.legacy.tail}
	}
	deps := slices.Clone(c.orphans)
	for _, other := range c.streams {
		if !other.nonBlocking() {
			deps = append(deps, other.tail)
		}
	}
	return deps
}

// busy says whether s has work that is not over by the host's clock. mu is held,
// let go of and taken again.
func (s *streamState) busy() bool {
	d := s.ctx.drv
	d.sim.run(d, d.host, nil)
	return slices.ContainsFunc(s.before(), func(o *op) bool { return o != nil && !(o.done && o.retired) })
}

// enqueue puts w at the end of s: an op, or nil where s records a graph.
func (s *streamState) enqueue(w *work, what string) (*op, error) {
	if s.capture != nil {
		return nil, s.record(w, what)
	}
	if err := s.mayRun(what); err != nil {
		return nil, err
	}
	s.tail = s.ctx.drv.submit(s.ctx, s, w, s.before())
	return s.tail, nil
}

// StreamCreate makes a stream of priority 0.
func (d *Driver) StreamCreate(h cu.Context, flags cu.StreamFlags) (cu.Stream, error) {
	return d.StreamCreateWithPriority(h, flags, 0)
}

// StreamCreateWithPriority makes a stream; a priority out of range is clamped.
func (d *Driver) StreamCreateWithPriority(h cu.Context, flags cu.StreamFlags, priority int32) (cu.Stream, error) {
	const what = "create a stream"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if flags&^cu.StreamNonBlocking != 0 {
		return 0, refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags&^cu.StreamNonBlocking))
	}
	least, greatest := int32(d.prof.Priority.Least.Value), int32(d.prof.Priority.Greatest.Value)
	s := c.newStream(flags, min(max(priority, greatest), least))
	s.handle = cu.Stream(d.newHandle(s))
	return s.handle, nil
}

// StreamDestroy gives the stream up at once; its work goes on.
func (d *Driver) StreamDestroy(h cu.Context, stream cu.Stream) error {
	const what = "destroy a stream"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if stream <= cu.StreamPerThread {
		return refuse(cu.ErrorInvalidHandle, what, "a default stream lives as long as its context")
	}
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if s.capture != nil {
		s.capture.invalidate()
		delete(s.capture.streams, s)
	}
	delete(d.handles, uintptr(stream))
	s.gone = true
	owner := s.ctx
	owner.lostPanics = append(owner.lostPanics, s.panics...)
	owner.streams = slices.DeleteFunc(owner.streams, func(x *streamState) bool { return x == s })
	if t := s.tail; t != nil && (raceBuild || !t.done || !t.retired) {
		if s.nonBlocking() {
			owner.loose = append(owner.loose, t)
		} else {
			owner.orphans = append(owner.orphans, t)
		}
	}
	return nil
}

// StreamQuery is nil when all work of the stream is done.
func (d *Driver) StreamQuery(h cu.Context, stream cu.Stream) error {
	const what = "query a stream"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Calls.Query.Value
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil {
		return err
	}
	all := s.before()
	for _, o := range all {
		if !d.finished(o) {
			return cu.ErrorNotReady
		}
	}
	for _, o := range all {
		o.raceAcquire()
	}
	if s.ctx.fault != nil {
		return s.ctx.fault
	}
	return s.tellPanics()
}

// StreamSynchronize waits for all work of the stream.
func (d *Driver) StreamSynchronize(h cu.Context, stream cu.Stream) error {
	const what = "synchronize a stream"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer c.printed.flush()
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil {
		return err
	}
	return s.sync()
}

// sync waits for s. mu is held, let go of and taken again.
func (s *streamState) sync() error {
	d := s.ctx.drv
	for _, o := range s.before() {
		d.finish(o)
	}
	s.ctx.dev.trimPools()
	if s.ctx.fault != nil {
		return s.ctx.fault
	}
	return s.tellPanics()
}

// tellPanics tells once of host functions of s, and of its context's graphs,
// that panicked.
func (s *streamState) tellPanics() error {
	err := errors.Join(append(s.panics, s.ctx.graphPanics...)...)
	s.panics, s.ctx.graphPanics = nil, nil
	return err
}

// StreamWaitEvent holds later work of the stream back until what the event
// recorded is done. The event may be of another device.
func (d *Driver) StreamWaitEvent(h cu.Context, stream cu.Stream, event cu.Event, flags cu.EventWaitFlags) error {
	const what = "wait for an event in a stream"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if flags&^cu.EventWaitExternal != 0 {
		return refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags))
	}
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	e, err := d.event(event, what)
	if err != nil {
		return err
	}
	if s.capture != nil || e.capture != nil {
		return s.captureWait(e, flags, what)
	}
	if e.rec == nil {
		return nil
	}
	s.tail = d.submit(s.ctx, s, &work{kind: cu.GraphNodeTypeWaitEvent, what: what}, append(s.before(), e.rec))
	return nil
}

// StreamGetPriority reads the priority.
func (d *Driver) StreamGetPriority(h cu.Context, stream cu.Stream) (int32, error) {
	return streamCall(d, h, stream, func(s *streamState) int32 { return s.priority })
}

// StreamGetFlags reads the flags.
func (d *Driver) StreamGetFlags(h cu.Context, stream cu.Stream) (cu.StreamFlags, error) {
	return outsideCapture(d, h, stream, func(s *streamState) cu.StreamFlags { return s.flags })
}

// StreamGetCtx is the context of a stream.
func (d *Driver) StreamGetCtx(h cu.Context, stream cu.Stream) (cu.Context, error) {
	return streamCall(d, h, stream, func(s *streamState) cu.Context { return s.ctx.handle })
}

func streamCall[T any](d *Driver, h cu.Context, stream cu.Stream, f func(*streamState) T) (T, error) {
	var zero T
	const what = "read a property of a stream"
	c, err := d.enter(h, what)
	if err != nil {
		return zero, err
	}
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return zero, err
	}
	return f(s), nil
}
