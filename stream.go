package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Queue is what operations are put on: a [Stream], now, or a [Batch], to be handed to
// a stream together. No other types implement it.
type Queue interface {
	// Launch runs a kernel: see [Stream.Launch].
	Launch(k *Kernel, c LaunchConfig, args ...any) error
	// Record makes an event stand for the work before it: see [Stream.Record].
	Record(e *Event) error
	// WaitEvent holds later work back: see [Stream.WaitEvent].
	WaitEvent(e *Event) error

	queue()
}

// Stream is a queue of work for the GPU: operations of one stream run in order, those
// of different streams may run at once. It is safe for concurrent use. Goroutines that
// queue on one stream must agree on the order themselves.
type Stream struct {
	state     *streamState
	recording atomic.Pointer[streamState] // gets what is queued while the stream captures
	leak      runtime.Cleanup
}

// StreamOptions say how a stream is made.
type StreamOptions struct {
	// NonBlocking makes the stream independent of the default stream
	// (CU_STREAM_NON_BLOCKING). Otherwise work of the default stream waits for
	// earlier work of this one, and the other way round.
	NonBlocking bool
	// Priority: lower numbers run first. 0 is the default and the least; the
	// driver clamps what is out of the range of [GPU.Priorities].
	Priority int
}

// NewStream makes a stream (cuStreamCreateWithPriority). o may be nil.
func NewStream(g *GPU, o *StreamOptions) (*Stream, error) {
	if err := g.enter("make a stream"); err != nil {
		return nil, err
	}
	g.deferred.run()
	if o == nil {
		o = &StreamOptions{}
	}
	handle, err := createStream(g, o)
	if err != nil {
		g.leave()
		return nil, fmt.Errorf("make a stream on %s: %w", g.label, err)
	}
	s := &Stream{state: newStreamState(g, handle, int(g.streamCount.Add(1)), nil)}
	s.state.priority = o.Priority
	g.addStream(s.state, false)
	s.leak = watchLeak(s, s.state.String)
	return s, nil
}

// createStream is the driver's part of NewStream. Drivers before CUDA 5.5 know no
// priorities.
func createStream(g *GPU, o *StreamOptions) (cu.Stream, error) {
	flags := cu.StreamDefault
	if o.NonBlocking {
		flags = cu.StreamNonBlocking
	}
	if o.Priority == 0 {
		return g.driver.StreamCreate(g.ctx, flags)
	}
	return g.driver.StreamCreateWithPriority(g.ctx, flags, int32(o.Priority))
}

// DefaultStream is the stream that is always there: CUDA's legacy default stream. Its
// work and that of all streams that are not NonBlocking keep the order in which they
// were queued. To close it does nothing.
//
// CUDA's per-thread default stream has no place here, because a goroutine has no
// thread of its own: make a stream for each goroutine. Package cu has its handle.
func DefaultStream(g *GPU) *Stream {
	if g == nil {
		return nil
	}
	return g.legacy
}

func (s *Stream) queue() {}

// String names the stream and its GPU.
func (s *Stream) String() string {
	if s == nil || s.state == nil {
		return "no stream"
	}
	return s.state.String()
}

// begin starts an operation of the stream, or of what it captures with. op.End ends
// it. An operation that waits for more than a call of the driver is long.
func (s *Stream) begin(op *inflight.Op, what string, long bool) (*streamState, error) {
	if s == nil || s.state == nil {
		return nil, refusal.Invalid("%s: no stream given (nil)", what)
	}
	for {
		st := s.target()
		switch {
		case !long && op.Begin(&st.Stream), long && op.BeginLong(&st.Stream):
			return st, nil
		case st == s.state:
			return nil, fmt.Errorf("%s: %v: %w", what, st, ErrClosed)
		}
		runtime.Gosched() // the capture has just ended
	}
}

// target is the state that operations go to, nil for no stream.
func (s *Stream) target() *streamState {
	if s == nil || s.state == nil {
		return nil
	}
	if st := s.recording.Load(); st != nil && !s.state.Closed() {
		return st
	}
	return s.state
}

