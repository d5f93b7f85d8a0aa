package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Event is a mark in a stream that others wait for, and between two of which time
// is measured. It is safe for concurrent use.
type Event struct {
	g      *GPU
	handle cu.Event
	timing bool
	sleeps bool          // made Blocking
	state  atomic.Uint64 // who uses it: see eventUsers
	leak   runtime.Cleanup
	waits  waiter

	known recorded // see note
}

// recorded is what an event stands for, as far as that is known: not where
// Records were made at the same time.
type recorded struct {
	number  uint64   // of the Record that this is about: it holds until the next begins
	q       *queue   // recorded in, nil in a capture
	seq     uint64   // all of q up to here is before the event
	capture *capture // recorded in it, nil when recorded in a stream that runs
}

// The state of an event, from the lowest bit: how many use it, Records in progress
// among them; how many of these are; the number of the Record begun last, 0 before
// the first, which begins again after 2^31; and whether it is closed.
const (
	eventUsers     = 1<<20 - 1
	eventRecorder  = 1 << 20
	eventRecorders = 1<<32 - 1 - eventUsers
	eventRecord    = 1 << 32
	eventRecords   = 1<<63 - eventRecord
	eventClosed    = 1 << 63
)

// EventOptions say how an event is made.
type EventOptions struct {
	// NoTiming makes an event that is for waiting only and cheaper
	// (CU_EVENT_DISABLE_TIMING).
	NoTiming bool
	// Blocking lets the thread sleep in Wait instead of spinning
	// (CU_EVENT_BLOCKING_SYNC).
	Blocking bool
}

// NewEvent makes an event (cuEventCreate). Until it is recorded it counts as
// done. o may be nil.
func (g *GPU) NewEvent(o *EventOptions) (*Event, error) {
	if err := g.enter("make an event"); err != nil {
		return nil, err
	}
	if o == nil {
		o = &EventOptions{}
	}
	flags := cu.EventDefault
	if o.NoTiming {
		flags |= cu.EventDisableTiming
	}
	if o.Blocking {
		flags |= cu.EventBlockingSync
	}
	handle, err := g.driver.EventCreate(g.ctx, flags)
	if err != nil {
		g.leave()
		return nil, fmt.Errorf("make an event on %s: %w", g.label, err)
	}
	e := &Event{g: g, handle: handle, timing: !o.NoTiming, sleeps: o.Blocking}
	e.leak = watchLeak(e, e.String)
	return e, nil
}

// String names the event's GPU.
func (e *Event) String() string {
	if e == nil {
		return "no event"
	}
	return "an event of " + e.g.label
}

// enter begins a use of the event; leave ends it.
func (e *Event) enter(what string) error {
	if e == nil {
		return refuse("%s: no event given (nil)", what)
	}
	for {
		v := e.state.Load()
		switch {
		case v&eventClosed != 0:
			return fmt.Errorf("%s: %v: %w", what, e, ErrClosed)
		case v&eventUsers == eventUsers: // no room for another
			runtime.Gosched()
		case e.state.CompareAndSwap(v, v+1):
			return nil
		}
	}
}

func (e *Event) leave() { e.left(e.state.Add(^uint64(0))) }

// left is for a use that has ended: the last of a closed event destroys it.
func (e *Event) left(v uint64) {
	if v&(eventClosed|eventUsers) == eventClosed {
		_ = e.g.soon(e.destroy)
	}
}

// Record makes the event stand for all work that is in the stream now
// (cuEventRecord). The stream and the event must be of one GPU.
func (s *Stream) Record(e *Event) error {
	if q := s.runs(); q != nil && q.call() {
		err := q.record(e)
		q.called(notQueued)
		return err
	}
	q, err := s.enter("record an event")
	if err != nil {
		return err
	}
	defer q.leave()
	return q.record(e)
}

// record is Record's part of the driver.
func (q *queue) record(e *Event) (err error) {
	var r recording
	if e != nil {
		r = recording{e.beginAlone(q), q.issued(), true}
	}
	if r.number == 0 {
		if r, err = e.begin(q); err != nil {
			return err
		}
	}
	err = q.g.driver.EventRecord(q.g.ctx, e.handle, q.handle)
	e.end(q, r, err)
	if err != nil {
		return fmt.Errorf("record an event on %v: %w", q, err)
	}
	return nil
}

