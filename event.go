package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Event is a mark in a stream that others wait for, and between two of which time is
// measured. It is safe for concurrent use.
type Event struct {
	g        *GPU
	handle   cu.Event
	state    inflight.Event // its users are calls that use handle
	timing   bool
	blocking bool
	waits    await.Group
	leak     runtime.Cleanup

	_ [4]uint64 // whole lines of the cache: the allocator then begins it at one
}

// EventOptions say how an event is made.
type EventOptions struct {
	// NoTiming makes an event that is for waiting only and cheaper
	// (CU_EVENT_DISABLE_TIMING).
	NoTiming bool
	// Blocking lets the thread sleep in Wait instead of spinning
	// (CU_EVENT_BLOCKING_SYNC).
	Blocking bool
}

// NewEvent makes an event (cuEventCreate). Until it is recorded it counts as done. o
// may be nil.
func NewEvent(g *GPU, o *EventOptions) (*Event, error) {
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
	e := &Event{g: g, handle: handle, timing: !o.NoTiming, blocking: o.Blocking}
	e.leak = watchLeak(e, e.String)
	return e, nil
}

// String names the event's GPU.
func (e *Event) String() string {
	if e == nil || e.g == nil {
		return "no event"
	}
	return "an event of " + e.g.label
}

// enter counts a call that uses the event. leave ends the use.
func (e *Event) enter(what string) error {
	if e == nil || e.g == nil {
		return refusal.Invalid("%s: no event given (nil)", what)
	}
	if !e.state.Enter() {
		return fmt.Errorf("%s: %v: %w", what, e, ErrClosed)
	}
	return nil
}

func (e *Event) leave() { e.left(e.state.Leave()) }

// left destroys a closed event after its last use.
func (e *Event) left(last bool) {
	if last {
		_ = e.g.deferred.do(e.destroy)
	}
}

// record records the event in a stream that the caller uses.
func (e *Event) record(st *streamState) error {
	r, err := e.beginRecord(st)
	if err != nil {
		return err
	}
	if err = st.g.driver.EventRecord(st.g.ctx, e.handle, st.handle); err != nil {
		e.endRecord(r, nil)
		return fmt.Errorf("record an event on %v: %w", st, err)
	}
	e.endRecord(r, &st.Stream)
	return nil
}

// beginRecord starts a Record. endRecord must follow.
func (e *Event) beginRecord(st *streamState) (inflight.Record, error) {
	if e == nil || e.g == nil {
		return inflight.Record{}, e.enter("record")
	}
	if e.g != st.g && !e.g.sameContext(st.g) {
		return inflight.Record{}, refusal.New(cu.ErrorInvalidHandle, "record %v on %v: they must belong to one GPU", e, st)
	}
	r, ok := e.state.BeginRecord(&st.Stream)
	if !ok {
		return r, fmt.Errorf("record: %v: %w", e, ErrClosed)
	}
	return r, nil
}

// endRecord ends a Record in a stream, which is nil if the driver did not make it.
func (e *Event) endRecord(r inflight.Record, s *inflight.Stream) { e.left(e.state.EndRecord(r, s)) }

// holdBack is WaitEvent of a stream, with the state that operations go to.
func (e *Event) holdBack(s *Stream, st *streamState) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	defer e.leave()
	if !sameDriver(e.g.driver, st.g.driver) {
		return refusal.Invalid("let %v wait for %v: they must belong to one driver", st, e)
	}
	c := e.captured()
	err := c.mayJoin(st)
	switch {
	case err != nil:
	case c != st.capture:
		err = c.join(s, e)
	default:
		err = st.follow(e.handle)
	}
	if err != nil {
		return fmt.Errorf("let %v wait for an event: %w", st, err)
	}
	return nil
}

// captured is the capture that the event was recorded in last, nil if it was recorded
// in a stream that runs.
func (e *Event) captured() *capture {
	return capturedIn(e.state.StandsFor())
}

// capturedIn is the capture whose stream an event stands for, nil if it is none.
func capturedIn(m inflight.Meaning) *capture {
	if s := m.Stream(); s != nil {
		return stateOfStream(s).capture
	}
	return nil
}

// meaning is what the event stands for. It refuses an event that a capture has
// recorded.
func (e *Event) meaning() (inflight.Meaning, error) {
	m := e.state.StandsFor()
	switch c := capturedIn(m); {
	case c == nil:
		return m, nil
	case c.isOver():
		return m, errCaptured
	}
	return m, refusal.New(cu.ErrorCapturedEvent, "the event was recorded in a capture, where nothing runs")
}

// Wait waits until what the event stands for is done (cuEventSynchronize). When ctx
// ends first, the error wraps ctx.Err() and the work goes on. A nil ctx never ends.
func (e *Event) Wait(ctx context.Context) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	defer e.leave()
	ctx = await.Context(ctx)
	_, err := e.meaning()
	if err == nil {
		var done bool
		if done, err = e.poll(ctx); !done {
			// Errors of the work are sticky: one that is lost comes again.
			err = e.g.await(ctx, &e.waits, e.synchronize, func(error) {})
		}
	}
	if err != nil {
		return fmt.Errorf("wait for %v: %w", e, err)
	}
	return nil
}

