package softgpu

import (
	"math"

	"github.com/ferrygpu/ferry/cu"
)

// eventState is an event. It stands for the op that marked the end of its
// stream when the event was last recorded.
type eventState struct {
	ctx      *contextState
	flags    cu.EventFlags
	recorded *op

	file       *eventFile // of an event that processes share, else nil
	recordedAs uint64     // the number of recorded in the file

	capture     *capture // of the last record, if the stream captured
	captureDeps []*node
}

// EventCreate makes an event.
func (d *Driver) EventCreate(h cu.Context, flags cu.EventFlags) (cu.Event, error) {
	const what = "create an event"
	c, err := d.beginIn(h, what)
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
	var file *eventFile
	if flags&cu.EventInterprocess != 0 && c.dev.attr(cu.DeviceAttributeIPCEventSupported) != 0 {
		if file, err = newEventFile(c.dev); err != nil {
			return 0, refuse(cu.ErrorOutOfMemory, what, "this computer cannot provide the page that processes share: %v", err)
		}
	}
	return c.newEvent(flags, file), nil
}

// newEvent gives an event its handle.
func (c *contextState) newEvent(flags cu.EventFlags, file *eventFile) cu.Event {
	return cu.Event(c.drv.newHandle(&eventState{ctx: c, flags: flags, file: file}))
}

// event returns the event with the given handle.
func (d *Driver) event(h cu.Event, what string) (*eventState, error) {
	return lookup[*eventState](d, uintptr(h), what, "event")
}

// EventRecord records the work that is now in the stream.
func (d *Driver) EventRecord(h cu.Context, event cu.Event, stream cu.Stream) error {
	return d.EventRecordWithFlags(h, event, stream, cu.EventRecordDefault)
}

// EventRecordWithFlags records the work that is now in the stream.
func (d *Driver) EventRecordWithFlags(h cu.Context, event cu.Event, stream cu.Stream, flags cu.EventRecordFlags) error {
	const what = "record an event"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(d.prof.Calls.Record.Value)
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
		return refuse(cu.ErrorInvalidHandle, what, "the event belongs to a context of device %d and the stream to one of device %d: they must have the same context",
			e.ctx.dev.ordinal, s.ctx.dev.ordinal)
	}
	if s.capture != nil {
		return s.captureRecord(e, flags, what)
	}
	if flags&cu.EventRecordExternal != 0 {
		return refuse(cu.ErrorIllegalState, what, "EventRecordExternal needs a stream that captures")
	}
	if err := s.mayRun(what); err != nil { // before the record counts
		return err
	}
	n, done := e.file.record()
	o, err := s.enqueue(&work{kind: cu.GraphNodeTypeEventRecord, what: what, done: done}, what)
	if err != nil {
		return err
	}
	e.recorded, e.recordedAs, e.capture, e.captureDeps = o, n, nil, nil
	return nil
}

// EventQuery returns nil when the recorded work is done.
func (d *Driver) EventQuery(h cu.Context, event cu.Event) error {
	e, err := d.beginEvent(h, event, "query an event")
	if err != nil {
		return err
	}
	defer d.mu.Unlock()
	d.spend(d.prof.Calls.Query.Value)
	if n, foreign := e.foreign(); foreign {
		if !e.file.past(n) {
			return cu.ErrorNotReady
		}
		return e.ctx.report()
	}
	if !d.finished(e.recorded) {
		return cu.ErrorNotReady
	}
	e.recorded.acquired()
	return e.ctx.report()
}

// EventSynchronize waits for the recorded work.
func (d *Driver) EventSynchronize(h cu.Context, event cu.Event) error {
	const what = "synchronize an event"
	e, err := d.beginEvent(h, event, what)
	if err != nil {
		return err
	}
	defer e.ctx.printf.flush()
	defer d.mu.Unlock()
	if n, foreign := e.foreign(); foreign {
		return e.await(n, what)
	}
	d.finish(e.recorded)
	return e.ctx.report()
}

// beginEvent starts a call that queries or waits for an event. On success the
// driver is locked.
func (d *Driver) beginEvent(h cu.Context, event cu.Event, what string) (*eventState, error) {
	c, err := d.beginIn(h, what)
	if err != nil {
		return nil, err
	}
	e, err := d.event(event, what)
	switch {
	case err != nil:
	case e.ctx.fault != nil:
		err = e.ctx.report()
	case e.capture != nil && (e.capture.ended || e.capture.invalid):
		err = refuse(cu.ErrorInvalidValue, what, "it was last recorded in a capture that is invalid or has ended: record it again")
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

// tick is the resolution of event times, in nanoseconds. The manual says "around 0.5
// microseconds". All times that an H200 gave are multiples of 32 ns.
const tick = 32

// EventElapsedTime returns the time between two events in milliseconds.
func (d *Driver) EventElapsedTime(h cu.Context, start, end cu.Event) (float32, error) {
	const what = "measure the time between two events"
	if _, err := d.beginIn(h, what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	var at [2]float64
	var ctx [2]*contextState
	for i, handle := range []cu.Event{start, end} {
		e, err := d.event(handle, what)
		switch {
		case err != nil:
			return 0, err
		case e.flags&cu.EventDisableTiming != 0:
			return 0, refuse(cu.ErrorInvalidHandle, what, "event %#x was made with EventDisableTiming", uintptr(handle))
		case e.capture != nil:
			return 0, refuse(cu.ErrorCapturedEvent, what, "event %#x was recorded in a stream that captures", uintptr(handle))
		case e.recorded == nil:
			return 0, refuse(cu.ErrorInvalidHandle, what, "event %#x was never recorded", uintptr(handle))
		case !d.finished(e.recorded):
			return 0, cu.ErrorNotReady
		case e.ctx.fault != nil:
			return 0, e.ctx.report()
		}
		d.settle() // under lazy and random, an op may have executed but have no time yet
		if !e.recorded.retired {
			return 0, cu.ErrorNotReady
		}
		at[i], ctx[i] = math.Round(max(e.recorded.end, e.recorded.visible)/tick), e.ctx
	}
	if ctx[0] != ctx[1] {
		return 0, refuse(cu.ErrorInvalidHandle, what, "the events belong to different contexts, of devices %d and %d", ctx[0].dev.ordinal, ctx[1].dev.ordinal)
	}
	return float32((at[1] - at[0]) * tick / 1e6), nil
}

// EventDestroy destroys the event.
func (d *Driver) EventDestroy(h cu.Context, event cu.Event) error {
	const what = "destroy an event"
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	e, err := d.event(event, what)
	if err != nil {
		return err
	}
	e.unshare()
	delete(d.handles, uintptr(event))
	return nil
}
