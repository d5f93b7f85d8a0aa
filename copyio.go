package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/filerange"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/oplog"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// CopyFrom fills dst with bytes that it reads from r, in the order of the stream. It
// returns when it has read the bytes and queued their copies to the device. n is the
// number of bytes. Reads and copies to the device overlap, through page-locked memory.
//
// From an *os.File of a regular file CopyFrom takes its bytes at once: it moves the offset
// behind them before it reads, so others who use the file get other bytes. Several goroutines
// then read the bytes at the same time. If not all were read, the offset goes back to the end
// of what was read, unless something else has moved it since.
//
// If r ends early, the error wraps io.ErrUnexpectedEOF, and the bytes before its end are
// copied. When ctx ends first, the error wraps ctx.Err(). A Read that hangs is abandoned: it
// continues in the background, and what it returns is dropped. If dst was closed meanwhile, it is
// freed in the background, and [Stream.Wait] returns an error of that. A nil ctx never ends. In a
// capture the error wraps cu.ErrorStreamCaptureUnsupported.
//
// If a Read panics, CopyFrom panics with the same value, without the stack of the Read,
// after it has released everything that it uses. If ctx can end, another goroutine reads,
// unless r is a regular file. A Read that ends that goroutine (runtime.Goexit, t.FailNow)
// is an error. Elsewhere it ends the calling goroutine. A Read that returns a wrong number
// of bytes is an error, too. A Read may call Ferry. If it closes dst, see [Device.Close].
// CopyFrom is safe for concurrent use if r is.
func CopyFrom[T any](ctx context.Context, s *Stream, dst Memory[T], r io.Reader) (n int64, err error) {
	if r == nil {
		return 0, refusal.Invalid("copy from a reader: no reader given (nil)")
	}
	return copyIO(await.Context(ctx), s, "copy from a reader", spanOf(dst), inflight.Write, source{r})
}

// CopyTo writes the bytes of src to w, in the order of the stream. It returns when they
// are written. n is the number of bytes. Errors and panics are as for [CopyFrom].
func CopyTo[T any](ctx context.Context, s *Stream, w io.Writer, src Memory[T]) (n int64, err error) {
	if w == nil {
		return 0, refusal.Invalid("copy to a writer: no writer given (nil)")
	}
	return copyIO(await.Context(ctx), s, "copy to a writer", spanOf(src), inflight.Read, sink{w})
}

// mover copies from a reader to memory, or from memory to a writer.
type mover interface {
	// host copies to or from part of host memory.
	host(m []byte) (int, error)
	// mayHang reports whether the reader or writer may take for ever.
	mayHang() bool
	// device copies to or from device memory, through the ring.
	device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error)
	// take returns the mover for a copy of some bytes that begins now. end is called with the
	// number of bytes that it has copied.
	take(bytes int64) (m mover, end func(n int64) error, err error)
}

// copyIO implements CopyFrom and CopyTo.
func copyIO(ctx context.Context, s *Stream, what string, r *span, a inflight.Access, m mover) (n int64, err error) {
	var op inflight.Op
	st, err := s.begin(&op, what, true)
	if err != nil {
		return 0, err
	}
	defer op.End()
	if err := r.acquire(&op, st, a); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if r.a != nil { // Close must not wait for a reader or writer, which may call it
		lent := op.Lend()
		defer func() { // also if the reader or writer panics, or ends the goroutine
			op.End()
			err = refusal.Join(err, giveBack(ctx, st, lent))
		}()
	}
	way, err := checkIO(st, r, a)
	switch {
	case err != nil:
	case way == viaCPU:
		n, err = copyHostIO(ctx, st, r, a, m)
	case way == viaRing:
		op.Queued()
		n, err = copyDeviceIO(ctx, st, r, a, m)
	}
	if err != nil {
		err = fmt.Errorf("%s: %v on %v: %w", what, r, st, err)
	}
	return n, err
}

// giveBack ends the use of lent memory and, if it was closed, frees it. That waits for the stream.
// Once ctx has ended, another goroutine does it, and an error is kept for [Stream.Wait].
func giveBack(ctx context.Context, st *streamState, lent *inflight.Tracker) error {
	task := lent.GiveBack()
	switch {
	case task == nil:
		return nil
	case ctx.Err() != nil:
		go func() { st.pending.add(task()) }()
		return nil
	}
	return task()
}

// planIO plans a copy from a reader or to a writer: it is planned like one of pageable memory.
// The plan says hold, which has no meaning here: no pageable memory of the caller is read or written.
func planIO(st *streamState, r *span, a inflight.Access) copyPlan {
	other := &span{n: r.n, bytes: r.bytes}
	if a == inflight.Write {
		return planCopy(st, r, other)
	}
	return planCopy(st, other, r)
}

