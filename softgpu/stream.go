package softgpu

import (
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// streamState is a stream. It keeps only its last op, because each op knows the
// ops that it follows.
type streamState struct {
	handle    cu.Stream
	ctx       *contextState
	flags     cu.StreamFlags
	priority  int32
	last      *op
	destroyed bool
	clock     float64   // latest time that one of its kernels saw on a clock
	kernels   int       // launches that have not retired in virtual time
	reusable  []*region // pool memory that it has freed and may reuse

	capture     *capture // nil while the stream runs its work
	captureDeps []*node  // the nodes that the next captured node follows

	id uint64 // 0 until StreamGetId
}

func (s *streamState) nonBlocking() bool { return s.flags&cu.StreamNonBlocking != 0 }

// before returns the ops that the next op of s must follow. These are the op
// before it and, by the rule of the legacy default stream, that stream's last
// op. For the legacy stream they are the last ops of all blocking streams.
func (s *streamState) before() []*op {
	c := s.ctx
	switch {
	case s.nonBlocking():
		return []*op{s.last}
	case s != c.legacy:
		return []*op{s.last, c.legacy.last}
	}
	deps := slices.Clone(c.destroyedLast)
	for _, other := range c.streams {
		if !other.nonBlocking() {
			deps = append(deps, other.last)
		}
	}
	return deps
}

// busy finds whether s has work that has not ended by the host's clock. The
// answer is in yes when the host's clock is known; known reports whether it is
// there already. The caller holds mu, which is released during the wait.
func (s *streamState) busy() (yes *bool, known bool) {
	before, done := s.before(), false
	yes = new(bool)
	s.ctx.drv.atNow(func() {
		*yes = slices.ContainsFunc(before, func(o *op) bool { return o != nil && !o.retired })
		done = true
	})
	return yes, done
}

// enqueue appends w to s. It returns the op, or nil if s captures.
func (s *streamState) enqueue(w *work, what string) (*op, error) {
	if s.ctx.drv.races {
		w.site = s.ctx.drv.space.site().place()
	}
	if s.capture != nil {
		return nil, s.record(w, what)
	}
	if err := s.mayRun(what); err != nil {
		return nil, err
	}
	s.last = s.ctx.drv.submit(s.ctx, s, w, s.before())
	return s.last, nil
}

// StreamCreate makes a stream of priority 0.
func (d *Driver) StreamCreate(h cu.Context, flags cu.StreamFlags) (cu.Stream, error) {
	return d.StreamCreateWithPriority(h, flags, 0)
}

// StreamCreateWithPriority makes a stream. A priority out of range is clamped.
func (d *Driver) StreamCreateWithPriority(h cu.Context, flags cu.StreamFlags, priority int32) (cu.Stream, error) {
	const what = "create a stream"
	c, err := d.beginIn(h, what)
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

// StreamDestroy destroys the stream at once. Its work goes on. A capture that began in it ends.
func (d *Driver) StreamDestroy(h cu.Context, stream cu.Stream) error {
	const what = "destroy a stream"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	if stream <= cu.StreamPerThread {
		return refuse(cu.ErrorInvalidHandle, what, "a default stream cannot be destroyed")
	}
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	delete(d.handles, uintptr(stream))
	s.drop()
	return nil
}

// drop ends a stream that no call can reach any more. Its work goes on. The caller holds mu.
func (s *streamState) drop() {
	if p := s.capture; p != nil && p.origin == s { // nothing could end it any more
		p.end()
	}
	s.destroyed = true
	owner := s.ctx
	owner.streams = slices.DeleteFunc(owner.streams, func(x *streamState) bool { return x == s })
	if t := s.last; t != nil && (raceBuild || s.ctx.drv.races || !t.done || !t.retired) {
		if s.nonBlocking() {
			owner.destroyedNonBlockingLast = append(owner.destroyedNonBlockingLast, t)
		} else {
			owner.destroyedLast = append(owner.destroyedLast, t)
		}
	}
}

// StreamQuery returns nil when all work of the stream is done.
func (d *Driver) StreamQuery(h cu.Context, stream cu.Stream) error {
	const what = "query a stream"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(d.prof.Calls.Query.Value)
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil {
		return err
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	all := s.before()
	if s.ctx.dev.old {
		s.ctx.addChecks(checked(all))
	}
	for _, o := range all {
		if !d.finished(o) {
			return cu.ErrorNotReady
		}
	}
	for _, o := range all {
		o.acquired()
	}
	if s.ctx.fault != nil {
		return s.ctx.report()
	}
	return s.reportLate()
}

// StreamSynchronize waits for all work of the stream.
func (d *Driver) StreamSynchronize(h cu.Context, stream cu.Stream) error {
	const what = "synchronize a stream"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer c.printf.flush()
	defer d.mu.Unlock()
	s, err := c.stream(stream, what)
	if err != nil {
		return err
	}
	if err := s.mustNotCapture(what); err != nil {
		return err
	}
	if err := c.unsafeInCapture(what); err != nil {
		return err
	}
	return s.sync()
}

// sync waits for s. The caller holds mu, which is released during the wait.
func (s *streamState) sync() error {
	d := s.ctx.drv
	for _, o := range s.before() {
		d.finish(o)
	}
	s.ctx.dev.trimPools()
	if s.ctx.fault != nil {
		return s.ctx.report()
	}
	return s.reportLate()
}

// StreamWaitEvent makes later work of the stream wait for the work that the
// event recorded. The event may belong to another device.
func (d *Driver) StreamWaitEvent(h cu.Context, stream cu.Stream, event cu.Event, flags cu.EventWaitFlags) error {
	const what = "wait for an event in a stream"
	c, err := d.beginIn(h, what)
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
	if n, foreign := e.foreign(); foreign {
		_, err := s.enqueue(e.file.work(n, what), what)
		return err
	}
	if e.recorded == nil {
		return nil
	}
	s.last = d.submit(s.ctx, s, &work{kind: cu.GraphNodeTypeWaitEvent, what: what}, append(s.before(), e.recorded))
	return nil
}

// StreamGetPriority returns the priority.
func (d *Driver) StreamGetPriority(h cu.Context, stream cu.Stream) (int32, error) {
	return streamCall(d, h, stream, func(s *streamState) int32 { return s.priority })
}

// StreamGetFlags returns the flags.
func (d *Driver) StreamGetFlags(h cu.Context, stream cu.Stream) (cu.StreamFlags, error) {
	return outsideCapture(d, h, stream, func(s *streamState) cu.StreamFlags { return s.flags })
}

// StreamGetCtx returns the context of a stream.
func (d *Driver) StreamGetCtx(h cu.Context, stream cu.Stream) (cu.Context, error) {
	return streamCall(d, h, stream, func(s *streamState) cu.Context { return s.ctx.handle })
}

func streamCall[T any](d *Driver, h cu.Context, stream cu.Stream, f func(*streamState) T) (T, error) {
	var zero T
	const what = "read a property of a stream"
	c, err := d.beginIn(h, what)
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

// await waits for o and returns its error as the call's. The caller has held mu
// since o was queued; it is released during the wait.
func (s *streamState) await(o *op) error {
	o.awaited = true
	s.ctx.drv.finish(o)
	o.awaited = o.done // else a later call reports its error
	if s.ctx.fault != nil {
		return s.ctx.report()
	}
	if err := s.reportBefore(o); err != nil {
		return errors.Join(o.err, err)
	}
	return o.err
}
