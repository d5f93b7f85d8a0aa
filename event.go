package ferry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Event is a marker in a stream. Streams and goroutines can wait for it, and two events
// measure the time between them. It is safe for concurrent use.
type Event struct {
	g        *GPU
	handle   cu.Event
	state    inflight.Event // its users are calls that use handle
	timing   bool
	blocking bool
	wrapped  bool // another library owns the driver's event: see WrapEvent
	waits    await.Group
	leak     runtime.Cleanup

	_ [3]uint64 // pads to whole cache lines, so that the allocator aligns it to them
}

// EventOptions are the options of [NewEvent].
type EventOptions struct {
	// NoTiming makes a cheaper event, which cannot measure time
	// (CU_EVENT_DISABLE_TIMING).
	NoTiming bool
	// Blocking makes Wait sleep at once, as with [GPU.SetSaveCPU] (CU_EVENT_BLOCKING_SYNC).
	Blocking bool
}

// NewEvent makes an event (cuEventCreate). Until its first Record the event counts as
// done. o may be nil.
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
	e.leak = leak.Watch(e, e.String)
	return e, nil
}

// String returns a description of the event: "an event of cuda:0".
func (e *Event) String() string {
	if e == nil || e.g == nil {
		return "no event"
	}
	if e.wrapped {
		return "a wrapped event of " + e.g.label
	}
	return "an event of " + e.g.label
}

// GPU returns the GPU of the event.
func (e *Event) GPU() *GPU {
	if e == nil {
		return nil
	}
	return e.g
}

// Handle returns the driver's handle of the event (a CUevent), for another library that records
// it, waits for it or asks for it. Ferry cannot know what the event stands for then. So from then
// on Wait and Done are about the latest record in the driver, and say nothing about buffers in
// flight. The other library must not destroy the event, and must not record it in a capture.
// After Close the handle is dead: see [Stream.Handle].
func (e *Event) Handle() cu.Event {
	if e == nil || e.g == nil {
		return 0
	}
	e.state.Share()
	return e.handle
}

// enter counts a call that uses the event. It fails when the event is nil or closed. leave
// ends the use.
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

// leaveAsync is leave for a goroutine that must not destroy the event.
func (e *Event) leaveAsync() {
	if e.state.Leave() {
		go e.left(true)
	}
}

// left destroys a closed event after its last use.
func (e *Event) left(last bool) {
	if last {
		_ = closing.AfterHostFunction(e.destroy)
	}
}

// record records the event in a stream, which the caller has entered.
func (e *Event) record(st *streamState) error {
	r, err := e.beginRecord(st)
	if err != nil {
		return err
	}
	recorded := (*inflight.Stream)(nil)
	defer func() { e.endRecord(r, recorded) }()
	handle, err := st.capture.eventFor(e)
	if err == nil {
		err = st.g.driver.EventRecord(st.g.ctx, handle, st.handle)
	}
	if err != nil {
		return fmt.Errorf("record an event on %v: %w", st, err)
	}
	recorded = &st.Stream
	return nil
}

// beginRecord starts a Record. The caller must end it with endRecord.
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

// endRecord ends a Record. s is nil if the driver did not make it.
func (e *Event) endRecord(r inflight.Record, s *inflight.Stream) { e.left(e.state.EndRecord(r, s)) }

// holdBack makes the stream s wait for the event. st is the state that operations of s go
// to.
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
		err = c.followIn(st, e)
	}
	if err != nil {
		return fmt.Errorf("let %v wait for an event: %w", st, err)
	}
	return nil
}

// captured returns the capture in which the event was recorded last. It is nil if the
// stream did not capture then. It is also nil if the capture is over and the event is shared,
// because another library may have recorded it since.
func (e *Event) captured() *capture {
	c := capturedIn(e.state.StandsFor())
	if c != nil && e.state.Shared() && c.isOver() {
		return nil
	}
	return c
}

// capturedIn returns the capture of the stream that an event stands for, or nil.
func capturedIn(m inflight.Meaning) *capture {
	if s := m.Stream(); s != nil {
		return stateOfStream(s).capture
	}
	return nil
}

// meaning returns what the event stands for. It fails if the event was recorded last in a
// capture. Of a shared event whose capture is over that is not known, and the driver is asked.
func (e *Event) meaning() (inflight.Meaning, error) {
	m := e.state.StandsFor()
	switch c := capturedIn(m); {
	case c == nil:
		return m, nil
	case c.isOver() && e.state.Shared():
		return inflight.Meaning{}, nil
	case c.isOver():
		return m, errCaptured
	}
	return m, refusal.New(cu.ErrorCapturedEvent, "the event was recorded in a capture, where nothing runs: record it in a stream that does not capture")
}

