package ferry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Stream is a queue of work for the GPU. Operations of one stream run in order, and
// operations of different streams may run at the same time. It is safe for concurrent
// use. Goroutines that queue on one stream need synchronization if the order of their
// operations matters.
type Stream struct {
	state     *streamState
	recording atomic.Pointer[streamState] // state for operations while the stream captures
	part      atomic.Pointer[capture]     // of which the stream is part, or becomes part: see capture.add
	leak      runtime.Cleanup
}

// StreamOptions are the options of [NewStream].
type StreamOptions struct {
	// NonBlocking makes the stream independent of the default stream
	// (CU_STREAM_NON_BLOCKING). Otherwise work of the default stream waits for earlier
	// work of this stream, and work of this stream for earlier work of the default stream.
	NonBlocking bool
	// Priority is the priority of the stream. Lower numbers mean a higher priority. 0 is
	// the default and the lowest priority. The driver clamps numbers outside the range of
	// [GPU.Priorities].
	Priority int
}

// NewStream makes a stream (cuStreamCreate, or cuStreamCreateWithPriority). o may be nil.
func NewStream(g *GPU, o *StreamOptions) (*Stream, error) {
	if err := g.enter("make a stream"); err != nil {
		return nil, err
	}
	if o == nil {
		o = &StreamOptions{}
	}
	return newStream(g, o)
}

// newStream makes a stream on a GPU that the caller has entered.
func newStream(g *GPU, o *StreamOptions) (*Stream, error) {
	priority := int16(max(math.MinInt16, min(o.Priority, math.MaxInt16))) // the ranges of devices are far smaller
	handle, err := createStream(g, o.NonBlocking, priority)
	if err != nil {
		g.leave()
		return nil, fmt.Errorf("make a stream on %s: %w", g.label, err)
	}
	s := &Stream{state: newStreamState(g, handle, int(g.streamCount.Add(1)), nil)}
	s.state.priority = priority
	g.addStream(s.state, false)
	s.leak = leak.Watch(s, s.state.String)
	return s, nil
}

// createStream makes a stream of the driver. Drivers before CUDA 5.5 have no priorities,
// so priority 0 uses the older call.
func createStream(g *GPU, nonBlocking bool, priority int16) (cu.Stream, error) {
	flags := cu.StreamDefault
	if nonBlocking {
		flags = cu.StreamNonBlocking
	}
	if priority == 0 {
		return g.driver.StreamCreate(g.ctx, flags)
	}
	return g.driver.StreamCreateWithPriority(g.ctx, flags, int32(priority))
}

func (s *Stream) queue() {}

// String returns a description of the stream: "stream 3 of cuda:0".
func (s *Stream) String() string {
	if s == nil || s.state == nil {
		return "no stream"
	}
	return s.state.String()
}

// GPU returns the GPU of the stream.
func (s *Stream) GPU() *GPU {
	if s == nil || s.state == nil {
		return nil
	}
	return s.state.g
}

// Handle returns the driver's handle of the stream (a CUstream), for another library that
// queues work in it. Of the default stream it is cu.StreamLegacy, which means the same to every
// library. Ferry does not see that work, so from then on it never takes the stream for idle: it
// asks the driver. [Stream.Wait] and [Stream.Done] are about all work in the stream, whoever
// queued it. Buffers that such work uses are in flight only through [Stream.External].
//
// The other library must not destroy the stream and must not capture in it. While the stream
// captures, what is queued by Handle runs and is not captured, unlike with External. After
// Close the handle is dead: calls with it are errors on the software GPU and undefined on
// hardware. Handle does not check that. Of a nil Stream it is 0, which the driver takes for the
// default stream: check for nil before.
func (s *Stream) Handle() cu.Stream {
	if s == nil || s.state == nil {
		return 0
	}
	s.state.Share()
	return s.state.outside()
}

// begin starts an operation of the stream or, while it captures, of the stream that
// records. op.End ends it. An operation is long if it waits for more than a driver call. In a
// forked child the driver refuses short operations.
func (s *Stream) begin(op *inflight.Op, what string, long bool) (*streamState, error) {
	if s == nil || s.state == nil {
		return nil, refusal.Invalid("%s: no stream given (nil)", what)
	}
	if long && forked.Child() {
		return nil, forked.New(what)
	}
	for {
		st := s.target()
		switch {
		case !long && op.Begin(&st.Stream), long && op.BeginLong(&st.Stream):
			return st, nil
		case st == s.state:
			return nil, fmt.Errorf("%s: %v: %w", what, st, ErrClosed)
		}
		runtime.Gosched() // the capture of st has just ended
	}
}

