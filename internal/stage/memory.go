package stage

import (
	"fmt"
	"io"
	"runtime/debug"
)

// Memory is ordinary memory as the source or the destination of a transfer. What
// cannot be read or written, as pages of a mapped file that was cut off, is an
// error that says where, not the end of the process.
type Memory []byte

// ReadAt copies from the memory at an offset.
func (m Memory) ReadAt(p []byte, off int64) (n int, err error) { return m.read(p, off, plain) }

// read is ReadAt in a way to copy.
func (m Memory) read(p []byte, off int64, how func(dst, src []byte)) (n int, err error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n = min(len(p), len(m)-int(off))
	if err := guarded(p[:n], m[off:int(off)+n], "read", how); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt copies to the memory at an offset.
func (m Memory) WriteAt(p []byte, off int64) (n int, err error) {
	if off < 0 || off > int64(len(m)) || len(p) > len(m)-int(off) {
		return 0, io.ErrShortWrite
	}
	how := plain
	if len(m) >= streamed {
		how = stream
	}
	if err := guarded(m[off:int(off)+len(p)], p, "write", how); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Memory of this size is not in the caches after it was written: it is stored past
// them, which spares reading it first. Six goroutines then do what took twelve.
const streamed = 128 << 20

// plain is copy.
func plain(dst, src []byte) { copy(dst, src) }

// toDevice is how to copy n bytes at an offset to the ring. What stays in the caches
// of many cores the device reads at half the speed of the link and less. While they go
// on copying they push it out to the cache that they share, before the device comes to
// it; at the end nothing does. There it is stored past them, or moved out of them,
// which costs the goroutines more and leaves it nearer.
func toDevice(off, n int64) func(dst, src []byte) {
	switch {
	case off < n-atEnd:
		return plain
	case n >= demotedFrom && canDemote:
		return demoted
	}
	return stream
}

const (
	atEnd       = 24 << 20 // what twelve cores of an H200 machine keep to themselves
	demotedFrom = 64 << 20 // below that the goroutines are not ahead of the device
)

// demoted is copy; then it moves what it has written out of the core's own cache.
func demoted(dst, src []byte) {
	copy(dst, src)
	demote(dst)
}

// guarded copies and turns a fault into an error.
func guarded(dst, src []byte, what string, how func(dst, src []byte)) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch v := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("cannot %s address %#x: a mapped file may have been cut off, or the memory unmapped", what, v.Addr())
		default:
			panic(v)
		}
	}()
	how(dst, src)
	return nil
}

// Reader is what comes from r one after the other, for a transfer that is Ordered.
func Reader(r io.Reader) io.ReaderAt { return sequence{r: r} }

// Writer is the same for a destination.
func Writer(w io.Writer) io.WriterAt { return sequence{w: w} }

// sequence is read and written in order, whatever the offset.
type sequence struct {
	r io.Reader
	w io.Writer
}

func (s sequence) ReadAt(p []byte, _ int64) (int, error) { return io.ReadFull(s.r, p) }

func (s sequence) WriteAt(p []byte, _ int64) (int, error) {
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return n, err
}
