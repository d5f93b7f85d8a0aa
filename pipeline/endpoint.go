package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// End is where the data of a [Pipeline] comes from or goes to: a [ferry.Device],
// [ferry.Host], [ferry.Managed] or [ferry.PageableSlice] of any element type, or the
// result of [From] or [To]. Run refuses other types.
type End interface {
	// Len is the number of elements. It is 0 for readers and writers, whose number
	// only Run finds out.
	Len() int
	// Size is the size in bytes. It is 0 for readers and writers.
	Size() int
}

// streamEnd is the End that From or To makes of a reader or a writer.
type streamEnd struct {
	read    io.Reader
	write   io.Writer
	element reflect.Type
	slice   any // an empty PageableSlice: to check whether elements can be on a GPU
}

func (s *streamEnd) Len() int  { return 0 }
func (s *streamEnd) Size() int { return 0 }

// From is an end of a [Pipeline] that reads elements of type T, in the byte order of this
// machine. Without memory at any end and without Len, the pipeline goes on until its
// readers end, which they must do together. With memory or Len, a reader may have more
// elements than are used.
//
// A reader that is also an io.ReaderAt and an io.Seeker, such as a file, is read by
// several goroutines at once, from where it stands. When [Pipeline.Run] has returned, it
// stands after the elements that were used.
func From[T any](r io.Reader) End {
	return &streamEnd{read: r, element: reflect.TypeFor[T](), slice: ferry.Pageable[T](nil)}
}

// To is an end of a [Pipeline] that writes elements of type T, in the byte order of this
// machine.
//
// A writer that is also an io.WriterAt and an io.Seeker, such as a file, is written by
// several goroutines at once, from where it stands. When [Pipeline.Run] has returned, it
// stands after the elements that Run reports as done.
func To[T any](w io.Writer) End {
	return &streamEnd{write: w, element: reflect.TypeFor[T](), slice: ferry.Pageable[T](nil)}
}

// endpoint is an End with what one Run must know of it.
type endpoint struct {
	end  End
	size int // of an element, in bytes
	n    int // elements, or unknown
	torn int // bytes after the last whole element

	// Memory: see also view.
	isMemory bool
	memory   bridge.Memory

	// A reader or a writer. If data can be read or written at any offset, as in a file:
	// readAt or writeAt, seek, and the offset of element 0.
	read    io.Reader
	write   io.Writer
	readAt  io.ReaderAt
	writeAt io.WriterAt
	seek    io.Seeker
	base    int64
}

// unknown is a number of elements.
const unknown = -1

// newEndpoint looks at an End. It refuses an End that cannot serve as an input or output.
func newEndpoint(g *ferry.GPU, e End, output bool) (endpoint, error) {
	if s, ok := e.(*streamEnd); ok {
		return s.endpoint(g, output)
	}
	m, err := bridge.Describe(g, e, output)
	switch {
	case errors.Is(err, bridge.ErrNotMemory):
		return endpoint{}, refusal.Invalid("a %T cannot be an end: give a Device, Host, Managed or PageableSlice, or what From or To made", e)
	case err != nil:
		return endpoint{}, err
	case m.ElementSize == 0:
		return endpoint{}, refusal.Invalid("%v has elements without bytes", e)
	}
	return endpoint{end: e, size: m.ElementSize, n: m.Len, isMemory: true, memory: m}, nil
}

// endpoint finds out where the reader or writer stands now.
func (s *streamEnd) endpoint(g *ferry.GPU, output bool) (endpoint, error) {
	if s.read == nil && s.write == nil {
		return endpoint{}, refusal.Invalid("no reader or writer given (nil)")
	}
	m, err := bridge.Describe(g, s.slice, false)
	switch {
	case err != nil:
		return endpoint{}, err
	case m.ElementSize == 0:
		return endpoint{}, refusal.Invalid("elements of %v have no bytes", s.element)
	case (s.write != nil) != output:
		return endpoint{}, refusal.Invalid("From is for inputs, To is for outputs")
	}
	p := endpoint{end: s, size: m.ElementSize, n: unknown, read: s.read, write: s.write}
	if at, ok := s.read.(io.ReaderAt); ok {
		err = p.openRead(at)
	}
	if at, ok := s.write.(io.WriterAt); ok {
		p.openWrite(at)
	}
	return p, err
}