// target returns the state that operations go to, or nil for a nil stream.
func (s *Stream) target() *streamState {
	if s == nil || s.state == nil {
		return nil
	}
	if st := s.recording.Load(); st != nil && !s.state.Closed() {
		return st
	}
	return s.state
}

// operate carries out an operation on one buffer. f queues it, and reports whether it may have
// queued anything.
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
		return fmt.Errorf("%s %v on %v: %w%s", what, r, st, err, st.afterFault(err))
	}
	return nil
}

// Launch runs a kernel in the order of the stream, and returns when it is queued
// (cuLaunchKernel). args has one argument for each parameter:
//
//	parameter          argument
//	pointer            a *Device, *Managed or mapped *Host of any type, or a cu.DevicePtr
//	number             a Go number of the same size: uint64 or int64 for .u64, float32 for .f32
//	bool               a Go bool
//	struct, array      a Go struct or array of the same size, without Go pointers; its
//	                   padding is zero for the kernel
//
// Before it calls the driver, Launch checks the number and the sizes of the arguments, and
// that floats are not mixed up with integers. It compares the configuration with the
// limits of the device and of the kernel. Such an error wraps cu.ErrorInvalidValue, and
// names the parameter or the limit. Until the kernel is done, its buffer arguments are in
// flight, as read and written, or as package ferrybind says. Memory that the kernel reaches in
// other ways, through a cu.DevicePtr or an address in memory, is not tracked.
//
// [Stream.Wait] returns the errors of the running kernel. Launch is safe for concurrent
// use and allocates nothing.
func (s *Stream) Launch(k *Kernel, c LaunchConfig, args ...any) error {
	l, st, err := s.beginLaunch("launch")
	if err != nil {
		return err
	}
	defer l.done()
	return l.run(st, k, &c, args)
}

// Record makes the event stand for all work that is queued on the stream so far
// (cuEventRecord). The stream and the event must belong to one GPU.
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

// WaitEvent makes later work of the stream wait until the work that the event stands for
// is done (cuStreamWaitEvent). It returns at once. A later Record of the event does not
// change what the stream waits for. The event may belong to another GPU of the driver.
//
// If the event was recorded in a capture, the stream becomes part of the capture: see
// [Stream.Capture].
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

// HostFunc runs fn on a thread of the driver when the stream reaches it (cuLaunchHostFunc).
// Later work of the stream waits until fn returns. fn must not call the driver: such calls
// fail with cu.ErrorNotPermitted. Close returns at once, and another goroutine does its work.
// Slice panics in fn, so call it before. [Stream.Wait] returns a panic of fn as a *cu.HostPanic.
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
		op.Queued() // also if the call fails: it can have queued fn
		err = st.g.driver.LaunchHostFunc(st.g.ctx, st.handle, fn)
	}
	if err != nil {
		return fmt.Errorf("queue a host function on %v: %w", st, err)
	}
	return nil
}

// Notify returns a channel that is closed when the stream reaches this point
// (cuEventRecord and cuEventQuery; cuLaunchHostFunc on the software GPU). The stream does
// not wait for the receiver. So code after the receive may take long, and may call the
// driver, Close and Slice, unlike a function of [Stream.HostFunc].
//
// The channel does not report errors of the work: [Stream.Wait] returns them. If the
// context is lost, the stream never reaches this point and the channel may stay open. So
// receive in a select with a context, and then call [Stream.Done]. In a capture the error
// wraps cu.ErrorStreamCaptureUnsupported, because a graph runs more than once.
func (s *Stream) Notify() (<-chan struct{}, error) {
	var op inflight.Op
	st, err := s.begin(&op, "queue a notification", false)
	if err != nil {
		return nil, err
	}
	defer op.End()
	c := make(chan struct{})
	if st.capture != nil {
		err = refusal.New(cu.ErrorStreamCaptureUnsupported, "it captures, and a graph cannot close a channel at every launch: use HostFunc")
	} else {
		op.Queued() // as in HostFunc
		err = st.notify(c)
	}
	if err != nil {
		return nil, fmt.Errorf("queue a notification on %v: %w", st, err)
	}
	return c, nil
}

