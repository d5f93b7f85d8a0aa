package ferry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// synchronize waits for the context and records which operations are done. While a stream
// captures it returns errCapturing.
func (g *GPU) synchronize() error {
	type issued struct {
		st *streamState
		n  uint64
	}
	if err := g.enter("wait"); err != nil { // Wait may have returned early, and the GPU may be closed
		return err
	}
	defer g.leave()
	var all []issued
	for _, st := range g.openStreams() {
		all = append(all, issued{st, st.Issued()})
	}
	if err := g.synchronizeContext(); err != nil {
		return err
	}
	for _, x := range all {
		x.st.Complete(x.n)
	}
	return nil
}

// errCapturing is the error of a wait for all work while a stream captures.
var errCapturing = refusal.New(cu.ErrorStreamCaptureUnsupported, "a stream captures, and the wait would invalidate the capture: wait for single streams or buffers, or after the capture")

// synchronizeContext waits in the driver for all work of the context. While a stream captures
// it returns errCapturing: the driver would invalidate the capture.
func (g *GPU) synchronizeContext() error {
	ok, err := g.captures.Wait(func() error { return g.driver.CtxSynchronize(g.ctx) })
	if !ok {
		return errCapturing
	}
	return err
}

// finish waits for what is left of the work of a GPU whose objects are closed: for closed
// streams and the default stream. If no other GPU has the context, it waits for all work and
// returns the errors of the work. Otherwise errors are for waits of the other GPUs, which may
// also capture, so finish waits for events. Two GPUs of one context that are closed at the same
// time can each find the other: then no wait is left, and an error of the work may be lost.
func (g *GPU) finish(closed []*streamState) error {
	if len(g.shared.sharing(g)) == 0 {
		if err := g.synchronizeContext(); err != errCapturing { // else another GPU was opened meanwhile
			return err
		}
	}
	var all []error
	for _, st := range closed {
		all = append(all, st.completion.wait(g))
	}
	return refusal.Join(append(all, g.finishDefault())...)
}

// finishDefault waits with an event for the default stream, unless it is idle, or another library
// captures in a way that forbids it.
func (g *GPU) finishDefault() error {
	st := g.legacy.state
	if st.Idle() || g.legacyCaptures() {
		return nil
	}
	c, err := recordCompletion(st)
	if err == nil {
		err = refusal.Join(c.synchronize(g), g.driver.EventDestroy(g.ctx, c.event))
	}
	return err
}

