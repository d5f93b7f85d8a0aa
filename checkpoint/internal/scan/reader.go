package scan

import (
	"errors"
	"fmt"
	"io"
)

const (
	firstWindow = 4 << 10
	maxWindow   = 64 << 10
)

// Error is the error of bytes that are not what they should be.
type Error struct {
	Offset int64  // in the file, of the first byte that is wrong
	Text   string // what is wrong
	Twice  string // the name that an object has twice, if that is wrong
	Err    error  // the error of the reader, or nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("byte %d: %s: %v", e.Offset, e.Text, e.Err)
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.Text)
}

// Unwrap returns the error of the reader.
func (e *Error) Unwrap() error { return e.Err }

// Reader reads a range of a file in order. It is not safe for concurrent use.
type Reader struct {
	src    io.ReaderAt
	window []byte
	next   int   // index in window of the next byte
	base   int64 // offset in the file of the window's first byte
	end    int64 // of the range
}

// NewReader returns a reader of bytes from to to-1 of src.
func NewReader(src io.ReaderAt, from, to int64) *Reader {
	return &Reader{src: src, base: from, end: max(from, to)}
}

// Offset returns the offset in the file of the next byte.
func (r *Reader) Offset() int64 { return r.base + int64(r.next) }

// Left returns how many bytes of the range have not been read.
func (r *Reader) Left() int64 { return r.end - r.Offset() }

// Errorf returns an error about the next byte.
func (r *Reader) Errorf(format string, args ...any) error {
	return ErrorAt(r.Offset(), format, args...)
}

// ErrorAt returns an error about a byte of the file.
func ErrorAt(offset int64, format string, args ...any) error {
	return &Error{Offset: offset, Text: fmt.Sprintf(format, args...)}
}

// Within says in an error what the wrong byte belongs to.
func Within(what string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{Offset: e.Offset, Text: what + ": " + e.Text, Err: e.Err}
	}
	return err
}

// fill reads the next window. The range must have bytes left, and the window must have none.
func (r *Reader) fill() error {
	r.base += int64(len(r.window))
	r.next = 0
	size := min(int64(max(2*cap(r.window), firstWindow)), maxWindow)
	if int64(cap(r.window)) < size {
		r.window = make([]byte, size)
	}
	r.window = r.window[:min(size, r.end-r.base)]
	n, err := r.src.ReadAt(r.window, r.base)
	if n < 0 || n > len(r.window) {
		n, err = 0, fmt.Errorf("ReadAt returned %d bytes of %d", n, len(r.window))
	}
	if want := len(r.window); n < want {
		r.window = r.window[:n]
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return &Error{Offset: r.base + int64(n), Text: fmt.Sprintf("read %d bytes of the header", want), Err: err}
	}
	return nil
}

// Peek returns the next byte and does not take it.
func (r *Reader) Peek() (byte, error) {
	if r.next < len(r.window) {
		return r.window[r.next], nil
	}
	if r.Left() <= 0 {
		return 0, r.Errorf("the header ends here, in the middle of a value")
	}
	if err := r.fill(); err != nil {
		return 0, err
	}
	return r.window[0], nil
}

// Byte takes the next byte.
func (r *Reader) Byte() (byte, error) {
	b, err := r.Peek()
	if err == nil {
		r.next++
	}
	return b, err
}

// part takes at most n bytes, as many as the window has, and at least one. They are valid until
// the next call.
func (r *Reader) part(n int64) ([]byte, error) {
	if _, err := r.Peek(); err != nil {
		return nil, err
	}
	p := r.window[r.next:]
	p = p[:min(n, int64(len(p)))]
	r.next += len(p)
	return p, nil
}

// Bytes takes n bytes. The range must have as many: see [Reader.Left].
func (r *Reader) Bytes(n int64) ([]byte, error) {
	var all []byte
	for n > 0 {
		p, err := r.part(n)
		if err != nil {
			return nil, err
		}
		all = append(all, p...)
		n -= int64(len(p))
	}
	return all, nil
}

// Fill takes as many bytes as p has.
func (r *Reader) Fill(p []byte) error {
	for len(p) > 0 {
		q, err := r.part(int64(len(p)))
		if err != nil {
			return err
		}
		p = p[copy(p, q):]
	}
	return nil
}