// Submit queues all operations of a batch in their order, as if they were queued one by
// one. If a check fails, it queues nothing, and the error names the operation. If the
// driver refuses an operation, those before it are queued. Submit allocates nothing. It is
// fastest for a batch whose last submission was on this stream.
func (s *Stream) Submit(b *Batch) error {
	if b == nil {
		return refusal.Invalid("submit on %v: no batch given (nil)", s)
	}
	return b.submit(s)
}

// Capture records the operations that f queues on the stream, instead of running them, and
// makes a graph of them (cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiate).
// The argument of f is s. Copies, fills, launches, host functions and events can be
// captured. Another stream becomes part of the capture when it waits for an event that was
// recorded in the capture. Before the end of f, s must wait for an event recorded on each
// such stream. Host functions are called at every launch, and are never freed.
//
// Captured operations are not in flight, because they have not run. While a stream
// captures, waits for the stream and for the whole GPU fail with
// cu.ErrorStreamCaptureUnsupported. Slice and Close of a buffer wait for the operations
// that were queued before the capture. Operations that cannot be captured are refused, and
// the capture continues: copies of pageable memory, which a graph cannot keep, prefetches
// and launches of graphs. [AllocAsync] and Close of its buffer become part of the graph; other
// allocations are made at once. Operations that other goroutines queue on s during
// the capture are captured as well.
//
// Of two captures of one stream at once, the second is refused (cu.ErrorIllegalState). A
// [GPU.Wait] that has begun less than 0.1 s before delays the start of a capture until it has
// ended, or these 0.1 s have passed.
//
// The capture ends when f returns or panics, and after every [Stream.External] in it has
// returned, on any goroutine. So a function of External must not wait for the end of Capture.
// If f returns an error, Capture returns it. A
// graph always uses the memory that was captured: to change that, see [Graph.Update].
func (s *Stream) Capture(f func(s *Stream) error) (*Graph, error) { return newGraph(s, f) }

// Wait waits until all work queued so far is done (cuStreamQuery until then; on the
// software GPU cuStreamSynchronize). When ctx ends first, the error wraps ctx.Err() and the
// work continues. A nil ctx never ends. Wait also waits for the work of a closed stream.
//
// Other errors are those of the work itself. The error of a failed kernel is a *cu.Fault
// or a sticky cu.Result, such as cu.ErrorIllegalAddress: the context is lost, and every
// later call returns the error. A panic in a host function is a *cu.HostPanic, and is
// returned once; if others keep the stream busy, by a later Wait. So is a *cu.OperationError
// of the software GPU, whose copy or fill could not use its memory. Wait also returns an
// error of this stream that Slice, Wait or Close of a buffer has met before.
func (s *Stream) Wait(ctx context.Context) error {
	if s == nil || s.state == nil {
		return refusal.Invalid("wait: no stream given (nil)")
	}
	if forked.Child() {
		return forked.New("wait")
	}
	ctx, st := await.Context(ctx), s.state
	if s.target() != st {
		return refuseWhileCapturing(st, "wait for")
	}
	err := st.synchronizeContext(ctx)
	switch {
	case err == nil:
		err = st.pending.take()
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fmt.Errorf("wait for %v: %w: the work goes on", st, err)
	default:
		err = refusal.Join(err, st.pending.take())
	}
	return st.explain(err)
}

// Done reports whether all work queued so far is done (cuStreamQuery). It does not wait.
// Errors are as for [Stream.Wait].
func (s *Stream) Done() (bool, error) {
	var op inflight.Op
	st, err := s.begin(&op, "query", false)
	if err != nil {
		return false, err
	}
	defer op.End()
	if st.capture != nil {
		return false, refuseWhileCapturing(st, "query")
	}
	switch err := st.ask(); {
	case errors.Is(err, cu.ErrorNotReady):
		return false, nil
	case err != nil:
		return false, st.explain(err)
	}
	if err := st.pending.take(); err != nil {
		return false, st.explain(err)
	}
	return true, nil
}

// Close closes the stream and returns at once (cuStreamDestroy). Its queued work still
// runs, and buffers in flight on the stream still wait for it. A stream of [WrapStream] is not
// destroyed: see there. Close of a closed or nil stream, or of the default stream, does nothing and returns
// nil.
func (s *Stream) Close() error {
	if s == nil || s.state == nil || s.state.number == 0 {
		return nil
	}
	s.leak.Stop()
	if s.state.Close() {
		if err := closing.AfterHostFunction(s.state.destroy); err != nil {
			return err
		}
	}
	if s.state.wrapped {
		return s.state.givenBack()
	}
	return nil
}