// operate runs an operation on one buffer. f reports whether it queued anything.
func (s *Stream) operate(what string, r *span, a inflight.Access, f func(*streamState) (queued bool, err error)) error {
	var op inflight.Op
	st, err := s.begin(&op, what, false)
	if err != nil {
		return err
	}
	defer op.End()
	if err := r.acquire(&op, st, a); err != nil {
		return fmt.Errorf("%s %w", what, err)
	}
	queued, err := f(st)
	if queued {
		op.Queued()
	}
	if err != nil {
		return fmt.Errorf("%s %v on %v: %w", what, r, st, err)
	}
	return nil
}

// Launch runs a kernel in the order of the stream and returns when it is queued
// (cuLaunchKernel). There is one argument for each parameter:
//
//	parameter          argument
//	pointer            a *Device, *Managed or mapped *Host of any type, or a cu.DevicePtr
//	number             a Go number of the same size: uint64 or int64 for .u64, float32 for .f32
//	bool               a Go bool
//	struct, array      a Go struct or array of the same size, without Go pointers
//
// Number and sizes are checked, floats are told from integers, and the configuration
// is compared with the limits of the device and the kernel, before the driver is
// called; such errors wrap cu.ErrorInvalidValue and say which parameter. Buffers given
// are in flight, read and written, until the kernel is done. What a kernel reaches in
// other ways, through a cu.DevicePtr or an address in memory, is not known to be.
//
// What goes wrong while the kernel runs is reported by [Stream.Wait]. Launch is safe
// for concurrent use and allocates nothing.
func (s *Stream) Launch(k *Kernel, c LaunchConfig, args ...any) error {
	l, st, err := s.beginLaunch("launch")
	if err != nil {
		return err
	}
	defer l.done()
	return l.run(st, k, &c, args)
}

// Record makes the event stand for all work that is in the stream now (cuEventRecord).
// The stream and the event must belong to one GPU.
func (s *Stream) Record(e *Event) error {
	if st := s.target(); st != nil && st.BeginShort() {
		defer st.EndShort(false)
		return e.record(st)
	}
	var op inflight.Op
	st, err := s.begin(&op, "record an event", false)
	if err != nil {
		return err
	}
	defer op.End()
	return e.record(st)
}

// WaitEvent holds later work of the stream back until what the event stands for is
// done (cuStreamWaitEvent). To record the event again later changes nothing for this
// stream. The event may belong to another GPU of the driver.
//
// To wait for an event that was recorded in a capture makes the stream part of the
// capture: see [Stream.Capture].
func (s *Stream) WaitEvent(e *Event) error {
	var op inflight.Op
	st, err := s.begin(&op, "wait for an event", false)
	if err != nil {
		return err
	}
	defer op.End()
	if err := e.holdBack(s, st); err != nil {
		return err
	}
	op.Queued()
	return nil
}

// HostFunc runs fn on a thread of the driver when the stream reaches it; later work of
// the stream waits for its end (cuLaunchHostFunc). Within fn the driver must not be
// called: calls are refused with cu.ErrorNotPermitted, and Close takes effect
// afterwards. That goes for Slice, too, which panics there: take slices before. A
// panic in fn is reported by Wait as a *cu.HostPanic.
func (s *Stream) HostFunc(fn func()) error {
	var op inflight.Op
	st, err := s.begin(&op, "queue a host function", false)
	if err != nil {
		return err
	}
	defer op.End()
	if fn == nil {
		err = refusal.Invalid("no function given (nil)")
	} else {
		err = st.g.driver.LaunchHostFunc(st.g.ctx, st.handle, fn)
	}
	if err != nil {
		return fmt.Errorf("queue a host function on %v: %w", st, err)
	}
	op.Queued()
	return nil
}