// fits refuses streams of another GPU than the event's.
func (e *Event) fits(q *queue) error {
	if !sameDriver(e.g.driver, q.g.driver) || e.g.ctx != q.g.ctx {
		return &refusal{cu.ErrorInvalidHandle, fmt.Sprintf("record %v on %v: they must be of one GPU", e, q)}
	}
	return nil
}

// recording is a Record in progress.
type recording struct {
	number uint64 // of the event's Records
	seq    uint64 // all of the stream up to here is before it
	alone  bool
}

// beginAlone is begin where nobody uses the event, as nearly always. It is the
// Record's number, 0 if there is more to look at.
func (e *Event) beginAlone(q *queue) (number uint64) {
	v := e.state.Load()
	if v&^eventRecords == 0 && v != eventRecords && e.g == q.g && e.state.CompareAndSwap(v, v+eventRecord+eventRecorder+1) {
		return v/eventRecord + 1
	}
	return 0
}

// begin starts to record the event on q, which uses it; end ends both.
func (e *Event) begin(q *queue) (recording, error) {
	if e == nil {
		return recording{}, e.enter("record")
	}
	for {
		v := e.state.Load()
		switch {
		case v&eventClosed != 0:
			return recording{}, e.enter("record")
		case v&eventUsers == eventUsers || v&eventRecorders == eventRecorders: // no room for another
			runtime.Gosched()
			continue
		}
		if e.g != q.g {
			if err := e.fits(q); err != nil {
				return recording{}, err
			}
		}
		next := (v + eventRecord) & eventRecords
		if next == 0 {
			next = eventRecord
		}
		if e.state.CompareAndSwap(v, next|v&(eventRecorders|eventUsers)+eventRecorder+1) {
			return recording{next / eventRecord, q.issued(), v&eventRecorders == 0}, nil
		}
	}
}

// end notes what the event stands for, and ends the use.
func (e *Event) end(q *queue, r recording, err error) {
	if err == nil && r.alone {
		e.note(q, r)
	}
	e.left(e.state.Add(^uint64(eventRecorder)))
}

// WaitEvent holds later work of the stream back until what the event stands for
// is done (cuStreamWaitEvent). Recording the event again later changes nothing
// for this stream. The event may be of another GPU of the driver.
//
// Waiting for an event that was recorded in a capture makes the stream part of
// the capture: see [Stream.Capture].
func (s *Stream) WaitEvent(e *Event) error {
	q, err := s.enter("wait for an event")
	if err != nil {
		return err
	}
	err = s.waitEvent(q, e)
	q.finish(err == nil)
	return err
}

// waitEvent is WaitEvent's part of the driver. q is the stream's.
func (s *Stream) waitEvent(q *queue, e *Event) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	defer e.leave()
	if !sameDriver(e.g.driver, q.g.driver) {
		return refuse("let %v wait for %v: they must be of one driver", q, e)
	}
	c := e.captured()
	err := q.mayFollow(c)
	switch {
	case err != nil:
	case c != q.c:
		err = c.join(s, e)
	default:
		err = q.follow(e.handle)
	}
	if err != nil {
		return fmt.Errorf("let %v wait for an event: %w", q, err)
	}
	return nil
}

// follow is StreamWaitEvent.
func (q *queue) follow(e cu.Event) error {
	return q.g.driver.StreamWaitEvent(q.g.ctx, q.handle, e, cu.EventWaitDefault)
}

// note notes what the event stands for. Only a Record that began alone does so, before
// it ends: one that begins meanwhile is not alone. Who looks finds that no Record
// is in progress, before and after, and that none has begun in between: so these need
// not be atomic instructions, as what says so is, before and after them.
//
//go:norace
func (e *Event) note(q *queue, r recording) {
	if q.c != nil {
		e.known = recorded{r.number, nil, 0, q.c}
	} else {
		e.known = recorded{r.number, q, r.seq, nil}
	}
}

// standsFor is what the event stands for; nothing where that is not known.
//
//go:norace
func (e *Event) standsFor() recorded {
	const records = eventRecorders | eventRecords
	before := e.state.Load() & records
	known := e.known
	after := e.state.Add(0) & records // which comes after the line above, on every processor
	if before != after || after&eventRecorders != 0 || known.number != after/eventRecord {
		return recorded{}
	}
	return known
}

// passed notes what is done because the event is: number is of the Record that was
// the last when the question was asked.
func (e *Event) passed(number uint64) {
	if k := e.standsFor(); k.q != nil && k.number == number {
		k.q.pass(k.seq)
	}
}