// How bytes of a reader or for a writer are copied. Such a copy is planned like one of pageable memory,
// so the driver alone never makes it.
const (
	viaNothing = pathNone // there are none
	viaCPU     = pathCPU
	viaRing    = pathRing
)

// checkIO returns how bytes of a reader or for a writer are copied, or an error for memory and streams
// for which they cannot be.
func checkIO(st *streamState, r *span, a inflight.Access) (way copyPath, err error) {
	switch {
	case st.capture != nil:
		return 0, refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot call readers and writers: copy through a buffer")
	case a == inflight.Write && r.a != nil && r.a.readOnly.Load():
		return 0, refusal.Invalid("it is read-only")
	}
	plan := planIO(st, r, a)
	return plan.path, plan.reaches(st, r)
}

// copyDeviceIO copies device memory through the ring.
func copyDeviceIO(ctx context.Context, st *streamState, r *span, a inflight.Access, m mover) (n int64, err error) {
	m, end, err := m.take(int64(r.bytes))
	if err != nil {
		return 0, err
	}
	ring, job, err := ringIO(st)
	if err != nil {
		return 0, refusal.Join(err, end(0))
	}
	defer func() { err = refusal.Join(err, end(n)) }()
	job.Device, job.Bytes = r.dev, int64(r.bytes)
	n, err = m.device(ctx, ring, job)
	if err == nil || !errors.Is(err, staging.ErrBusy) {
		return n, err
	}
	oplog.NoSlot(r.bytes-uintptr(n), st.g.label)
	return copyBuffered(ctx, st, r, n, a, m)
}

// copyBuffered copies device memory from byte first on, through ordinary memory, by the driver. It
// does so when readers and writers of other copies have all slots of the ring: they may wait for
// this copy.
func copyBuffered(ctx context.Context, st *streamState, r *span, first int64, a inflight.Access, m mover) (n int64, err error) {
	own := make([]byte, min(r.bytes, hostPart))
	transfer := func(off, bytes uintptr) error { // between own and the device
		if err := readyIO(ctx, st, viaRing); err != nil {
			return err
		}
		device := r.cut(off, bytes)
		return moveIO(st, viaRing, &device, own[:bytes], a)
	}
	return atByte(inBlocks(ctx, first, int64(r.bytes), m, a, true, func(at, n int64, move func([]byte) (int, error)) (k int, err error) {
		off, bytes := uintptr(at), uintptr(n)
		if a == inflight.Read {
			if err := transfer(off, bytes); err != nil {
				return 0, err
			}
			return move(own[:bytes])
		}
		if k, err = move(own[:bytes]); k == 0 {
			return k, err
		}
		return k, refusal.Join(err, transfer(off, uintptr(k)))
	}))
}

// ringIO returns the ring, and a transfer for it. The GPU stays open until the transfer is done, while a
// Read or Write that hangs uses the ring.
func ringIO(st *streamState) (*staging.Ring, staging.Job, error) {
	if err := st.g.enter("copy"); err != nil {
		return nil, staging.Job{}, err
	}
	return stagingRing(st.g), staging.Job{Stream: st.handle, StreamID: st.number, Yields: true, Done: st.g.leave}, nil
}

// readyIO does what must be done before each block of moveIO.
func readyIO(ctx context.Context, st *streamState, way copyPath) error {
	if way == viaCPU {
		return nil
	}
	return waitToCopy(ctx, st)
}

// moveIO copies bytes of a reader to memory, or bytes for a writer from memory. The CPU does it, or the
// driver.
func moveIO(st *streamState, way copyPath, r *span, bytes []byte, a inflight.Access) (err error) {
	plan, host := planIO(st, r, a), Pageable(bytes).span
	switch write := a == inflight.Write; {
	case way == viaCPU && write:
		copy(address.Bytes(r.host, r.bytes), bytes)
	case way == viaCPU:
		copy(bytes, address.Bytes(r.host, r.bytes))
	case write:
		_, err = memcpyPageable(st, &plan, r, &host)
	default:
		_, err = memcpyPageable(st, &plan, &host, r)
	}
	return err
}

// hostPart is how many bytes of host memory are copied between two checks of the context.
const hostPart = 1 << 20

// copyHostIO copies host memory, when the stream has reached the copy. Another goroutine may have
// closed the memory since it was lent.
func copyHostIO(ctx context.Context, st *streamState, r *span, a inflight.Access, m mover) (n int64, err error) {
	if err := st.Wait(ctx); err != nil {
		return 0, err
	}
	if err := r.waitUsed(ctx, a); err != nil {
		return 0, err
	}
	m, end, err := m.take(int64(r.bytes))
	if err != nil {
		return 0, err
	}
	defer func() { err = refusal.Join(err, end(n)) }()
	memory := address.Bytes(r.host, r.bytes)
	return atByte(inBlocks(ctx, 0, int64(r.bytes), m, a, false, func(at, n int64, move func([]byte) (int, error)) (int, error) {
		return move(memory[at : at+n])
	}))
}