// Notify is a channel that is closed when the stream has reached this point. The
// stream goes on at once: code after the receive runs on the receiver's goroutine, may
// take its time, and may call the driver, Close and Slice, which a function of
// [Stream.HostFunc] must not. It says when, not whether all is well: errors of the
// work are reported by [Stream.Wait]. When the context is lost the stream never gets
// here and the channel stays open: receive in a select with the end of a context, and
// ask Done. In a capture it is refused, because a graph runs more than once.
func (s *Stream) Notify() (<-chan struct{}, error) {
	var op inflight.Op
	st, err := s.begin(&op, "ask for a notice", false)
	if err != nil {
		return nil, err
	}
	defer op.End()
	c := make(chan struct{})
	if st.capture != nil {
		err = refusal.New(cu.ErrorStreamCaptureUnsupported, "it captures, and a channel is closed once only: use HostFunc")
	} else {
		err = st.g.driver.LaunchHostFunc(st.g.ctx, st.handle, func() { close(c) })
	}
	if err != nil {
		return nil, fmt.Errorf("ask for a notice on %v: %w", st, err)
	}
	op.Queued()
	return c, nil
}

// Submit queues all operations of a batch, in their order, as if one by one. If one
// cannot be queued nothing is, and the error says which; if the driver refuses one,
// those before it are queued. Submit allocates nothing, and is cheapest for a batch
// that was submitted to this stream before.
func (s *Stream) Submit(b *Batch) error {
	if b == nil {
		return refusal.Invalid("submit on %v: no batch given (nil)", s)
	}
	return b.submit(s)
}

// Capture records what f queues on the stream, instead of running it, and makes it a
// graph (cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate): [Copy],
// [Fill], [Stream.Launch] and [Stream.HostFunc]. f's stream is s. Other streams take
// part from where they wait for an event that was recorded in the capture; before its
// end, s must wait for an event recorded on each of them. Host functions are called on
// every launch and kept for good.
//
// What is captured is not in flight, because it has not run. While a stream captures
// it cannot be waited for, nor can the whole GPU (the error is
// cu.ErrorStreamCaptureUnsupported); Slice and Close of a buffer wait for what was
// queued before. What cannot be captured is refused and spoils nothing: pageable
// memory, which a graph cannot keep, prefetching, allocation, graphs. What other
// goroutines queue on s meanwhile is captured, too.
//
// The capture ends with f, also if f panics, and f's error is Capture's. A graph
// always uses the memory that was captured: to change that, see [Graph.Update].
func (s *Stream) Capture(f func(s *Stream) error) (*Graph, error) { return newGraph(s, f) }

// Wait waits until all work queued so far is done (cuStreamSynchronize). When ctx ends
// first, the error wraps ctx.Err() and the work goes on. A nil ctx never ends.
//
// Other errors are those of the work itself. A kernel that went wrong is a *cu.Fault
// or a sticky cu.Result, such as cu.ErrorIllegalAddress: the context is lost, and
// every later call says so. A panic in a host function is a *cu.HostPanic, reported
// once. An error that a buffer's wait has met is reported here, too. Wait also waits
// for a stream that was closed.
func (s *Stream) Wait(ctx context.Context) error {
	if s == nil || s.state == nil {
		return refusal.Invalid("wait: no stream given (nil)")
	}
	ctx, st := await.Context(ctx), s.state
	if s.target() != st {
		return st.refuseWhileCapturing("wait for")
	}
	err := st.synchronizeContext(ctx)
	switch {
	case err == nil:
		st.g.deferred.run()
		err = st.pending.take()
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("wait for %v: %w: the work goes on", st, err)
	default:
		if kept := st.pending.take(); kept != nil && kept.Error() != err.Error() {
			err = errors.Join(err, kept)
		}
	}
	return st.explain(err)
}

// Done reports whether all work is done, without waiting (cuStreamQuery). Errors are
// as for [Stream.Wait].
func (s *Stream) Done() (bool, error) {
	var op inflight.Op
	st, err := s.begin(&op, "query", false)
	if err != nil {
		return false, err
	}
	defer op.End()
	if st.capture != nil {
		return false, st.refuseWhileCapturing("query")
	}
	n := st.Issued()
	switch err := st.g.driver.StreamQuery(st.g.ctx, st.handle); {
	case errors.Is(err, cu.ErrorNotReady):
		return false, nil
	case err != nil:
		return false, st.explain(err)
	}
	st.Complete(n)
	if err := st.pending.take(); err != nil {
		return false, st.explain(err)
	}
	return true, nil
}

