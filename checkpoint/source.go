package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Direct says how [Load] reads files.
type Direct uint8

const (
	// DirectAuto reads past the page cache (O_DIRECT) if that has less than half of what is to be
	// read, and the file system can do so. Files of tmpfs, and less than 16 MiB, are read through it.
	DirectAuto Direct = iota
	// DirectOn reads past the page cache, or not at all. It exists on Linux.
	DirectOn
	// DirectOff reads through the page cache.
	DirectOff
)

// String returns "auto", "on" or "off".
func (d Direct) String() string {
	if d > DirectOff {
		return fmt.Sprintf("Direct(%d)", uint8(d))
	}
	return [...]string{"auto", "on", "off"}[d]
}

// directAlign is the alignment of reads past the page cache, in the file and in memory. Tests change
// it.
var directAlign int64 = directBlock

// directBlock is what nearly all disks and file systems need.
const directBlock = 4 << 10

// directFrom is for how many bytes of a file DirectAuto looks at the page cache.
const directFrom = 16 << 20

// source is a file as a load reads it. It is safe for concurrent use.
type source struct {
	*file
	direct atomic.Pointer[os.File] // the file without the page cache, or nil
	auto   bool
	opened *os.File // to be closed
}

// Name is for errors of ferry.CopyParts.
func (s *source) Name() string { return s.file.name }

// ReadAt reads past the page cache what is aligned and lies in whole blocks of the file, and the
// rest through it.
func (s *source) ReadAt(p []byte, off int64) (n int, err error) {
	direct := s.direct.Load()
	if direct != nil && off%directAlign == 0 && aligned(p) {
		whole := min(off+int64(len(p)), s.size) &^ (directAlign - 1)
		if whole > off {
			n, err = direct.ReadAt(p[:whole-off], off)
			switch {
			case !errors.Is(err, errUnaligned):
			case n > 0:
				err = nil // the file ends within a block, where os.File reads on: what is left is read below
			case s.auto:
				s.direct.Store(nil) // this file system needs more than directAlign
				err = nil
			}
		}
	}
	if err != nil || n == len(p) {
		return n, s.readError(err)
	}
	k, err := s.src.ReadAt(p[n:], off+int64(n))
	return n + k, s.readError(err)
}

// readError says what became of a file that was closed or has changed.
func (s *source) readError(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("the checkpoint was closed: %w", err)
	}
	return err
}

// aligned reports whether memory begins where reads past the page cache may write.
func aligned(p []byte) bool {
	return len(p) > 0 && int64(address.Device(address.Of(p)))%directAlign == 0
}

// sources are the files of a load.
type sources map[*file]*source

// openSources opens the files that have the tensors, in the way that the options say.
func openSources(plan *layout, o *Options) (sources, error) {
	all := sources{}
	if o.Direct > DirectOff {
		return nil, refusal.Invalid("Direct is %d: use DirectAuto, DirectOn or DirectOff", o.Direct)
	}
	for f, wanted := range plan.reads() {
		s := &source{file: f, auto: o.Direct == DirectAuto}
		all[f] = s
		if err := s.openDirect(o.Direct, wanted); err != nil {
			return nil, refusal.Join(fmt.Errorf("read %s past the page cache: %w", printable.Path(f.name), err), all.close())
		}
	}
	return all, nil
}

// fileRange is bytes of a file, from one up to another.
type fileRange struct {
	file     *file
	from, to int64
}

// readGap is how many bytes between two ranges CopyParts reads, although nobody wants them, besides
// those that fill a block of directBlock.
const readGap = 64 << 10

// fileRanges is what CopyParts reads of files without a break.
type fileRanges []fileRange

// add adds a range, which begins behind those that were added before if it is of the same file.
func (all *fileRanges) add(f *file, off, bytes int64) {
	if bytes == 0 {
		return
	}
	if n := len(*all); n > 0 && (*all)[n-1].file == f && off&^(directBlock-1) <= (*all)[n-1].to+readGap {
		(*all)[n-1].to = off + bytes
		return
	}
	*all = append(*all, fileRange{f, off, off + bytes})
}

// reads returns the files, in the order of the tensors, each with what is read of it.
func (l *layout) reads() iter.Seq2[*file, fileRanges] {
	var all fileRanges
	for i := range l.slots {
		t := l.slots[i].t
		all.add(t.file, t.Offset, t.Bytes)
	}
	return func(yield func(*file, fileRanges) bool) {
		for i, k := 0, 0; i < len(all); i = k {
			for k = i; k < len(all) && all[k].file == all[i].file; k++ {
			}
			if !yield(all[i].file, all[i:k]) {
				return
			}
		}
	}
}

// bytes returns the bytes of ranges.
func (all fileRanges) bytes() (n int64) {
	for _, r := range all {
		n += r.to - r.from
	}
	return n
}

// openDirect opens the file once more, past the page cache, if it is to be read so.
func (s *source) openDirect(d Direct, wanted fileRanges) error {
	if d == DirectOff || d == DirectAuto && (wanted.bytes() < directFrom || s.os == nil || !worthDirect(s.os, wanted)) {
		return nil
	}
	if s.os == nil {
		return refusal.New(cu.ErrorNotSupported, "it is a reader of the program, and no file that Ferry has opened")
	}
	f, err := reopenDirect(s.os)
	if err == nil {
		err = tryDirect(f, s.size)
	}
	if err == nil {
		s.opened = f
		s.direct.Store(f)
		return nil
	}
	if f != nil {
		err = refusal.Join(err, f.Close())
	}
	if d == DirectAuto {
		return nil
	}
	return printable.Error(err)
}

// tryDirect reads the first block, because some file systems refuse O_DIRECT only then.
func tryDirect(f *os.File, size int64) error {
	if size < directBlock {
		return nil
	}
	_, err := f.ReadAt(address.AlignedBytes(directBlock, directBlock), 0)
	if errors.Is(err, io.EOF) {
		return nil // it has become shorter: the load will say so
	}
	return err
}

// close closes what was opened.
func (all sources) close() error {
	var errs []error
	for _, s := range all {
		if s.opened != nil {
			errs = append(errs, s.opened.Close())
		}
	}
	return refusal.Join(errs...)
}

// drop drops what was read through the page cache from it.
func (all sources) drop(plan *layout) error {
	var errs []error
	for f, read := range plan.reads() {
		if s := all[f]; s.os != nil && s.direct.Load() == nil {
			errs = append(errs, dropCache(s.os, read))
		}
	}
	return refusal.Join(errs...)
}