// version is the number of the Record that was begun last, 0 before the first.
func (e *Event) version() uint64 { return e.state.Load() & eventRecords / eventRecord }

// Wait waits until what the event stands for is done (cuEventSynchronize). When
// ctx ends first, the error wraps ctx.Err() and the work goes on.
func (e *Event) Wait(ctx context.Context) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	defer e.leave()
	sync := func() error {
		if err := e.enter("wait for"); err != nil { // the caller may have given up
			return err
		}
		defer e.leave()
		known := e.version()
		if err := e.g.driver.EventSynchronize(e.g.ctx, e.handle); err != nil {
			return err
		}
		e.passed(known)
		return nil
	}
	if err := e.hasRun(); err != nil {
		return fmt.Errorf("wait for %v: %w", e, err)
	}
	if done, err := e.poll(ctx); done {
		if err != nil {
			return fmt.Errorf("wait for %v: %w", e, err)
		}
		return nil
	}
	// Errors of the work are sticky: one that nobody hears comes again.
	if err := e.waits.wait(ctx, e.g, sync, func(error) {}); err != nil {
		return fmt.Errorf("wait for %v: %w", e, err)
	}
	return nil
}

// poll asks the driver for a short while whether the event is done, if that is
// better than to wait with a context.
func (e *Event) poll(ctx context.Context) (done bool, err error) {
	if ctx.Done() == nil || e.sleeps || e.g.emulated != nil {
		return false, nil
	}
	known := e.version()
	done, err = poll(ctx, func() error { return e.g.driver.EventQuery(e.g.ctx, e.handle) })
	if done && err == nil {
		e.passed(known)
	}
	return done, err
}

// Done says whether what the event stands for is done, without waiting
// (cuEventQuery).
func (e *Event) Done() (bool, error) {
	if err := e.enter("query"); err != nil {
		return false, err
	}
	defer e.leave()
	if err := e.hasRun(); err != nil {
		return false, fmt.Errorf("query %v: %w", e, err)
	}
	known := e.version()
	switch err := e.g.driver.EventQuery(e.g.ctx, e.handle); {
	case errors.Is(err, cu.ErrorNotReady):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("query %v: %w", e, err)
	}
	e.passed(known)
	return true, nil
}

// Since is the time on the device from an earlier event to this one
// (cuEventElapsedTime), good to about half a microsecond. Both must have been
// recorded, with timing; work that is not done yet is cu.ErrorNotReady.
func (e *Event) Since(earlier *Event) (time.Duration, error) {
	if err := e.enter("measure"); err != nil {
		return 0, err
	}
	defer e.leave()
	if err := earlier.enter("measure from"); err != nil {
		return 0, err
	}
	defer earlier.leave()
	switch {
	case !sameDriver(e.g.driver, earlier.g.driver) || e.g.ctx != earlier.g.ctx:
		return 0, &refusal{cu.ErrorInvalidHandle, fmt.Sprintf("measure from %v to %v: they must be of one GPU", earlier, e)}
	case !e.timing || !earlier.timing:
		return 0, refuse("measure between events of %s: one was made with NoTiming", e.g.label)
	case e.version() == 0 || earlier.version() == 0:
		return 0, refuse("measure between events of %s: one was never recorded", e.g.label)
	}
	if err := errors.Join(earlier.hasRun(), e.hasRun()); err != nil {
		return 0, fmt.Errorf("measure between events of %s: %w", e.g.label, err)
	}
	ms, err := e.g.driver.EventElapsedTime(e.g.ctx, earlier.handle, e.handle)
	if err != nil {
		return 0, fmt.Errorf("measure between events of %s: %w", e.g.label, err)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

// Close gives the event up; streams that wait for it go on to do so
// (cuEventDestroy). Close of a closed or nil event is nil.
func (e *Event) Close() error {
	if e == nil {
		return nil
	}
	e.leak.Stop()
	if e.state.Or(eventClosed)&(eventClosed|eventUsers) == 0 {
		return e.g.soon(e.destroy)
	}
	return nil
}

// destroy is the driver's part of Close.
func (e *Event) destroy() error {
	err := e.g.driver.EventDestroy(e.g.ctx, e.handle)
	if inCallback(err) {
		return err
	}
	e.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", e, err)
	}
	return nil
}
