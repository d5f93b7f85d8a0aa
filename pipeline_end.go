package ferry

import (
	"errors"
	"fmt"
	"io"
)

// End is where the data of a [Pipeline] comes from or goes to: a [Device], [Host],
// [Managed] or [Slice] of any element type, or what [From] or [To] made of a reader
// or writer. No other types implement it.
type End interface{ end() port }

// port is an end, looked at.
type port struct {
	r     *region // the memory; nil for a reader or writer
	size  uintptr // of an element
	n     int     // elements, or unknown
	torn  int     // bytes after the last whole element
	bad   error
	read  io.Reader
	write io.Writer

	// Of a file, or what else can be read or written anywhere:
	readAt  io.ReaderAt
	writeAt io.WriterAt
	seek    io.Seeker
	base    int64
}

// unknown is a number of elements.
const unknown = -1

func (d *Device[T]) end() port  { return memoryEnd[T](d.where(nil)) }
func (h *Host[T]) end() port    { return memoryEnd[T](h.where(nil)) }
func (m *Managed[T]) end() port { return memoryEnd[T](m.where(nil)) }
func (p *Slice[T]) end() port   { return memoryEnd[T](p.where(nil)) }

func memoryEnd[T any](r *region) port {
	p := port{r: r, size: sizeOf[T](), n: r.len(), bad: r.check()}
	if p.bad == nil && p.size == 0 {
		p.bad = refuse("%v has elements without bytes", r)
	}
	return p
}

// stream is an end that is a reader or a writer.
type streamEnd struct {
	read  io.Reader
	write io.Writer
	size  uintptr
	bad   error
}

// From is an end of a [Pipeline] that reads elements of type T, in the byte order of
// this machine. A pipeline of readers alone goes on until they end, which they must do
// together; a reader may have more than memory at other ends.
//
// What can also be read anywhere, an io.ReaderAt and io.Seeker such as a file, is read
// from where it stands by several goroutines at once, and stands after what was used
// when [Pipeline.Run] has returned.
func From[T any](r io.Reader) End {
	return streamEndOf[T](r == nil, streamEnd{read: r})
}

// To is an end of a [Pipeline] that writes elements of type T, in the byte order of
// this machine.
//
// What can also be written anywhere, an io.WriterAt and io.Seeker such as a file, is
// written from where it stands by several goroutines at once, and stands after what
// Run says was done when [Pipeline.Run] has returned.
func To[T any](w io.Writer) End {
	return streamEndOf[T](w == nil, streamEnd{write: w})
}

func streamEndOf[T any](missing bool, s streamEnd) End {
	e, err := elementOf[T]()
	s.size, s.bad = sizeOf[T](), err
	switch {
	case missing:
		s.bad = refuse("no reader or writer given (nil)")
	case err == nil && s.size == 0:
		s.bad = refuse("elements of %s have no bytes", e.name)
	}
	return &s
}

// end looks where the reader or writer stands now.
func (s *streamEnd) end() port {
	p := port{size: s.size, n: unknown, bad: s.bad, read: s.read, write: s.write}
	if p.bad != nil {
		return p
	}
	if at, ok := s.read.(io.ReaderAt); ok {
		p.openRead(at, s.read)
	}
	if at, ok := s.write.(io.WriterAt); ok {
		p.openWrite(at, s.write)
	}
	return p
}

// openRead makes a reader one that can be read anywhere, if its end is known.
func (p *port) openRead(at io.ReaderAt, r io.Reader) {
	seek, ok := r.(io.Seeker)
	if !ok {
		return
	}
	base, err := seek.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	last, err := seek.Seek(0, io.SeekEnd)
	if _, back := seek.Seek(base, io.SeekStart); back != nil {
		p.bad = fmt.Errorf("seek back to byte %d: %w", base, back)
		return
	}
	if err != nil || last <= base { // devices say that they are empty
		return
	}
	p.readAt, p.seek, p.base = at, seek, base
	p.n = int(uintptr(last-base) / p.size)
	p.torn = int(uintptr(last-base) % p.size)
}

// openWrite makes a writer one that can be written anywhere, unless it is a file that
// is open for appending.
func (p *port) openWrite(at io.WriterAt, w io.Writer) {
	seek, ok := w.(io.Seeker)
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

// ordered says that the port is a reader or a writer that must be served in order.
func (p *port) ordered() bool { return p.r == nil && p.readAt == nil && p.writeAt == nil }

// stand leaves a file after so many elements.
func (p *port) stand(n int) error {
	if p.seek == nil {
		return nil
	}
	_, err := p.seek.Seek(p.base+int64(n)*int64(p.size), io.SeekStart)
	return err
}

// fetch reads into b what begins at element first. Short reads of an ordered reader that
// ends are no error: short is how many whole elements there were.
func (p *port) fetch(b []byte, first int) (short int, err error) {
	if p.readAt != nil {
		n, err := p.readAt.ReadAt(b, p.base+int64(first)*int64(p.size))
		if n == len(b) {
			return n / int(p.size), nil
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	n, err := io.ReadFull(p.read, b)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF: //nolint:errorlint // ReadFull's own
		if torn := n % int(p.size); torn != 0 {
			return 0, fmt.Errorf("%d bytes after the last whole element: %w", torn, io.ErrUnexpectedEOF)
		}
	case err != nil:
		return 0, err
	}
	return n / int(p.size), nil
}

// store writes b, which begins at element first.
func (p *port) store(b []byte, first int) error {
	var n int
	var err error
	if p.writeAt != nil {
		n, err = p.writeAt.WriteAt(b, p.base+int64(first)*int64(p.size))
	} else {
		n, err = p.write.Write(b)
	}
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}
