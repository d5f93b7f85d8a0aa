package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/staging"
)

// CopyFrom fills dst with what r reads, in the order of the stream. It returns when the
// bytes have been read, and those for the device are queued; n is how many. Reading and
// copying overlap, through page-locked memory. A regular file, as an *os.File, is read
// by several goroutines at once, and stands after what was read.
//
// If r ends early the error wraps io.ErrUnexpectedEOF; what it gave is copied. When ctx
// ends first the error wraps ctx.Err(); a Read that hangs then is left behind. A nil
// ctx never ends. In a capture it is refused. CopyFrom is safe for concurrent use if r
// is.
func CopyFrom[T any](ctx context.Context, s *Stream, dst Memory[T], r io.Reader) (n int64, err error) {
	if r == nil {
		return 0, refusal.Invalid("copy from a reader: no reader given (nil)")
	}
	return copyIO(await.Context(ctx), s, "copy from a reader", spanOf(dst), inflight.Write, source{r})
}

// CopyTo writes the bytes of src to w when the stream has reached it. It returns when
// they are written; n is how many. Errors are as for [CopyFrom].
func CopyTo[T any](ctx context.Context, s *Stream, w io.Writer, src Memory[T]) (n int64, err error) {
	if w == nil {
		return 0, refusal.Invalid("copy to a writer: no writer given (nil)")
	}
	return copyIO(await.Context(ctx), s, "copy to a writer", spanOf(src), inflight.Read, sink{w})
}

// mover is a reader or a writer that memory is copied from or to.
type mover interface {
	// host moves part of host memory.
	host(m []byte) (int, error)
	// device moves device memory through the ring.
	device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error)
}

// copyIO is CopyFrom and CopyTo.
func copyIO(ctx context.Context, s *Stream, what string, r *span, a inflight.Access, m mover) (n int64, err error) {
	var op inflight.Op
	st, err := s.begin(&op, what, true)
	if err != nil {
		return 0, err
	}
	defer op.End() // also when a reader or writer panics or ends the goroutine
	if err := r.acquire(&op, st, a); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if err = checkIO(st, r, a); err == nil && r.bytes > 0 {
		if r.kind().onHost() {
			n, err = copyHostIO(ctx, st, r, a, m)
		} else {
			op.Queued()
			n, err = copyDeviceIO(ctx, st, r, m)
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %v on %v: %w", what, r, st, err)
	}
	return n, err
}

// checkIO refuses what readers and writers cannot be copied from or to.
func checkIO(st *streamState, r *span, a inflight.Access) error {
	switch {
	case st.capture != nil:
		return refusal.New(cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph has no readers and writers: copy by way of a buffer")
	case a == inflight.Write && r.a != nil && r.a.readOnly:
		return refusal.Invalid("it is registered read-only")
	}
	return r.reachableFrom(st.g)
}

// copyDeviceIO copies device memory through the ring.
func copyDeviceIO(ctx context.Context, st *streamState, r *span, m mover) (n int64, err error) {
	if err := st.g.enter("copy"); err != nil { // a Read that hangs keeps memory of the ring
		return 0, err
	}
	job := staging.Job{Stream: st.handle, StreamID: st.number, Device: r.dev, Bytes: int64(r.bytes), Done: st.g.leave}
	return m.device(ctx, stagingRing(st.g), job)
}

// hostPart is how much host memory is read or written before the context is looked at.
const hostPart = 1 << 20

// copyHostIO copies host memory, when the stream has reached it.
func copyHostIO(ctx context.Context, st *streamState, r *span, a inflight.Access, m mover) (n int64, err error) {
	if err := st.Wait(ctx); err != nil {
		return 0, err
	}
	if err := r.waitHost(ctx, a); err != nil {
		return 0, err
	}
	memory := bytesAt(r.host, r.bytes)
	for len(memory) > 0 && err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var k int
		k, err = m.host(memory[:min(len(memory), hostPart)])
		memory = memory[k:]
		n += int64(k)
	}
	if err != nil {
		err = fmt.Errorf("byte %d: %w", n, err)
	}
	return n, err
}

// source reads.
type source struct{ io.Reader }

func (s source) host(m []byte) (int, error) {
	n, err := io.ReadFull(s, m)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s source) device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error) {
	if f, at, ok := regularFile(s.Reader); ok {
		n, err := r.In(ctx, job, io.NewSectionReader(f, at, job.Bytes))
		_, seekErr := f.Seek(at+n, io.SeekStart)
		return n, errors.Join(err, seekErr)
	}
	job.Ordered = true
	return r.In(ctx, job, staging.Reader(s))
}

// regularFile is a regular file and where it stands.
func regularFile(r io.Reader) (f *os.File, at int64, ok bool) {
	if f, ok = r.(*os.File); !ok {
		return nil, 0, false
	}
	about, err := f.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return nil, 0, false
	}
	at, err = f.Seek(0, io.SeekCurrent)
	return f, at, err == nil
}

// sink writes.
type sink struct{ io.Writer }

func (s sink) host(m []byte) (int, error) {
	n, err := s.Write(m)
	if err == nil && n < len(m) {
		err = io.ErrShortWrite
	}
	return max(0, min(n, len(m))), err
}

func (s sink) device(ctx context.Context, r *staging.Ring, job staging.Job) (int64, error) {
	job.Ordered = true
	return r.Out(ctx, job, staging.Writer(s))
}