// await calls sync, which waits in the driver, until ctx ends. On hardware, and if ctx can
// end, sync runs on another goroutine that all callers share. The driver cannot know there
// that a caller is in a host function. So await checks that first.
func (g *GPU) await(ctx context.Context, waits *await.Group, sync func() error, lost func(error)) error {
	if g.emulated != nil && ctx.Done() == nil {
		return sync()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := g.mayWait(); err != nil {
		return err
	}
	return waits.Wait(ctx, sync, lost)
}

// takePending returns the errors of asynchronous work that no call has returned yet,
// those of the device and of its streams.
func (g *GPU) takePending() error {
	var all []error
	if err := g.pending.take(); err != nil {
		all = append(all, fmt.Errorf("wait for all work of %s: %w", g.label, err))
	}
	for _, st := range g.openStreams() {
		if err := st.pending.take(); err != nil {
			all = append(all, st.explain(err))
		}
	}
	return refusal.Join(all...)
}

// synchronizeContext waits for all work queued so far, until ctx ends.
func (st *streamState) synchronizeContext(ctx context.Context) error {
	err := st.waitContext(ctx)
	st.g.keptSlices.Drop()
	return err
}

func (st *streamState) waitContext(ctx context.Context) error {
	if st.g.poller == nil {
		return st.waitInDriver(ctx)
	}
	w, n := streamWaits.Get().(*streamWait), st.Issued()
	*w = streamWait{st: st, n: n}
	kept, err := st.g.poll(ctx, w, false)
	if !kept {
		w.end()
		streamWaits.Put(w)
	}
	if err == nil && (st.freed.Load() || st.g.freed.Load()) {
		err = st.trimPools(n)
	}
	return err
}

// waitInDriver waits in the driver for all work queued so far, until ctx ends.
func (st *streamState) waitInDriver(ctx context.Context) error {
	return st.g.await(ctx, &st.waits, st.synchronize, st.pending.add)
}

// relaxed is the capture mode of threads that ask the driver. In another mode a question
// invalidates the captures of other threads. It implements await.Thread.
type relaxed struct{ driver cu.Driver }

// Enter changes the mode. If the driver refuses, Leave changes nothing.
func (r relaxed) Enter() (state uint32) {
	mode, err := r.driver.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
	if err != nil {
		mode = cu.StreamCaptureModeRelaxed
	}
	return uint32(mode)
}

func (r relaxed) Leave(state uint32) {
	if mode := cu.StreamCaptureMode(state); mode != cu.StreamCaptureModeRelaxed {
		_, _ = r.driver.ThreadExchangeStreamCaptureMode(mode)
	}
}

// target is what a goroutine waits for.
type target interface {
	await.Target
	ofStream() *streamWait // what needs a marker when Ask has returned errUnmarked
}

// poll waits for a target, as await.Poller.Wait does.
func (g *GPU) poll(ctx context.Context, t target, sleepy bool) (kept bool, err error) {
	sleepy = sleepy || g.saveCPU.Load()
	if kept, err = g.poller.Wait(ctx, t, sleepy); kept || err != errUnmarked {
		return kept, err
	}
	w := t.ofStream()
	if w.mark() {
		return g.poller.Wait(ctx, t, sleepy)
	}
	return false, w.st.waitInDriver(ctx)
}

// trimPools waits in the driver for a stream whose first n operations are done. Memory
// pools give unused memory back then, which they do not do when the driver is asked.
func (st *streamState) trimPools(n uint64) error {
	if st.Issued() != n || !st.EnterUsed() {
		return nil // it may be busy: a later wait does it
	}
	defer st.Leave()
	if st.Shared() && notReady(st.ask()) {
		return nil
	}
	st.freed.Store(false)
	st.g.freed.Store(false)
	return st.g.driver.StreamSynchronize(st.g.ctx, st.handle)
}

// streamWait is a wait for the work that is queued on a stream when it begins. It
// implements await.Target.
type streamWait struct {
	st    *streamState
	n     uint64 // operations that were issued before
	asked int
	begin time.Time // of the first asks
	// marker is the end of that work, if the stream may always have more: when operations
	// were issued since, when another library has the stream's handle, or when the wait takes
	// long, because others may use a stream of which this package does not know it.
	marker *completionEvent
}

var streamWaits = sync.Pool{New: func() any { return new(streamWait) }}

// errUnmarked is returned by Ask when the wait needs a marker. The goroutine that waits
// records it, because the driver makes the caller wait while the stream's queue is full.
var errUnmarked = errors.New("the stream may always have more work")

// A wait of this length needs a marker. The time is read every few asks.
const (
	longWait     = 5 * time.Millisecond
	asksForClock = 64
)

// Ask asks the driver whether the work is done, and records that. The poller calls it, so it
// must not destroy or release anything that takes long.
func (w *streamWait) Ask() error {
	st := w.st
	if st.g.released.Load() {
		return nil // release has waited for all work
	}
	if !st.EnterUsed() {
		return st.askDestroyed()
	}
	defer st.LeaveAsync()
	if w.marker != nil {
		if err := w.marker.ask(st.g); err != nil {
			return err
		}
		st.Complete(w.n)
	}
	err := st.ask()
	switch {
	case err == nil:
	case !notReady(err):
		st.askAfter(err)
	case w.marker != nil:
		return nil // what is not done came later
	case st.Issued() != w.n || st.Shared() && st.number != 0 || w.isLong():
		return errUnmarked
	}
	return err
}

func (w *streamWait) ofStream() *streamWait { return w }

// isLong reports whether the wait takes long.
func (w *streamWait) isLong() bool {
	w.asked++
	switch {
	case w.asked%asksForClock != 0:
		return false
	case w.begin.IsZero():
		w.begin = time.Now()
	}
	return time.Since(w.begin) > longWait
}

// mark records the end of the work that is queued now. It reports whether that is marked,
// or known to be done. In the default stream the mark would hold back other streams.
func (w *streamWait) mark() bool {
	st := w.st
	if st.g.released.Load() || !st.EnterUsed() {
		return true
	}
	defer st.Leave()
	if st.number == 0 {
		return false
	}
	var err error
	w.marker, err = recordCompletion(st)
	return err == nil
}

// Abandoned keeps an error that no caller is left to return.
func (w *streamWait) Abandoned(err error) {
	if !closing.InHostFunction(err) && err != errUnmarked {
		w.st.pending.add(err)
	}
	w.end()
}

// end destroys the marker.
func (w *streamWait) end() { w.marker.drop(w.st.g) }

// askDestroyed reports whether the work of a closed stream is done, as ask does. In a host
// function it returns an error: another goroutine may destroy the stream, and its calls may
// wait for the host function.
func (st *streamState) askDestroyed() error {
	select {
	case <-st.destroyed:
		err := st.completion.ask(st.g)
		if err == nil {
			st.Complete(st.Issued()) // there will be no more
		}
		return err
	default:
		return cmp.Or(st.g.mayWait(), error(cu.ErrorNotReady))
	}
}

// eventWait is a wait for an event. It implements await.Target.
type eventWait struct {
	e *Event
	m inflight.Meaning // what it waits for; unknown while a Record is in progress
	// since waits for the stream instead, if the event was recorded again since.
	since *streamWait
}

var eventWaits = sync.Pool{New: func() any { return new(eventWait) }}

// Ask asks the driver whether the event is done, and records that.
func (w *eventWait) Ask() error {
	if w.since != nil {
		return w.since.Ask()
	}
	if !w.e.state.EnterUsed() {
		return nil // its caller gave up, and the event is destroyed
	}
	defer w.e.leaveAsync()
	err := w.e.query()
	switch now, s := w.e.state.StandsFor(), w.m.Stream(); {
	case now == w.m:
		return err
	case s == nil: // it is known now
		w.m = now
		return err
	default: // err is about another Record
		st := stateOfStream(s)
		w.since = &streamWait{st: st, n: st.Issued()}
		return cu.ErrorNotReady
	}
}

func (w *eventWait) ofStream() *streamWait { return w.since }

// Abandoned drops an error of the event: errors of the work are sticky, and the next call
// returns them again.
func (w *eventWait) Abandoned(err error) {
	if w.since != nil {
		w.since.Abandoned(err)
	}
}

// result ends the wait and returns its result. Errors of a stream that are not about the
// device are told by its Wait.
func (w *eventWait) result(ctx context.Context, err error) error {
	e := w.e
	if s := w.since; s != nil {
		if err != nil && ctx.Err() == nil && !refusal.Sticky(err) && !closing.InHostFunction(err) && s.st.Completed(s.n) {
			s.st.pending.add(err)
			err = nil
		}
		s.end()
	} else if err == nil && e.g.freed.Load() && e.state.StandsFor() == w.m { // see trimPools
		e.g.freed.Store(false)
		err = e.g.driver.EventSynchronize(e.g.ctx, e.handle)
	}
	return err
}

// notice is a point of a stream that a channel waits for. It implements await.Target.
type notice struct {
	st     *streamState
	n      uint64 // operations that were issued before
	marker *completionEvent
}

// Ask returns errors only if the context is lost: the point is not reached otherwise.
func (n *notice) Ask() error {
	err := n.marker.ask(n.st.g)
	switch {
	case err == nil:
		n.st.Complete(n.n)
	case !refusal.Sticky(err):
		return cu.ErrorNotReady
	}
	return err
}

func (n *notice) Abandoned(error) { n.marker.drop(n.st.g) }

// notify closes c when the stream reaches this point. The caller has entered the stream.
func (st *streamState) notify(c chan struct{}) error {
	n := st.Issued()
	if st.g.poller == nil {
		return st.g.driver.LaunchHostFunc(st.g.ctx, st.handle, func() { st.Complete(n); close(c) })
	}
	marker, err := recordCompletion(st)
	if err == nil {
		st.g.completions.add(marker)
		st.g.poller.Notify(&notice{st, n, marker}, c)
	}
	return err
}

// synchronize waits in the driver for all work queued so far.
func (st *streamState) synchronize() error {
	n := st.Issued()
	err := st.driverWait()
	if err == nil {
		st.Complete(n)
	}
	st.askAfter(err)
	return err
}

// askAfter asks again after a wait that returned an error, such as the panic of a host
// function: the work may be done.
func (st *streamState) askAfter(err error) {
	if err == nil || refusal.Sticky(err) || closing.InHostFunction(err) || !st.EnterUsed() {
		return
	}
	defer st.Leave()
	_ = st.askKeeping()
}

// ask asks the driver whether all work is done, and records that. The error is
// cu.ErrorNotReady if it is not. The caller has entered the stream.
func (st *streamState) ask() error {
	n := st.Issued()
	err := st.g.driver.StreamQuery(st.g.ctx, st.handle)
	if err == nil {
		st.Complete(n)
	}
	return err
}

// askKeeping is ask for a caller that does not return the error. The driver may return an
// error of the work only once, so askKeeping keeps it for Stream.Wait.
func (st *streamState) askKeeping() error {
	err := st.ask()
	if err != nil && !errors.Is(err, cu.ErrorNotReady) && !closing.InHostFunction(err) {
		st.pending.add(err)
	}
	return err
}

// driverWait waits in the driver: for the stream or, once the stream is destroyed, for its
// completion event. The caller may be a user of the stream.
func (st *streamState) driverWait() error {
	if st.g.released.Load() {
		return nil // release has waited for all work
	}
	if st.EnterUsed() {
		defer st.Leave()
		return st.g.driver.StreamSynchronize(st.g.ctx, st.handle)
	}
	if err := st.awaitDestroyed(); err != nil {
		return err
	}
	return st.completion.wait(st.g)
}

// awaitDestroyed waits until the driver's stream, which nothing uses any more, is
// destroyed. In a host function it returns an error: another goroutine may destroy the
// stream, and its calls may wait for the host function.
func (st *streamState) awaitDestroyed() error {
	if err := st.g.mayWait(); err != nil {
		return err
	}
	<-st.destroyed
	return nil
}

// query asks the driver whether all work is done, and records the answer. It does not wait.
// If the context is lost, no operation runs any more.
func (st *streamState) query() (done bool) {
	if st.g.released.Load() { // release has waited for all work
		st.Complete(st.Issued())
		return true
	}
	if st.EnterUsed() {
		defer st.Leave()
		err := st.askKeeping()
		return err == nil || refusal.Sticky(err)
	}
	err := st.askDestroyed()
	return err == nil || refusal.Sticky(err)
}

// notReady reports whether the work is not done that the driver was asked about.
func notReady(err error) bool {
	return err == cu.ErrorNotReady || err != nil && errors.Is(err, cu.ErrorNotReady)
}

// settleStreams is settle for the streams of g, closed ones among them. It marks the end of each
// stream before it waits for any of them, so that work which is queued meanwhile delays nothing.
func (g *GPU) settleStreams() error {
	closed := g.unfinished.list()
	if len(closed) == 0 && g.idle() {
		return nil
	}
	var waits []*streamWait
	for _, st := range append(closed, g.openStreams()...) {
		if st.Idle() || st == g.legacy.state && g.legacyCaptures() {
			continue
		}
		w := &streamWait{st: st, n: st.Issued()}
		w.mark() // without a mark the wait takes longer
		waits = append(waits, w)
	}
	var refused error
	for _, w := range waits {
		if refused == nil {
			refused = w.settle()
		}
		w.end()
	}
	return refused
}

// settle waits, and keeps an error of the work for Stream.Wait. In a host function it returns an
// error.
func (w *streamWait) settle() error {
	_, err := w.st.g.poll(context.Background(), w, false)
	if closing.InHostFunction(err) {
		return err
	}
	w.st.pending.add(err)
	return nil
}

// legacyCaptures reports whether a question about the default stream would invalidate the
// capture of a blocking stream, which only other libraries make.
func (g *GPU) legacyCaptures() bool {
	_, err := g.driver.StreamIsCapturing(g.ctx, 0)
	return errors.Is(err, cu.ErrorStreamCaptureImplicit)
}
