package softgpu

import (
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// eventState is an event. What it stands for is a snapshot: the op that marked
// its stream when it was recorded last.
type eventState struct {
	ctx   *contextState
	flags cu.EventFlags
	rec   *op

	capture *capture // that it was last recorded in, instead of a stream that runs
	front   []*node
}

// EventCreate makes an event.
func (d *Driver) EventCreate(h cu.Context, flags cu.EventFlags) (cu.Event, error) {
	const what = "create an event"
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	const known = cu.EventBlockingSync | cu.EventDisableTiming | cu.EventInterprocess
	if flags&^known != 0 {
		return 0, refuse(cu.ErrorInvalidValue, what, "flags %#x are not known", uint32(flags&^known))
	}
	if flags&cu.EventInterprocess != 0 && flags&cu.EventDisableTiming == 0 {
		return 0, refuse(cu.ErrorInvalidValue, what, "EventInterprocess needs EventDisableTiming")
	}
	return cu.Event(d.newHandle(&eventState{ctx: c, flags: flags})), nil
}

// event finds an event by its handle.
func (d *Driver) event(h cu.Event, what string) (*eventState, error) {
	return lookup[*eventState](d, uintptr(h), what, "event")
}

// EventRecord makes the event stand for the work now in the stream.
func (d *Driver) EventRecord(h cu.Context, event cu.Event, stream cu.Stream) error {
	return d.EventRecordWithFlags(h, event, stream, cu.EventRecordDefault)
}

// EventRecordWithFlags is EventRecord with flags.
func (d *Driver) EventRecordWithFlags(h cu.Context, event cu.Event, stream cu.Stream, flags cu.EventRecordFlags) error {
	const what = "record an event"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Calls.Record.Value
	if flags&^cu.EventRecordExternal != 0 {
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
	if e.ctx != s.ctx {
		return refuse(cu.ErrorInvalidHandle, what, "the event is of device %d's context, the stream of device %d's: they must share one",
			e.ctx.dev.ordinal, s.ctx.dev.ordinal)
	}
	if s.capture != nil {
		return s.captureRecord(e, flags, what)
	}
	if flags&cu.EventRecordExternal != 0 {
		return refuse(cu.ErrorIllegalState, what, "EventRecordExternal is for a stream that captures")
	}
	o, err := s.enqueue(&work{kind: cu.GraphNodeTypeEventRecord, what: what}, what)
	if err != nil {
		return err
	}
	e.rec, e.capture, e.front = o, nil, nil
	return nil
}

// EventQuery is nil when the recorded work is done.
func (d *Driver) EventQuery(h cu.Context, event cu.Event) error {
	e, err := d.enterEvent(h, event, "query an event")
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.host += d.prof.Calls.Query.Value
	if !d.finished(e.rec) {
		return cu.ErrorNotReady
	}
	e.rec.raceAcquire()
	return e.ctx.fault
}

// EventSynchronize waits for the recorded work.
func (d *Driver) EventSynchronize(h cu.Context, event cu.Event) error {
	e, err := d.enterEvent(h, event, "synchronize an event")
	if err != nil {
		return err
	}
	defer e.ctx.printed.flush()
	defer d.mu.Unlock()
	d.finish(e.rec)
	return e.ctx.fault
}

// enterEvent starts a call that looks whether an event is done.
func (d *Driver) enterEvent(h cu.Context, event cu.Event, what string) (*eventState, error) {
	c, err := d.enter(h, what)
	if err != nil {
		return nil, err
	}
	e, err := d.event(event, what)
	switch {
	case err != nil:
	case e.ctx.fault != nil:
		err = e.ctx.fault
	case e.capture != nil && (e.capture.over || e.capture.invalid):
		err = refuse(cu.ErrorInvalidValue, what, "it was last recorded in a capture that is spoiled or over: record it again")
	case e.capture != nil:
		e.capture.invalidate()
		err = refuse(cu.ErrorCapturedEvent, what, "it was recorded in a stream that captures")
	default:
		err = c.unsafeInCapture(what)
	}
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	return e, nil
}

// tick is the grain of event times, in nanoseconds.
const tick = 500

// EventElapsedTime is the time between two events in milliseconds.
func (d *Driver) EventElapsedTime(h cu.Context, start, end cu.Event) (float32, error) {
	const what = "time between two events"
	if _, err := d.enter(h, what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	var at [2]float64
	for i, handle := range []cu.Event{start, end} {
		e, err := d.event(handle, what)
		switch {
		case err != nil:
			return 0, err
		case e.flags&cu.EventDisableTiming != 0:
			return 0, refuse(cu.ErrorInvalidHandle, what, "event %#x was made with EventDisableTiming", uintptr(handle))
		case e.capture != nil:
			return 0, refuse(cu.ErrorCapturedEvent, what, "event %#x was recorded in a stream that captures", uintptr(handle))
		case e.rec == nil:
			return 0, refuse(cu.ErrorInvalidHandle, what, "event %#x was never recorded", uintptr(handle))
		case !d.finished(e.rec):
			return 0, cu.ErrorNotReady
		case e.ctx.fault != nil:
			return 0, e.ctx.fault
		}
		at[i] = math.Round(e.rec.end / tick)
	}
	a, _ := d.event(start, what)
	b, _ := d.event(end, what)
	if a.ctx != b.ctx {
		return 0, refuse(cu.ErrorInvalidHandle, what, "the events are of two contexts, of devices %d and %d", a.ctx.dev.ordinal, b.ctx.dev.ordinal)
	}
	return float32((at[1] - at[0]) * tick / 1e6), nil
}

// EventDestroy gives the event up.
func (d *Driver) EventDestroy(h cu.Context, event cu.Event) error {
	const what = "destroy an event"
	if _, err := d.enter(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if _, err := d.event(event, what); err != nil {
		return err
	}
	delete(d.handles, uintptr(event))
	return nil
}
