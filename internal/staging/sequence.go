package staging

import "io"

// sequence is a reader or a writer that must be used in order: it ignores offsets.
type sequence struct {
	r io.Reader
	w io.Writer
}

// Reader returns r as the source of a transfer that is Ordered.
func Reader(r io.Reader) io.ReaderAt { return sequence{r: r} }

// Writer returns w as the destination of a transfer that is Ordered.
func Writer(w io.Writer) io.WriterAt { return sequence{w: w} }

func (s sequence) ReadAt(p []byte, _ int64) (int, error) { return io.ReadFull(s.r, p) }

func (s sequence) WriteAt(p []byte, _ int64) (int, error) {
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