// Close gives the stream up and returns at once. Its work goes on to its end
// (cuStreamDestroy), and buffers in flight on it still wait for it. Close of a closed
// or nil stream, or of the default stream, is nil.
func (s *Stream) Close() error {
	if s == nil || s.state == nil || s.state.number == 0 {
		return nil
	}
	s.leak.Stop()
	if s.state.Close() {
		return s.state.g.deferred.do(s.state.destroy)
	}
	return nil
}

// streamState is what is behind a [Stream]. Buffers in flight refer to it, so it lives
// on, without a driver's stream, when the Stream is closed. A stream that captures has
// a second one for what it records.
type streamState struct {
	// What every operation reads comes first, in one line of the cache.
	g               *GPU
	handle          cu.Stream
	capture         *capture // that it records for, nil for one that runs
	inflight.Stream          // the operations; its users are calls that use handle

	number   int // 0 for the default stream
	priority int

	room       launch                 // of the short operation
	lastLaunch atomic.Pointer[string] // the name of a kernel, for error messages
	waits      await.Group
	pending    pendingError

	destroyed  chan struct{} // closed when the driver's stream is destroyed
	postponed  atomic.Bool   // a host function tried to destroy it
	completion *completionEvent
}

func newStreamState(g *GPU, handle cu.Stream, number int, c *capture) *streamState {
	st := &streamState{g: g, handle: handle, number: number, capture: c, destroyed: make(chan struct{})}
	var recorder *inflight.Recorder
	if c != nil {
		recorder = &c.recorder
	}
	st.Init(st, recorder)
	return st
}

// stateOfStream is the state that an in-flight stream belongs to.
func stateOfStream(s *inflight.Stream) *streamState { return s.Owner().(*streamState) }

func (st *streamState) String() string {
	if st.number == 0 {
		return "the default stream of " + st.g.label
	}
	return fmt.Sprintf("stream %d of %s", st.number, st.g.label)
}

// Unused destroys a closed stream that nobody uses any more. The default stream and
// those that record are destroyed elsewhere.
func (st *streamState) Unused() {
	if st.number != 0 && st.capture == nil {
		st.pending.add(st.g.deferred.do(st.destroy))
	}
}

// Wait waits for all work so far on behalf of a buffer. An error of the work is kept
// for [Stream.Wait]; it is returned only if the work may not be done.
func (st *streamState) Wait(ctx context.Context) error {
	n := st.Issued()
	err := st.synchronizeContext(ctx)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	if !inHostFunction(err) {
		st.pending.add(err)
	}
	if st.Completed(n) {
		return nil
	}
	return err
}

// synchronizeContext waits for all work so far, until ctx ends.
func (st *streamState) synchronizeContext(ctx context.Context) error {
	if done, err := st.poll(ctx); done {
		return err
	}
	return st.g.await(ctx, &st.waits, st.synchronize, st.pending.add)
}

// poll asks the driver for a short while whether the work is done, where a wait with a
// context would need a goroutine, which takes longer.
func (st *streamState) poll(ctx context.Context) (done bool, err error) {
	if ctx.Done() == nil || st.g.emulated != nil || st.g.released.Load() || !st.Enter() {
		return false, nil
	}
	defer st.Leave()
	n := st.Issued()
	done, err = await.Poll(ctx, st.g.tuning.wait.Spin, func() error { return st.g.driver.StreamQuery(st.g.ctx, st.handle) })
	if done && (err == nil || st.doneDespite(err)) {
		st.Complete(n)
	}
	return done, err
}

// synchronize waits in the driver for all work so far.
func (st *streamState) synchronize() error {
	n := st.Issued()
	err := st.driverWait()
	if err == nil || st.doneDespite(err) {
		st.Complete(n)
	}
	return err
}

