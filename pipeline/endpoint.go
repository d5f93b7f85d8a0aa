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
	"github.com/ferrygpu/ferry/internal/staging"
)

// End is where the data of a [Pipeline] comes from or goes to: a [ferry.Device],
// [ferry.Host], [ferry.Managed] or [ferry.PageableSlice] of any element type, or the
// result of [From] or [To]. Run refuses other types.
type End interface {
	// Len is the number of elements. It is 0 for readers and writers, because only Run
	// can count their elements.
	Len() int
	// Size is the size in bytes. It is 0 for readers and writers.
	Size() int
}

// streamEnd is the result of From or To: an End with a reader or a writer.
type streamEnd struct {
	read    io.Reader
	write   io.Writer
	element reflect.Type
	slice   any // an empty PageableSlice of the element type, for the check of that type
}

func (s *streamEnd) Len() int  { return 0 }
func (s *streamEnd) Size() int { return 0 }

// From returns an end of a [Pipeline] that reads elements of type T, in the byte order of
// this machine. If no end is memory and Len is 0, the pipeline runs until the readers end.
// All readers must then end after the same element. Otherwise a reader may have more
// elements than the pipeline uses.
//
// Several goroutines read a reader that is also an io.ReaderAt and an io.Seeker, such as a
// file, at the same time. They begin at its current offset. [Pipeline.Run] takes the elements
// at once: it moves the offset behind them when it begins, so others who use the file get
// other bytes. If it ends early, the offset goes back to the end of the last element that was
// used, unless something else has moved it since. Inputs of one pipeline that are one file
// begin at one offset. A reader without the method Stat of a file is moved to its end and back
// to find its size: nothing else may use it meanwhile.
func From[T any](r io.Reader) End {
	return &streamEnd{read: r, element: reflect.TypeFor[T](), slice: ferry.Pageable[T](nil)}
}

// To returns an end of a [Pipeline] that writes elements of type T, in the byte order of
// this machine.
//
// Several goroutines write to a writer that is also an io.WriterAt and an io.Seeker, such
// as a file, at the same time. They begin at its current offset. [Pipeline.Run] takes the
// place for the elements as for [From]: at once, or for each chunk if only readers know how
// many there are. An output can be the file of an input with elements of the same size.
func To[T any](w io.Writer) End {
	return &streamEnd{write: w, element: reflect.TypeFor[T](), slice: ferry.Pageable[T](nil)}
}

// endpoint is an End as one Run uses it: the size and number of its elements, and its
// memory, reader or writer.
type endpoint struct {
	end  End
	size int // of an element, in bytes
	n    int // elements, or unknown
	torn int // bytes after the last whole element

	// For memory:
	isMemory bool
	memory   bridge.Memory

	// For a reader or a writer. The fields from readAt on are set only if data can be read or
	// written at any offset, as in a file: see files.go.
	read    io.Reader
	write   io.Writer
	readAt  io.ReaderAt
	writeAt io.WriterAt
	seek    io.Seeker
	base    int64 // the offset of element 0
	last    int64 // the end of a file that is read
	taken   int64 // the end of the range that is taken; 0 before
	apart   bool  // others have taken bytes within the range
}

// unknown is endpoint.n for a reader or writer whose number of elements is not known.
const unknown = -1

// newEndpoint makes the endpoint of an End. It returns an error if the End cannot be an
// input or output of a pipeline on g.
func newEndpoint(g *ferry.GPU, e End, output bool) (endpoint, error) {
	if s, ok := e.(*streamEnd); ok {
		return s.endpoint(g, output)
	}
	m, err := bridge.Describe(g, e, output)
	switch {
	case errors.Is(err, bridge.ErrNotMemory):
		return endpoint{}, refusal.Invalid("a %T cannot be an end: use a Device, Host, Managed or PageableSlice, or the result of From or To", e)
	case err != nil:
		return endpoint{}, err
	case m.ElementSize == 0:
		return endpoint{}, refusal.Invalid("%v has elements of size 0", e)
	}
	return endpoint{end: e, size: m.ElementSize, n: m.Len, isMemory: true, memory: m}, nil
}

// endpoint makes the endpoint, and reads the current offset of a file.
func (s *streamEnd) endpoint(g *ferry.GPU, output bool) (endpoint, error) {
	if s.read == nil && s.write == nil {
		return endpoint{}, refusal.Invalid("no reader or writer given (nil)")
	}
	m, err := bridge.Describe(g, s.slice, false)
	switch {
	case err != nil:
		return endpoint{}, err
	case m.ElementSize == 0:
		return endpoint{}, refusal.Invalid("elements of type %v have size 0", s.element)
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

// staged reports whether the CPU moves the data, to or from page-locked chunks.
func (p *endpoint) staged() bool { return !p.isMemory || p.memory.Pageable }

// ordered reports whether the endpoint is a reader or a writer that must be used in the
// order of the chunks.
func (p *endpoint) ordered() bool { return !p.isMemory && p.readAt == nil && p.writeAt == nil }

// view returns the memory of an endpoint that is not staged, as bytes.
func (p *endpoint) view() *ferry.Device[byte] { return p.memory.View.(*ferry.Device[byte]) }

// addresses returns the address range of an endpoint in memory. For other endpoints it returns 0, 0.
func (p *endpoint) addresses() (from, to uint64) {
	if !p.isMemory || p.n == 0 {
		return 0, 0
	}
	return p.memory.Start, p.memory.Start + uint64(p.n)*uint64(p.size)
}

// sameAs reports whether two endpoints have the same elements.
func (p *endpoint) sameAs(o *endpoint) bool {
	a, _ := p.addresses()
	b, _ := o.addresses()
	return a != 0 && a == b && p.size == o.size && p.memory.Space == o.memory.Space
}

// clashes reports whether two endpoints overlap and do not have the same elements: see
// sameAs.
func (p *endpoint) clashes(o *endpoint) bool {
	a, aEnd := p.addresses()
	b, bEnd := o.addresses()
	return a < bEnd && b < aEnd && p.memory.Space == o.memory.Space && !p.sameAs(o)
}

// waitInFlight waits for the operations in flight on the endpoint.
func (p *endpoint) waitInFlight(ctx context.Context, output bool) error {
	if p.staged() {
		return nil
	}
	return bridge.WaitInFlight(ctx, p.memory.View, output)
}

// fetch reads elements into b, beginning with element first. n is the number of whole
// elements that it read. n is smaller than b only if an ordered reader has ended.
func (p *endpoint) fetch(b []byte, first int) (n int, err error) {
	if p.readAt != nil {
		n, err := p.readAt.ReadAt(b, p.offset(first))
		switch {
		case n == len(b):
			return n / p.size, nil
		case n < 0 || n > len(b):
			err = staging.CountError("ReadAt", len(b), n)
		case err == nil || errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	n, err = staging.ReadFull(p.read, b)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF: //nolint:errorlint // ReadFull does not wrap these
		if torn := n % p.size; torn != 0 {
			return 0, fmt.Errorf("%d bytes after the last whole element: %w", torn, io.ErrUnexpectedEOF)
		}
	case err != nil:
		return 0, err
	}
	return n / p.size, nil
}

// store writes b. If data can be written at any offset, it belongs at the offset at.
func (p *endpoint) store(b []byte, at int64) error {
	var n int
	var err error
	if p.writeAt != nil {
		n, err = p.writeAt.WriteAt(b, at)
	} else {
		n, err = p.write.Write(b)
	}
	_, err = staging.Written(len(b), n, err)
	return err
}