// inBlocks calls block for one block of bytes after the other, from byte n to the end, and returns up to
// which byte they are copied then. move calls the reader or the writer, or abandons that call when ctx
// ends. own says that move always gets memory which nobody uses after that.
func inBlocks(ctx context.Context, n, end int64, m mover, a inflight.Access, own bool, block func(at, n int64, move func(memory []byte) (int, error)) (int, error)) (int64, error) {
	move := m.host
	if ctx.Done() != nil && m.mayHang() {
		other := []byte(nil)
		if !own {
			other = make([]byte, min(end-n, hostPart))
		}
		move = abandonable(ctx, m, a, other)
	}
	var err error
	for n < end && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var k int
		k, err = block(n, min(end-n, hostPart), move)
		n += int64(k)
	}
	if p, ok := err.(*staging.Panic); ok { //nolint:errorlint // Call does not wrap it
		panic(p.Value)
	}
	return n, err
}

// atByte adds to the error of inBlocks at which byte it was.
func atByte(n int64, err error) (int64, error) {
	if err != nil {
		err = fmt.Errorf("byte %d: %w", n, err)
	}
	return n, err
}

// abandonable returns mover.host for a reader or writer that may hang. Another goroutine calls that, on
// the memory other, so that a call which is abandoned when ctx ends touches no memory of the buffer. If
// other is nil, it gets the memory itself.
func abandonable(ctx context.Context, m mover, a inflight.Access, other []byte) func(memory []byte) (int, error) {
	return func(memory []byte) (n int, err error) {
		own := memory
		if other != nil {
			if own = other[:len(memory)]; a == inflight.Read {
				copy(own, memory)
			}
		}
		moved := 0
		abandoned, err := staging.Call(ctx, func() (err error) {
			moved, err = m.host(own)
			return err
		})
		if abandoned != nil {
			return 0, err
		}
		if other != nil && a == inflight.Write {
			copy(memory, own[:moved])
		}
		return moved, err
	}
}

// source is the mover of CopyFrom.
type source struct{ io.Reader }

func (s source) host(m []byte) (int, error) {
	n, err := staging.ReadFull(s, m)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s source) mayHang() bool { return !isRegular(s.Reader) }

func (s source) device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error) {
	job.Ordered = true
	return r.In(ctx, job, staging.Reader(s))
}

// take takes bytes of a regular file. What a file has not now, or another reader, is read in
// order: a file of /proc has no size.
func (s source) take(bytes int64) (mover, func(n int64) error, error) {
	same := func(int64) error { return nil }
	f, left := regularFile(s.Reader)
	if bytes = min(bytes, left); bytes <= 0 {
		return s, same, nil
	}
	at, err := filerange.Take(f, bytes)
	if err != nil {
		return nil, nil, err
	}
	end := func(n int64) error { return filerange.GiveBack(f, at+bytes, at+n) }
	return fileSource{source{io.NewSectionReader(f, at, bytes)}}, end, nil
}

// fileSource is the mover of CopyFrom for the bytes that it has taken of a regular file.
type fileSource struct{ source }

func (s fileSource) mayHang() bool { return false }

func (s fileSource) device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error) {
	section := s.Reader.(*io.SectionReader)
	n, err := r.In(ctx, job, section)
	_, _ = section.Seek(n, io.SeekStart) // from where host reads the rest, if the ring is busy
	return n, err
}

// regularFile returns r as a file, and how many bytes it has after its offset, if r is a
// regular file.
func regularFile(r io.Reader) (f *os.File, left int64) {
	f, ok := r.(*os.File)
	if !ok {
		return nil, 0
	}
	about, err := f.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return nil, 0
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0
	}
	return f, about.Size() - at
}

// isRegular reports whether a reader or writer is a regular file.
func isRegular(x any) bool {
	f, ok := x.(*os.File)
	if !ok {
		return false
	}
	about, err := f.Stat()
	return err == nil && about.Mode().IsRegular()
}

// sink is the mover of CopyTo.
type sink struct{ io.Writer }

func (s sink) host(m []byte) (int, error) {
	n, err := s.Write(m)
	return staging.Written(len(m), n, err)
}

func (s sink) mayHang() bool { return !isRegular(s.Writer) }

func (s sink) take(int64) (mover, func(n int64) error, error) {
	return s, func(int64) error { return nil }, nil
}

func (s sink) device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error) {
	job.Ordered = true
	return r.Out(ctx, job, staging.Writer(s))
}