// doneDespite reports whether the work is done although a wait for it returned an
// error, as that of a host function that panicked.
func (st *streamState) doneDespite(err error) bool {
	if sticky(err) || inHostFunction(err) || !st.Enter() {
		return false
	}
	defer st.Leave()
	err = st.g.driver.StreamQuery(st.g.ctx, st.handle)
	if err != nil && !errors.Is(err, cu.ErrorNotReady) {
		st.pending.add(err)
	}
	return err == nil
}

// driverWait is cuStreamSynchronize, or cuEventSynchronize once the stream is closed.
func (st *streamState) driverWait() error {
	if st.g.released.Load() {
		return nil // release has waited for everything
	}
	if st.Enter() {
		defer st.Leave()
		return st.g.driver.StreamSynchronize(st.g.ctx, st.handle)
	}
	st.g.deferred.run()
	if st.postponed.Load() {
		return cu.ErrorNotPermitted
	}
	<-st.destroyed
	return st.completion.wait(st.g)
}

// query asks the driver whether all work is done and notes it. It never waits. On a
// device that is lost nothing runs any more.
func (st *streamState) query() (done bool) {
	if st.g.released.Load() {
		return true
	}
	if st.Enter() {
		defer st.Leave()
		n := st.Issued()
		err := st.g.driver.StreamQuery(st.g.ctx, st.handle)
		if err == nil {
			st.Complete(n)
		}
		return err == nil || sticky(err)
	}
	select {
	case <-st.destroyed:
		return st.completion.query(st.g)
	default: // it is being destroyed
		return false
	}
}

// follow holds later work back until an event of the driver's (cuStreamWaitEvent).
func (st *streamState) follow(e cu.Event) error {
	return st.g.driver.StreamWaitEvent(st.g.ctx, st.handle, e, cu.EventWaitDefault)
}

// followStream holds later work back until all work that is in another stream now. It
// is false when that stream is closed.
func (st *streamState) followStream(other *streamState) (ok bool, err error) {
	if !sameDriver(other.g.driver, st.g.driver) || !other.Enter() {
		return false, nil
	}
	defer other.Leave()
	d := other.g.driver
	event, err := d.EventCreate(other.g.ctx, cu.EventDisableTiming)
	if err != nil {
		return false, err
	}
	if err = d.EventRecord(other.g.ctx, event, other.handle); err == nil {
		err = st.follow(event)
	}
	err = errors.Join(err, d.EventDestroy(other.g.ctx, event))
	return err == nil, err
}

// launched notes the name of the kernel that was launched last.
func (st *streamState) launched(name *string) {
	if st.lastLaunch.Load() != name && st.capture == nil {
		st.lastLaunch.Store(name)
	}
}

// explain wraps an error of asynchronous work: which stream reports it, and what was
// launched there.
func (st *streamState) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*cu.Fault](err); !ok && sticky(err) {
		if name := st.lastLaunch.Load(); name != nil {
			return fmt.Errorf("wait for %v: %w (the last kernel launched there was %s)", st, err, *name)
		}
		return fmt.Errorf("wait for %v: %w (no kernel was launched there)", st, err)
	}
	return fmt.Errorf("wait for %v: %w", st, err)
}

// refuseWhileCapturing refuses to wait for a stream that captures.
func (st *streamState) refuseWhileCapturing(what string) error {
	return fmt.Errorf("%s %v: %w", what, st, refusal.New(cu.ErrorStreamCaptureUnsupported, "it captures: what is queued runs when the graph is launched"))
}

// destroy gives the driver's stream up. Its work goes on; a completion event stays
// behind.
func (st *streamState) destroy() error {
	var err error
	if !st.Idle() && st.completion == nil {
		st.completion, err = newCompletionEvent(st)
	}
	if err == nil {
		err = st.g.driver.StreamDestroy(st.g.ctx, st.handle)
	}
	st.postponed.Store(inHostFunction(err))
	if inHostFunction(err) {
		return err
	}
	close(st.destroyed)
	st.g.addStream(st, true)
	st.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", st, err)
	}
	return nil
}