// synchronize waits in the driver and notes what is done.
func (e *Event) synchronize() error {
	if err := e.enter("wait for"); err != nil { // the caller may have given up
		return err
	}
	defer e.leave()
	m := e.state.StandsFor()
	err := e.g.driver.EventSynchronize(e.g.ctx, e.handle)
	if err == nil {
		e.state.Passed(m)
	}
	return err
}

// poll asks the driver for a short while whether the event is done, where a wait with
// a context would need a goroutine, which takes longer.
func (e *Event) poll(ctx context.Context) (done bool, err error) {
	if ctx.Done() == nil || e.blocking || e.g.emulated != nil {
		return false, nil
	}
	return await.Poll(ctx, e.g.tuning.wait.Spin, e.query)
}

// query asks the driver whether the event is done, and notes it if so.
func (e *Event) query() error {
	m, err := e.meaning()
	if err == nil {
		err = e.g.driver.EventQuery(e.g.ctx, e.handle)
	}
	if err == nil {
		e.state.Passed(m)
	}
	return err
}

// Done reports whether what the event stands for is done, without waiting
// (cuEventQuery).
func (e *Event) Done() (bool, error) {
	if err := e.enter("query"); err != nil {
		return false, err
	}
	defer e.leave()
	switch err := e.query(); {
	case errors.Is(err, cu.ErrorNotReady):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("query %v: %w", e, err)
	}
	return true, nil
}

// Since is the time on the device from an earlier event to this one
// (cuEventElapsedTime), good to about half a microsecond. Both must have been
// recorded, with timing. Work that is not done yet is cu.ErrorNotReady.
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
	case !e.g.sameContext(earlier.g):
		return 0, refusal.New(cu.ErrorInvalidHandle, "measure from %v to %v: they must belong to one GPU", earlier, e)
	case !e.timing || !earlier.timing:
		return 0, refusal.Invalid("measure between events of %s: one was made with NoTiming", e.g.label)
	case !e.state.Recorded() || !earlier.state.Recorded():
		return 0, refusal.Invalid("measure between events of %s: one was never recorded", e.g.label)
	}
	_, err := earlier.meaning()
	if err == nil {
		_, err = e.meaning()
	}
	var ms float32
	if err == nil {
		ms, err = e.g.driver.EventElapsedTime(e.g.ctx, earlier.handle, e.handle)
	}
	if err != nil {
		return 0, fmt.Errorf("measure between events of %s: %w", e.g.label, err)
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

// Close gives the event up. Streams that wait for it go on to do so
// (cuEventDestroy). Close of a closed or nil event is nil.
func (e *Event) Close() error {
	if e == nil || e.g == nil {
		return nil
	}
	e.leak.Stop()
	if e.state.Close() {
		return e.g.deferred.do(e.destroy)
	}
	return nil
}

// destroy is the driver's part of Close.
func (e *Event) destroy() error {
	err := e.g.driver.EventDestroy(e.g.ctx, e.handle)
	if inHostFunction(err) {
		return err
	}
	e.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", e, err)
	}
	return nil
}

// completionEvent stands for the end of all work of a destroyed stream. The driver's
// event is destroyed when it is seen to have passed, or with the context.
type completionEvent struct {
	event    cu.Event
	lifetime inflight.Lifetime // its users are calls about event; closed when it has passed
}

// newCompletionEvent records the end of a stream's work. Where that cannot be done it
// waits for the work instead and returns nil.
func newCompletionEvent(st *streamState) (*completionEvent, error) {
	d, ctx := st.g.driver, st.g.ctx
	event, err := d.EventCreate(ctx, cu.EventDisableTiming)
	if err == nil {
		if err = d.EventRecord(ctx, event, st.handle); err == nil {
			return &completionEvent{event: event}, nil
		}
		err = errors.Join(err, d.EventDestroy(ctx, event))
	}
	if inHostFunction(err) {
		return nil, err
	}
	n := st.Issued()
	if err := d.StreamSynchronize(ctx, st.handle); err != nil {
		st.pending.add(err)
	} else {
		st.Complete(n)
	}
	return nil, nil
}

// wait returns when the work is done. The work of a nil completionEvent is.
func (c *completionEvent) wait(g *GPU) error {
	return c.ask(g, func() error { return g.driver.EventSynchronize(g.ctx, c.event) })
}

// query reports whether the work is done, without waiting.
func (c *completionEvent) query(g *GPU) bool {
	err := c.ask(g, func() error { return g.driver.EventQuery(g.ctx, c.event) })
	return err == nil || sticky(err)
}

// ask calls the driver about the event. After a success the event is destroyed.
func (c *completionEvent) ask(g *GPU, call func() error) error {
	if c == nil || g.released.Load() || !c.lifetime.Enter() {
		return nil // seen to have passed before
	}
	err := call()
	if err == nil {
		c.lifetime.Close()
	}
	if c.lifetime.Leave() {
		err = errors.Join(err, g.driver.EventDestroy(g.ctx, c.event))
	}
	return err
}
