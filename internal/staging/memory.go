package staging

import (
	"io"
	"runtime/debug"

	"github.com/ferrygpu/ferry/internal/refusal"
)

// memory is ordinary memory. A transfer of it may return [ErrBusy], chooses how to copy, and
// does not hang.
type memory interface {
	read(p []byte, off int64, how func(dst, src []byte)) (n int, err error)
	WriteNonTemporal(p []byte, off int64, from int) (n int, err error)
}

// asMemory returns a source or destination as memory, or nil if it is another one. It does
// not look for the methods, which a type that embeds a Memory has.
func asMemory(x any) memory {
	switch x.(type) {
	case Memory, *Memory, *List:
		return x.(memory)
	}
	return nil
}

// Memory is ordinary memory as the source or the destination of a transfer. Memory that
// cannot be read or written, such as pages of a mapped file that was cut off, is an error
// that names the address. It does not end the process.
type Memory []byte

// ReadAt copies from the memory at an offset.
func (m Memory) ReadAt(p []byte, off int64) (n int, err error) { return m.read(p, off, copyCached) }

// read implements ReadAt with a function that copies.
func (m Memory) read(p []byte, off int64, how func(dst, src []byte)) (n int, err error) {
	if off < 0 || off > int64(len(m)) {
		return 0, io.EOF
	}
	n = min(len(p), len(m)-int(off))
	if err := guarded("read", func() { how(p[:n], m[off:int(off)+n]) }); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt copies to the memory at an offset.
func (m Memory) WriteAt(p []byte, off int64) (n int, err error) { return m.write(p, off, copyCached) }

// WriteNonTemporal copies to the memory at an offset. It stores past the caches if the memory
// has at least from bytes: see [Settings.NonTemporalFrom].
func (m Memory) WriteNonTemporal(p []byte, off int64, from int) (n int, err error) {
	if len(m) < from {
		return m.write(p, off, copyCached)
	}
	return m.write(p, off, copyNonTemporal)
}

// write implements WriteAt with a function that copies.
func (m Memory) write(p []byte, off int64, how func(dst, src []byte)) (n int, err error) {
	if off < 0 || off > int64(len(m)) || len(p) > len(m)-int(off) {
		return 0, io.ErrShortWrite
	}
	if err := guarded("write", func() { how(m[off:int(off)+len(p)], p) }); err != nil {
		return 0, err
	}
	return len(p), nil
}

// copyToRing returns how to copy bytes at an offset of a transfer of n bytes to the ring.
//
// A device reads data in the caches of many cores at half the speed of the link or less.
// Usually later copies of the workers push the data into the shared cache before the device
// reads it. At the end of a transfer there are no later copies. So the last bytes are stored
// past the caches, or moved to the shared cache. Moving costs the workers more time, and
// leaves the data in a cache.
func (s *Settings) copyToRing(off, n int64) func(dst, src []byte) {
	switch {
	case off < n-int64(s.LastBytes):
		return copyCached
	case n >= int64(s.DemoteFrom) && canDemote:
		return copyDemote
	}
	return copyNonTemporal
}

// copyCached copies with ordinary stores.
func copyCached(dst, src []byte) { copy(dst, src) }

// copyDemote copies, and moves what it has written out of the caches of this core.
func copyDemote(dst, src []byte) {
	copy(dst, src)
	demote(dst)
}

// guarded calls f, which copies, and turns a fault into an error.
func guarded(what string, f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch v := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = refusal.Invalid("cannot %s address %#x: a mapped file may have been cut off, or the memory unmapped", what, v.Addr())
		default:
			panic(v)
		}
	}()
	f()
	return nil
}
