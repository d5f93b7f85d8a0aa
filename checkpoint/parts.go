package checkpoint

import (
	"context"
	"errors"
	"hash"
	"io"

	"github.com/ferrygpu/ferry"
)

// part is a range of a file and where it goes.
type part struct {
	src  io.ReaderAt
	off  int64
	dst  ferry.Memory[byte]
	also []ferry.Memory[byte]
}

type partError struct {
	part int
	error
}

func (e *partError) Unwrap() error { return e.error }

// copyParts fills the parts one after another.
func copyParts(ctx context.Context, s *ferry.Stream, parts []part, hashes []hash.Hash, progress func(int64)) error {
	done := int64(0)
	for i, p := range parts {
		var r io.Reader = io.NewSectionReader(p.src, p.off, int64(p.dst.Size()))
		if hashes != nil && hashes[i] != nil {
			r = io.TeeReader(r, hashes[i])
		}
		n, err := ferry.CopyFrom(ctx, s, p.dst, r)
		for _, also := range p.also {
			_, err2 := ferry.CopyFrom(ctx, s, also, io.NewSectionReader(p.src, p.off, int64(p.dst.Size())))
			err = errors.Join(err, err2)
		}
		if err != nil {
			return &partError{i, err}
		}
		if done += n; progress != nil {
			progress(done)
		}
	}
	return nil
}