// Wait waits until the work that the event stands for is done (cuEventQuery until then; on
// the software GPU cuEventSynchronize). When ctx ends first, the error wraps ctx.Err() and
// the work continues. A nil ctx never ends. For an event that was recorded in a capture,
// the error wraps cu.ErrorCapturedEvent until the capture ends. After that it wraps
// cu.ErrorInvalidValue, unless the handle was taken, see [Event.Handle].
func (e *Event) Wait(ctx context.Context) error {
	if err := e.enter("wait for"); err != nil {
		return err
	}
	defer e.leave()
	ctx = await.Context(ctx)
	_, err := e.meaning()
	if err == nil {
		err = e.await(ctx)
	}
	if err != nil {
		return fmt.Errorf("wait for %v: %w", e, err)
	}
	return nil
}

// await waits until the event is done, or ctx ends. The caller has entered the event.
func (e *Event) await(ctx context.Context) error {
	if e.g.poller == nil || e.state.Shared() { // questions about a shared event may meet a later record
		// The dropped error comes back: errors of the work are sticky, and the next call
		// returns them again.
		return e.g.await(ctx, &e.waits, e.synchronize, func(error) {})
	}
	w := eventWaits.Get().(*eventWait)
	*w = eventWait{e: e, m: e.state.StandsFor()}
	kept, err := e.g.poll(ctx, w, e.blocking)
	if !kept {
		err = w.result(ctx, err)
		eventWaits.Put(w)
	}
	return err
}

