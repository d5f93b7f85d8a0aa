package staging

import (
	"fmt"
	"io"
)

// sequence is a reader or a writer that must be used in order: it ignores offsets.
type sequence struct {
	r io.Reader
	w io.Writer
}

// Reader returns r as the source of a transfer that is Ordered.
func Reader(r io.Reader) io.ReaderAt { return sequence{r: r} }

// Writer returns w as the destination of a transfer that is Ordered.
func Writer(w io.Writer) io.WriterAt { return sequence{w: w} }

func (s sequence) ReadAt(p []byte, _ int64) (int, error) { return ReadFull(s.r, p) }

func (s sequence) WriteAt(p []byte, _ int64) (int, error) {
	n, err := s.w.Write(p)
	return Written(len(p), n, err)
}

// ReadFull is io.ReadFull for a reader of the program. A Read that returns a number of bytes
// that it cannot have read is an error. An io.ErrUnexpectedEOF of the reader itself is wrapped,
// so it differs from that of a reader that just ends: a compressed file that is cut off has it.
func ReadFull(r io.Reader, p []byte) (int, error) { return io.ReadFull(counted{r}, p) }

// counted checks the number of bytes that each Read returns.
type counted struct{ r io.Reader }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if n < 0 || n > len(p) {
		return 0, CountError("Read", len(p), n)
	}
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // a wrapped one differs already
		err = fmt.Errorf("the reader returned %w", err)
	}
	return n, err
}

// Written returns the results of a Write of a number of bytes by a writer of the program. A
// Write that returns a number that it cannot have written, or too few without an error, is an
// error.
func Written(asked, n int, err error) (int, error) {
	switch {
	case err != nil:
		return max(0, min(n, asked)), err
	case n < 0 || n > asked:
		return 0, CountError("Write", asked, n)
	case n < asked:
		return n, io.ErrShortWrite
	}
	return n, nil
}

// CountError is the error for a method of a reader or writer that returned a wrong number of
// bytes.
func CountError(method string, asked, n int) error {
	return fmt.Errorf("%s of %d bytes returned %d: it must be 0 to %d, so the reader or writer is wrong", method, asked, n, asked)
}