// lastUse is how long Close of a wrapped stream waits for calls that use it.
const lastUse = 100 * time.Millisecond

// givenBack returns an error if calls may still use the handle of a wrapped stream that is closed.
// It does not wait in a host function.
func (st *streamState) givenBack() error {
	select {
	case <-st.destroyed:
		return nil
	default:
	}
	if st.g.mayWait() == nil {
		select {
		case <-st.destroyed:
			return nil
		case <-time.After(lastUse):
		}
	}
	return refusal.New(cu.ErrorNotReady, "close %v: a call, such as an External, still uses it: destroy it when another Close returns nil", st)
}

// streamState is the state of a [Stream]. Buffers in flight refer to it, so it outlives the
// Stream and the driver's stream. A stream that captures has a second state, for the
// operations that are recorded.
type streamState struct {
	// Every operation reads the fields up to the start of inflight.Stream. They share one
	// cache line.
	g               *GPU
	handle          cu.Stream
	capture         *capture // for which it records; nil if the operations run
	inflight.Stream          // counts the operations; its users are calls that use handle

	number int // identifies the stream in messages; 0 for the default stream

	shortLaunch launch                 // used by the short operation of inflight.Stream
	lastLaunch  atomic.Pointer[string] // the name of a kernel, for error messages
	waits       await.Group
	pending     pendingError
	freed       atomic.Bool // memory was freed in the order of the stream: see trimPools
	priority    int16
	wrapped     bool // another library owns the driver's stream: see WrapStream

	destroyed  chan struct{} // closed when the driver's stream is destroyed
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

// stateOfStream returns the state that contains an in-flight stream.
func stateOfStream(s *inflight.Stream) *streamState { return s.Owner().(*streamState) }

// outside returns the handle for other libraries. They may take 0 for another stream than the
// legacy one: the per-thread one, if they were compiled so.
func (st *streamState) outside() cu.Stream {
	if st.number == 0 {
		return cu.StreamLegacy
	}
	return st.handle
}

func (st *streamState) String() string {
	if st.number == 0 {
		return "the default stream of " + st.g.label
	}
	if st.wrapped {
		return fmt.Sprintf("wrapped stream %d of %s", st.number, st.g.label)
	}
	return fmt.Sprintf("stream %d of %s", st.number, st.g.label)
}

// Unused destroys a closed stream that no call uses any more. It implements
// inflight.Owner. The GPU's release closes the default stream, and continues here. Streams
// that record are destroyed elsewhere.
func (st *streamState) Unused() {
	switch {
	case st.capture != nil:
	case st.number == 0:
		_ = closing.AfterHostFunction(func() error { return st.g.releaseContext(nil) })
	default:
		st.pending.add(closing.AfterHostFunction(st.destroy))
	}
}

// Wait waits for all work queued so far, on behalf of a buffer. It implements
// inflight.Owner. An error of the work is kept for [Stream.Wait]. Wait itself returns the
// error only if the work may not be done, and the driver returned an error each time that it
// was asked. The error names the stream and, if the context is lost, the kernel that was
// isBusy asks the driver whether a stream has unfinished work.
func isBusy(st *streamState) bool {
	if !st.Enter() {
		return false
	}
	defer st.Leave()
	return errors.Is(st.askKeeping(), cu.ErrorNotReady)
}

// launched last.
func (st *streamState) Wait(ctx context.Context) error {
	n := st.Issued()
	for asked := 1; ; asked++ {
		err := st.synchronizeContext(ctx)
		if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return err
		}
		if !closing.InHostFunction(err) {
			st.pending.add(err)
		}
		switch {
		case st.Completed(n):
			return nil
		case closing.InHostFunction(err) || refusal.Sticky(err) || asked == waitAttempts:
			return st.explain(err)
		}
	}
}

// waitAttempts is how often the driver is asked to wait on behalf of a buffer, if it returns
// errors while the context is not lost.
const waitAttempts = 3

// Ask asks the driver whether all work is done, and records that. It implements
// inflight.Owner.
func (st *streamState) Ask() { st.askRelaxed() }

// askRelaxed is query for a goroutine that may not break the captures of other threads. It
// reports whether no work of the stream is left to ask about.
func (st *streamState) askRelaxed() (done bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := relaxed{st.g.driver}
	defer thread.Leave(thread.Enter())
	return st.query()
}

