package ferry

import (
	"context"
	"fmt"
	"runtime"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Use is what the work of [Stream.External] uses: memory, of [Reads] and [Writes], or what it runs,
// of [Runs].
type Use struct {
	span   span
	access inflight.Access
	made   bool // of span and access

	kernel *Kernel
	graph  *Graph
}

// Reads says that the work only reads the memory: a buffer or a range of one. Any number of
// streams may read it at once.
func Reads[T any](m Memory[T]) Use { return useOf(spanOf(m), inflight.Read) }

// Writes says that the work writes the memory, and may read it.
func Writes[T any](m Memory[T]) Use { return useOf(spanOf(m), inflight.Write) }

// Runs says that the work launches a kernel or a graph by its Handle. Close of the module waits for
// the work then, and the buffers and modules that the graph uses are in flight, as with
// [Graph.Launch]. Buffers that a kernel uses are uses of their own. A graph cannot be launched in a
// capture.
//
// Not tracked is the handle of the graph: it must not be closed, updated or launched by Ferry
// before the function of External has returned.
func Runs[X *Kernel | *Graph](x X) Use {
	switch x := any(x).(type) {
	case *Kernel:
		return Use{kernel: x}
	case *Graph:
		return Use{graph: x}
	}
	return Use{}
}

func useOf(r *span, a inflight.Access) Use {
	if r == nil {
		return Use{}
	}
	return Use{span: *r, access: a, made: true}
}

// External runs f, which hands the stream to code that Ferry does not know: another library, or
// the program's own calls of the driver. f queues its work in the stream h. It runs at once, on
// the calling goroutine, with the context of the GPU current in its thread, as with
// [GPU.Current]. The work is done when the stream has passed it.
//
// uses is the memory that the work uses, and what it launches. When External returns, they are in
// flight, as with [Stream.Launch]: Slice, Wait and Close wait for the work. Memory of [AllocAsync] is
// waited for before f is called. A pageable slice stays alive until the work is done, and the
// parts of it that are in buffers count as in flight. Memory that is not among the uses is not
// tracked. Ferry cannot know whether f queued something before it failed, so the uses are in
// flight after errors and panics, too. Before f has returned the uses are not in flight: a Slice
// meanwhile, in f or elsewhere, does not wait for what f has queued.
//
// f may keep h, with what [Stream.Handle] says. In a capture, h is a stream that records, and must
// not be kept: work that f queues in h becomes part of the graph. Capture ends only after every
// External in it has returned. So f must not wait for the end of Capture. The graph owns the buffers
// and modules among the uses, and its launches make them in flight. It keeps nothing else of the
// other library, such as a workspace, and no pageable slice, which External refuses there. Calls
// that a capture does not allow invalidate it, as in C.
//
// External returns the error of f. A panic of f reaches the caller, and runtime.Goexit ends it.
// f may call Ferry. Close of a buffer or module among the uses, before f has returned, returns an error
// that wraps cu.ErrorNotReady, and External frees it when it returns.
func (s *Stream) External(f func(h cu.Stream) error, uses ...Use) error {
	return s.external(f, uses, false)
}

// ExternalPerThread is [Stream.External] for code that queues in CUDA's per-thread default stream,
// because it was compiled so (--default-stream per-thread) or takes no stream. h is
// cu.StreamPerThread, which is another stream in each thread, so it has a meaning only inside f.
// The work in it begins after the earlier work of s, and later work of s begins after the work
// that f has queued. So the uses are in flight on s. In a capture of s, that work is captured.
// On a device without concurrent managed access, managed memory among the uses must be attached
// with cu.MemAttachGlobal: what is attached to s is not attached to the per-thread stream.
//
// A goroutine can move to another thread at any time. So there is no [Stream] of a thread, which
// would be another stream after each move. On the software GPU each goroutine counts as a thread.
func (s *Stream) ExternalPerThread(f func(h cu.Stream) error, uses ...Use) error {
	return s.external(f, uses, true)
}

// externalName stands for work of External as the last launch, in messages.
var externalName = "one of External"

func (s *Stream) external(f func(cu.Stream) error, uses []Use, perThread bool) (err error) {
	const what = "run external work"
	var op inflight.Op
	st, err := s.begin(&op, what, true)
	if err != nil {
		return err
	}
	var lent []*inflight.Tracker
	defer func() {
		op.End()
		for _, t := range lent {
			err = refusal.Join(err, giveBack(context.Background(), st, t))
		}
	}()
	for i := range uses {
		x, failed := uses[i].acquire(&op, st, perThread)
		lent = append(lent, x...)
		if failed != nil {
			return fmt.Errorf("%s on %v: use %d of %d: %w", what, st, i+1, len(uses), failed)
		}
	}
	if f == nil {
		return refusal.Invalid("%s on %v: no function given (nil)", what, st)
	}
	run := func() error {
		op.Queued() // f may queue work before it fails
		st.launched(&externalName)
		if perThread {
			return st.throughPerThread(f)
		}
		st.Share()
		return f(st.outside())
	}
	if err := st.g.current(run); err != nil {
		return fmt.Errorf("%s on %v: %w", what, st, err)
	}
	return nil
}

// throughPerThread runs f between two events that put its work in the per-thread stream in order
// with st. If the second fails, it waits for that work.
func (st *streamState) throughPerThread(f func(cu.Stream) error) (err error) {
	thread := &streamState{g: st.g, handle: cu.StreamPerThread}
	if err := thread.comesAfter(st); err != nil {
		return err
	}
	defer func() {
		failed := st.comesAfter(thread)
		if failed != nil && st.capture == nil {
			failed = refusal.Join(failed, st.g.driver.StreamSynchronize(st.g.ctx, thread.handle))
		}
		err = refusal.Join(err, failed)
	}()
	return f(thread.handle)
}

// comesAfter makes later work of a stream wait for the work that is queued in another one.
func (st *streamState) comesAfter(other *streamState) error {
	c, err := recordCompletion(other)
	if err != nil {
		return err
	}
	return refusal.Join(follow(st, c.event), st.g.driver.EventDestroy(st.g.ctx, c.event))
}

// acquire counts an operation as a user of the memory, and lends it, so that f can close the
// buffer. So it does with what the work runs.
func (u *Use) acquire(op *inflight.Op, st *streamState, perThread bool) (lent []*inflight.Tracker, err error) {
	r := &u.span
	switch {
	case u.kernel != nil:
		return u.kernel.lend(op, st)
	case u.graph != nil:
		return u.graph.lend(op, st)
	case !u.made:
		return nil, refusal.Invalid("no buffer, kernel or graph given (nil): make a Use with Reads, Writes or Runs")
	case r.bad != nil:
		return nil, r.bad
	case r.a != nil:
		x, err := lendTo(op, st, r, u.access, perThread)
		if err != nil {
			return nil, err
		}
		return []*inflight.Tracker{x}, nil
	case st.capture != nil:
		return nil, refusal.New(cu.ErrorStreamCaptureUnsupported, "a graph cannot keep %v: capture with a buffer of AllocHost or Register", r.String())
	}
	for off := uintptr(0); off < r.bytes; {
		part, err := runAt(st.g, r, off)
		if err != nil {
			return lent, err
		}
		if part.a != nil {
			x, err := lendTo(op, st, &part, u.access, perThread)
			if err != nil {
				return lent, err
			}
			lent = append(lent, x)
		}
		off += part.bytes
	}
	st.g.keptSlices.Add(op, u.access, r.host)
	return lent, nil
}

// lendTo is acquire for memory of a buffer.
func lendTo(op *inflight.Op, st *streamState, r *span, access inflight.Access, perThread bool) (*inflight.Tracker, error) {
	if access == inflight.Write && r.a.readOnly.Load() {
		return nil, refusal.Invalid("%v is read-only: Writes needs memory that may be written", r.String())
	}
	if err := r.reachableFrom(st.g); err != nil {
		return nil, err
	}
	if r.a.kind == managedMemory && !st.g.caps.ConcurrentManaged {
		usable := r.a.usableBy
		if perThread {
			usable = r.a.usablePerThread
		}
		if err := usable(st); err != nil {
			return nil, err
		}
	}
	if err := r.acquire(op, st, access); err != nil {
		return nil, err
	}
	if w := st.g.watch; w != nil && access == inflight.Write {
		w.WatchWritten(cu.DevicePtr(r.address()))
	}
	return op.Lend(), nil
}

// queueWork implements bridge.Queue. It is [Stream.External] for a library that Ferry knows: f runs no
// code of the program, so memory need not be lent, and several streams are served at once.
func queueWork(what string, gpus []any, works []*bridge.Work, f func() error) (err error) {
	begun := 0
	defer func() {
		for _, w := range works[:begun] {
			w.Op.End()
		}
	}()
	for i, w := range works {
		s, _ := w.Stream.(*Stream)
		st, err := s.begin(&w.Op, what, true)
		if err != nil {
			return err
		}
		begun++
		if g := gpus[i].(*GPU); st.g != g {
			return refusal.Invalid("%s: %v belongs to %s, and the communicator to %s", what, st, st.g.label, g.label)
		}
		for k := range w.Memory {
			if err := useMemory(w, &w.Memory[k], st); err != nil {
				return fmt.Errorf("%s on %v: %w", what, st, err)
			}
		}
		w.Handle = st.outside()
		st.launched(&libraryName)
	}
	for _, w := range works {
		w.Op.Queued() // f may queue work before it fails
	}
	if err := callLibrary(gpus[0].(*GPU), f); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// libraryName stands for such work as the last launch, in messages.
var libraryName = "one of a library"

// useMemory acquires memory for a work, and sets its address.
func useMemory(w *bridge.Work, p *bridge.Piece, st *streamState) error {
	if p.Memory == nil {
		return nil
	}
	r, _ := p.Memory.(untypedMemory).untyped()
	if err := r.check(); err != nil {
		return err
	}
	access := inflight.Read
	if p.Written {
		access = inflight.Write
	}
	switch {
	case r.a == nil:
		return refusal.Invalid("%v is pageable: copy it to memory of Alloc first", r.String())
	case p.Written && r.a.readOnly.Load():
		return refusal.Invalid("%v is read-only", r.String())
	case r.a.kind == deviceMemory && r.a.g.device != st.g.device:
		return refusal.Invalid("%v is memory of another GPU: use memory of %s", r.String(), st.g.label)
	}
	if err := r.acquire(&w.Op, st, access); err != nil {
		return err
	}
	if r.bytes == 0 {
		p.Address = 0
		return nil
	}
	at, err := r.addressFor(st)
	p.Address = at
	if p.Written && st.g.watch != nil {
		st.g.watch.WatchWritten(at)
	}
	return err
}

// callLibrary calls f on a thread with the context of a GPU current.
func callLibrary(g *GPU, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	binder, ok := cu.As[cu.ThreadBinder](g.driver)
	if !ok { // the software GPU has no contexts of threads
		return f()
	}
	return binder.WithContext(g.ctx, f)
}