// openRead uses a reader as a file, if it can seek and the offset of its end is known.
func (p *endpoint) openRead(at io.ReaderAt) error {
	seek, ok := p.read.(io.Seeker)
	if !ok {
		return nil
	}
	base, err := seek.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	last, err := seek.Seek(0, io.SeekEnd)
	if _, back := seek.Seek(base, io.SeekStart); back != nil {
		return fmt.Errorf("seek back to byte %d: %w", base, back)
	}
	if err != nil || last <= base { // devices report that they are empty
		return nil
	}
	p.readAt, p.seek, p.base = at, seek, base
	p.n, p.torn = int(last-base)/p.size, int(last-base)%p.size
	return nil
}

// openWrite uses a writer as a file, unless that is open for appending.
func (p *endpoint) openWrite(at io.WriterAt) {
	seek, ok := p.write.(io.Seeker)
	if !ok {
		return
	}
	base, err := seek.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = at.WriteAt(nil, base)
	}
	if err == nil {
		p.writeAt, p.seek, p.base = at, seek, base
	}
}

// staged reports whether the CPU moves the data, to or from page-locked chunks.
func (p *endpoint) staged() bool { return !p.isMemory || p.memory.Pageable }

// ordered reports whether the endpoint is a reader or a writer that must be used in the
// order of the chunks.
func (p *endpoint) ordered() bool { return !p.isMemory && p.readAt == nil && p.writeAt == nil }

// view is the bytes of an endpoint that is not staged.
func (p *endpoint) view() *ferry.Device[byte] { return p.memory.View.(*ferry.Device[byte]) }

// extent is the addresses of an endpoint in memory; both are 0 for others.
func (p *endpoint) extent() (from, to uint64) {
	if !p.isMemory || p.n == 0 {
		return 0, 0
	}
	return p.memory.Start, p.memory.Start + uint64(p.n)*uint64(p.size)
}

// sameAs reports whether two endpoints have the same elements.
func (p *endpoint) sameAs(o *endpoint) bool {
	a, _ := p.extent()
	b, _ := o.extent()
	return a != 0 && a == b && p.size == o.size && p.memory.Space == o.memory.Space
}

// clashes reports whether two endpoints share bytes, but not element by element.
func (p *endpoint) clashes(o *endpoint) bool {
	a, aEnd := p.extent()
	b, bEnd := o.extent()
	return a < bEnd && b < aEnd && p.memory.Space == o.memory.Space && !p.sameAs(o)
}

// waitInFlight waits for the operations in flight on the endpoint.
func (p *endpoint) waitInFlight(ctx context.Context, output bool) error {
	if p.staged() {
		return nil
	}
	return bridge.WaitInFlight(ctx, p.memory.View, output)
}

// seekTo makes a file stand after n elements.
func (p *endpoint) seekTo(n int) error {
	if p.seek == nil {
		return nil
	}
	_, err := p.seek.Seek(p.offset(n), io.SeekStart)
	return err
}

// offset is where an element begins in a file.
func (p *endpoint) offset(element int) int64 { return p.base + int64(element)*int64(p.size) }

// fetch reads the elements from number first on into b. n is how many whole elements
// there were: fewer than asked for only when an ordered reader has ended.
func (p *endpoint) fetch(b []byte, first int) (n int, err error) {
	if p.readAt != nil {
		n, err := p.readAt.ReadAt(b, p.offset(first))
		if n == len(b) {
			return n / p.size, nil
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	n, err = io.ReadFull(p.read, b)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF: //nolint:errorlint // ReadFull's own
		if torn := n % p.size; torn != 0 {
			return 0, fmt.Errorf("%d bytes after the last whole element: %w", torn, io.ErrUnexpectedEOF)
		}
	case err != nil:
		return 0, err
	}
	return n / p.size, nil
}

// store writes b, which begins with element number first.
func (p *endpoint) store(b []byte, first int) error {
	var n int
	var err error
	if p.writeAt != nil {
		n, err = p.writeAt.WriteAt(b, p.offset(first))
	} else {
		n, err = p.write.Write(b)
	}
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// userPanic is the value of a panic in a reader or a writer, on its way to the goroutine
// that called Run.
type userPanic struct{ value any }

func (e *userPanic) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// errGoexit is the error of a reader or a writer that neither returned nor panicked.
var errGoexit = errors.New("it ended its goroutine (runtime.Goexit)")

// callUser calls a reader or a writer on a goroutine of its own and waits until it
// returns or ctx ends. When ctx ends first, the call is left behind, and left receives
// its end.
func callUser(ctx context.Context, f func() error) (left <-chan error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go catch(f, done)
	select {
	case err := <-done:
		return nil, err
	case <-ctx.Done():
		return done, ctx.Err()
	}
}

// catch calls f and sends its error, or an error for the other ways to end.
func catch(f func() error, done chan<- error) {
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &userPanic{v}
		}
		done <- err
	}()
	err = f()
}