// launched records the name of the kernel that was launched last.
func (st *streamState) launched(name *string) {
	if st.lastLaunch.Load() != name && st.capture == nil {
		st.lastLaunch.Store(name)
	}
}

// explain returns an error of asynchronous work with the stream that reports it and, if
// the context is lost, the kernel that was launched last: see afterFault.
func (st *streamState) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("wait for %v: %w%s", st, err, st.afterFault(err))
}

// destroy destroys the driver's stream, unless it is wrapped. Its work continues, and a completion event marks
// the end of the work.
func (st *streamState) destroy() error {
	var err error
	if !st.Idle() && st.completion == nil {
		st.completion, err = newCompletionEvent(st)
	}
	if err == nil && !st.wrapped {
		err = st.g.driver.StreamDestroy(st.g.ctx, st.handle)
	}
	if closing.InHostFunction(err) {
		return err
	}
	close(st.destroyed)
	if st.completion != nil {
		st.g.unfinished.add(st) // before it leaves the other list: settle must find it in one
	}
	st.g.addStream(st, true)
	st.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", st, err)
	}
	return nil
}

// unfinishedStreams are destroyed streams whose work was not done. Each has an event of the
// driver, which is destroyed when a call finds that the work is done. If no buffer and no
// program asks, add does.
type unfinishedStreams struct {
	mu    sync.Mutex
	all   []*streamState
	limit int // how many there may be before add asks
}

// add adds a stream. From time to time it asks about all of them, about two for each stream
// that is added.
func (u *unfinishedStreams) add(st *streamState) {
	u.mu.Lock()
	u.all = append(u.all, st)
	var asked []*streamState
	if len(u.all) > max(u.limit, 16) {
		asked, u.all = u.all, nil
	}
	u.mu.Unlock()
	if asked == nil {
		return
	}
	asked = slices.DeleteFunc(asked, (*streamState).askRelaxed)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, asked...)
	u.limit = 2 * len(u.all)
}

// list returns a copy of the list.
func (u *unfinishedStreams) list() []*streamState {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.all)
}

// pendingError stores the first error of asynchronous work until a call returns it.
type pendingError struct{ first atomic.Pointer[error] }

// add stores an error, unless one is stored already. It ignores nil, and errors that are not of
// the work but of the wait: a stream captured, or the object was closed.
func (p *pendingError) add(err error) {
	ofWait := func(err error) bool { return ofCapture(err) || errors.Is(err, ErrClosed) }
	if err = refusal.Without(err, ofWait); err != nil {
		kept := err // escapes instead of err, so that add(nil) allocates nothing
		p.first.CompareAndSwap(nil, &kept)
	}
}

// ofCapture reports whether the driver, or this package, refused a call because of a capture.
func ofCapture(err error) bool {
	code, ok := errors.AsType[cu.Result](err)
	return ok && code >= cu.ErrorStreamCaptureUnsupported && code <= cu.ErrorStreamCaptureWrongThread
}

// take removes the stored error and returns it.
func (p *pendingError) take() error {
	if err := p.first.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// afterFault returns what a call of the stream says beside the first report of a fault: who
// may have caused it, and how to go on. Later reports say so themselves: see cu.Lost.
func (st *streamState) afterFault(err error) string {
	if !refusal.Sticky(err) {
		return ""
	}
	loss, who := cu.AsLoss(st.g.driver), ": the context is lost"
	if _, ok := errors.AsType[*cu.Fault](err); !ok {
		if who = st.suspect(); who != "" {
			loss.Blame(fmt.Sprintf("%v reported it, and %s", st, who))
		}
		who = " (" + cmp.Or(who, "no kernel was launched there") + ")"
	}
	if refusal.IsLost(err) {
		return ""
	}
	return who + ": " + loss.GoOn()
}

// suspect says which kernel of the stream may have caused a fault. It is empty if none was
// launched.
func (st *streamState) suspect() string {
	name := st.lastLaunch.Load()
	switch {
	case name == nil && st.Shared():
		return "another library has the stream's handle, and may have launched a kernel there"
	case name == nil:
		return ""
	case st.Shared():
		return "the last kernel launched there was " + *name + ", and another library has the stream's handle and may have launched one since"
	}
	return "the last kernel launched there was " + *name
}

// streamOf returns the stream of a Queue. It returns nil for other types.
func streamOf(q Queue) *Stream {
	s, _ := q.(*Stream)
	return s
}
