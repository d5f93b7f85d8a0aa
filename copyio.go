package ferry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/stage"
)

// CopyFrom fills dst with what r reads, in the order of the stream. It returns when
// the bytes have been read, and those for the device are queued; n is how many.
// Reading and copying overlap, through page-locked memory. A regular file, as an
// *os.File, is read by several goroutines at once, and stands after what was read.
//
// If r ends early the error wraps io.ErrUnexpectedEOF; what it gave is copied. When
// ctx ends first the error wraps ctx.Err(); a Read that hangs then is left behind.
// In a capture it is refused. CopyFrom is safe for concurrent use if r is.
func CopyFrom[T any](ctx context.Context, s *Stream, dst Memory[T], r io.Reader) (n int64, err error) {
	if r == nil {
		return 0, refuse("copy from a reader: no reader given (nil)")
	}
	return s.copyIO(ctx, "copy from a reader", regionOf(dst), writes, source{r})
}

// CopyTo writes the bytes of src to w when the stream has come to it. It returns
// when they are written; n is how many. Errors are as for [CopyFrom].
func CopyTo[T any](ctx context.Context, s *Stream, w io.Writer, src Memory[T]) (n int64, err error) {
	if w == nil {
		return 0, refuse("copy to a writer: no writer given (nil)")
	}
	return s.copyIO(ctx, "copy to a writer", regionOf(src), reads, sink{w})
}

// mover is a reader or a writer that memory is copied from or to.
type mover interface {
	host(m []byte) (int, error)
	device(ctx context.Context, r *stage.Ring, job stage.Job) (int64, error)
}

// copyIO is CopyFrom and CopyTo.
func (s *Stream) copyIO(ctx context.Context, what string, r *region, a access, m mover) (n int64, err error) {
	q, err := s.enter(what)
	if err != nil {
		return 0, err
	}
	l, err := r.begin(q, a)
	if err != nil {
		q.leave()
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	n, queued, err := q.copyIO(ctx, r, a, m)
	r.end(l, a, q.finish(queued))
	if err != nil {
		err = fmt.Errorf("%s: %v on %v: %w", what, r, q, err)
	}
	return n, err
}

// copyIO is the part of the queue. queued says whether anything was.
func (q *queue) copyIO(ctx context.Context, r *region, a access, m mover) (n int64, queued bool, err error) {
	switch {
	case q.c != nil:
		return 0, false, &refusal{cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph has no readers and writers: copy by way of a buffer"}
	case a == writes && r.a != nil && r.a.readOnly:
		return 0, false, refuse("it is registered read-only")
	}
	if err := r.reach(q.g); err != nil || r.bytes == 0 {
		return 0, false, err
	}
	if r.kind().onHost() {
		n, err = q.copyHostIO(ctx, r, a, m)
		return n, false, err
	}
	if err := q.g.enter("copy"); err != nil { // a read that hangs still has memory of the ring
		return 0, false, err
	}
	job := stage.Job{Stream: q.handle, Number: q.number, Device: r.dev, Bytes: int64(r.bytes), Done: q.g.leave}
	n, err = m.device(ctx, q.g.stager().ring, job)
	return n, true, err
}

// hostPart is how much host memory is read or written before the context is asked
// whether it has ended.
const hostPart = 1 << 20

// copyHostIO is copyIO of host memory, when it is its turn.
func (q *queue) copyHostIO(ctx context.Context, r *region, a access, m mover) (n int64, err error) {
	if err := q.settle(ctx); err != nil {
		return 0, err
	}
	if r.a != nil {
		if err := r.ready(ctx, a); err != nil {
			return 0, err
		}
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

func (s source) device(ctx context.Context, r *stage.Ring, job stage.Job) (int64, error) {
	if f, at, ok := regular(s.Reader); ok {
		n, err := r.In(ctx, job, io.NewSectionReader(f, at, job.Bytes))
		_, seekErr := f.Seek(at+n, io.SeekStart)
		return n, errors.Join(err, seekErr)
	}
	job.Ordered = true
	return r.In(ctx, job, stage.Reader(s))
}

// regular is a regular file and where it stands.
func regular(r io.Reader) (f *os.File, at int64, ok bool) {
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

func (s sink) device(ctx context.Context, r *stage.Ring, job stage.Job) (int64, error) {
	job.Ordered = true
	return r.Out(ctx, job, stage.Writer(s))
}