// synchronize waits in the driver and records which operations are done.
func (e *Event) synchronize() error {
	if err := e.enter("wait for"); err != nil { // Wait may have returned early, and the event may be closed
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

// query asks the driver whether the event is done. If so, it records which operations are
// done.
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

// Done reports whether the work that the event stands for is done (cuEventQuery). It does
// not wait. Errors are as for Wait.
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

// Since returns the time on the device from an earlier event to e (cuEventElapsedTime).
// The resolution is about half a microsecond. Both events must have been recorded, and
// made without NoTiming, else the error wraps cu.ErrorInvalidHandle. If their work is not
// done, it wraps cu.ErrorNotReady.
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
		return 0, refusal.New(cu.ErrorInvalidHandle, "measure between events of %s: one was made with NoTiming", e.g.label)
	case !e.mayBeRecorded() || !earlier.mayBeRecorded():
		return 0, refusal.New(cu.ErrorInvalidHandle, "measure between events of %s: one was never recorded", e.g.label)
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

// mayBeRecorded reports whether the event was recorded, or another library may have done it.
func (e *Event) mayBeRecorded() bool { return e.state.Recorded() || e.state.Shared() }

// Close closes the event (cuEventDestroy). Streams that wait for it continue to wait. An event of
// [WrapEvent] is not destroyed. Close of a closed or nil event does nothing and returns nil.
func (e *Event) Close() error {
	if e == nil || e.g == nil {
		return nil
	}
	e.leak.Stop()
	if e.state.Close() {
		return closing.AfterHostFunction(e.destroy)
	}
	return nil
}

// destroy destroys the driver's event and leaves the GPU.
func (e *Event) destroy() error {
	var err error
	if !e.wrapped {
		err = e.g.driver.EventDestroy(e.g.ctx, e.handle)
	}
	if closing.InHostFunction(err) {
		return err
	}
	e.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", e, err)
	}
	return nil
}

// follow makes later work of a stream wait for an event of the driver (cuStreamWaitEvent).
func follow(st *streamState, e cu.Event) error {
	return st.g.driver.StreamWaitEvent(st.g.ctx, st.handle, e, cu.EventWaitDefault)
}

// followStream makes later work of a stream wait for all work that is queued on another
// stream now. ok is false if that stream belongs to another driver. The other stream may be
// closed.
func followStream(st, other *streamState) (ok bool, err error) {
	if !sameDriver(other.g.driver, st.g.driver) {
		return false, nil
	}
	if !other.EnterUsed() {
		if err := other.awaitDestroyed(); err != nil {
			return false, err
		}
		err := other.completion.follow(other.g, st)
		return err == nil, err
	}
	defer other.Leave()
	d := other.g.driver
	event, err := d.EventCreate(other.g.ctx, cu.EventDisableTiming)
	if err != nil {
		return false, err
	}
	if err = d.EventRecord(other.g.ctx, event, other.handle); err == nil {
		err = follow(st, event)
	}
	err = refusal.Join(err, d.EventDestroy(other.g.ctx, event))
	return err == nil, err
}

// completionEvent stands for the end of all work that a stream had at some time, such as
// when it was destroyed. The driver's event is destroyed when a call finds that it has
// completed, or with the context.
type completionEvent struct {
	event    cu.Event          // 0 if it could not be recorded: then the context is asked instead
	lifetime inflight.Lifetime // its users are calls about event; closed when event has completed
	kept     bool              // the GPU destroys event, if nobody did before
}

// recordCompletion records an event after all work of a stream.
func recordCompletion(st *streamState) (*completionEvent, error) {
	d, ctx := st.g.driver, st.g.ctx
	event, err := d.EventCreate(ctx, cu.EventDisableTiming)
	if err != nil {
		return nil, err
	}
	if err := d.EventRecord(ctx, event, st.handle); err != nil {
		return nil, refusal.Join(err, d.EventDestroy(ctx, event))
	}
	return &completionEvent{event: event}, nil
}

// newCompletionEvent is recordCompletion for a stream that is being destroyed. If it fails,
// it waits for the work instead and returns nil. If that fails, too, the result stands for all
// work of the context, because the stream will be no more.
func newCompletionEvent(st *streamState) (*completionEvent, error) {
	c, err := recordCompletion(st)
	if err == nil {
		st.g.completions.add(c)
	}
	if err == nil || closing.InHostFunction(err) {
		return c, err
	}
	n := st.Issued()
	if err := st.g.driver.StreamSynchronize(st.g.ctx, st.handle); err != nil {
		st.pending.add(err)
		if st.ask() != nil { // else err is of work that is done, such as a panic of a host function
			return new(completionEvent), nil
		}
	}
	st.Complete(n)
	return nil, nil
}

// wait waits until the work is done. For a nil completionEvent it is done already.
func (c *completionEvent) wait(g *GPU) error {
	entered, done := c.enter(g)
	switch {
	case done:
		return nil
	case !entered:
		return g.legacy.state.awaitDestroyed()
	}
	return c.call(g, func() (bool, error) {
		err := c.synchronize(g)
		return err == nil, err
	})
}

// call calls f, which calls the driver about the event, and ends the use of the event,
// however f ends. f reports whether the work is done.
func (c *completionEvent) call(g *GPU, f func() (done bool, err error)) (err error) {
	done := false
	defer func() {
		if failed := c.leave(g, done); failed != nil {
			err = refusal.Join(err, failed)
		}
	}()
	done, err = f()
	return err
}

// ask asks the driver whether the work is done. The error is cu.ErrorNotReady if it is not.
func (c *completionEvent) ask(g *GPU) error {
	entered, done := c.enter(g)
	switch {
	case done:
		return nil
	case !entered:
		return cmp.Or(g.mayWait(), error(cu.ErrorNotReady))
	}
	return c.call(g, func() (bool, error) {
		err := error(nil)
		if c.event == 0 { // nothing can be asked
			err = c.synchronize(g)
		} else {
			err = g.driver.EventQuery(g.ctx, c.event)
		}
		return err == nil, err
	})
}

// synchronize waits in the driver.
func (c *completionEvent) synchronize(g *GPU) error {
	if c.event == 0 {
		return g.synchronizeContext()
	}
	return g.driver.EventSynchronize(g.ctx, c.event)
}

// drop destroys the event, which may not have completed yet. Nobody needs it any more.
func (c *completionEvent) drop(g *GPU) {
	if entered, _ := c.enter(g); entered {
		_ = c.leave(g, true)
	}
}

// follow makes later work of a stream wait for the event.
func (c *completionEvent) follow(g *GPU, st *streamState) error {
	entered, done := c.enter(g)
	switch {
	case done:
		return nil
	case !entered:
		return g.legacy.state.awaitDestroyed()
	}
	return c.call(g, func() (bool, error) {
		if c.event == 0 {
			err := c.synchronize(g)
			return err == nil, err
		}
		return false, follow(st, c.event)
	})
}

// enter counts a call that uses the event, and keeps the context from being released
// meanwhile. done reports that the work is known to be done. If both results are false, the
// context is being released, which waits for all work.
func (c *completionEvent) enter(g *GPU) (entered, done bool) {
	switch {
	case c == nil || g.released.Load():
		return false, true
	case !g.legacy.state.EnterUsed(): // the last user of the default stream releases the context
		return false, false
	case !c.lifetime.Enter():
		g.legacy.state.Leave()
		return false, true
	}
	return true, false
}

// leave ends a use. If the work is done, nobody needs the event any more, and the last user
// destroys it.
func (c *completionEvent) leave(g *GPU, done bool) (err error) {
	defer g.legacy.state.LeaveAsync() // the poller is no place to release the context
	if done {
		c.lifetime.Close()
	}
	if c.lifetime.Leave() {
		if c.kept {
			g.completions.remove(c)
		}
		if c.event != 0 {
			err = g.driver.EventDestroy(g.ctx, c.event)
		}
	}
	return err
}

// completions has the events of destroyed streams, of channels of [Stream.Notify], and of
// allocations in stream order.
type completions struct {
	mu  sync.Mutex
	all map[*completionEvent]struct{}
}

func (l *completions) add(c *completionEvent) {
	c.kept = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*completionEvent]struct{}{}
	}
	l.all[c] = struct{}{}
}

func (l *completions) remove(c *completionEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, c)
}

// drop destroys the events that nobody has asked for again. Nothing uses the GPU any more.
func (l *completions) drop(g *GPU) (err error) {
	for c := range l.all {
		if failed := g.driver.EventDestroy(g.ctx, c.event); !refusal.Sticky(failed) { // a lost context has no events
			err = refusal.Join(err, failed)
		}
	}
	return err
}
