package staging

import (
	"io"
	"iter"
	"sort"

	"github.com/ferrygpu/ferry/cu"
)

// List is many parts of ordinary memory as the source or the destination of one transfer.
// Each part has its own place on the device. So many small copies cost what one large copy
// costs. The transfer needs [Job.Copy]. Its bytes are those of all parts in the order of
// Add, with gaps: a part begins where its address on the device is aligned alike, because
// copies between such addresses are faster. Bytes in gaps are not copied.
type List struct {
	parts []part
	bytes int64 // with the gaps
}

// part is one range of a List. It begins at byte at of the transfer.
type part struct {
	memory []byte
	device cu.DevicePtr
	at     int64
}

// alignment is a power of two to which addresses in the ring and on the device are alike. A
// copy engine moves 128 bytes at a time, and a kernel 16.
const alignment = 128

// Add adds a part.
func (l *List) Add(memory []byte, device cu.DevicePtr) {
	if len(memory) == 0 {
		return
	}
	at := l.bytes + (int64(device)-l.bytes)&(alignment-1)
	l.parts = append(l.parts, part{memory, device, at})
	l.bytes = at + int64(len(memory))
}

// Bytes returns the number of bytes of a transfer, with the gaps: see [Job.Bytes].
func (l *List) Bytes() int64 { return l.bytes }

// Reset removes all parts.
func (l *List) Reset() {
	clear(l.parts)
	l.parts, l.bytes = l.parts[:0], 0
}

// Find returns the part that has byte off of a transfer, and the offset in that part. In a
// gap it is the start of the next part.
func (l *List) Find(off int64) (part int, at int64) {
	part = sort.Search(len(l.parts), func(i int) bool {
		return l.parts[i].at+int64(len(l.parts[i].memory)) > off
	})
	if part < len(l.parts) {
		at = max(0, off-l.parts[part].at)
	}
	return part, at
}

// Piece is bytes of one part that are also in a range of the transfer.
type Piece struct {
	Part   int
	Memory []byte
	Device cu.DevicePtr
	At     int64 // from the start of the range
}

// Pieces returns the pieces of n bytes of a transfer, from byte off.
func (l *List) Pieces(off, n int64) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		for i, from := l.Find(off); i < len(l.parts) && l.parts[i].at < off+n; i, from = i+1, 0 {
			p := &l.parts[i]
			to := min(int64(len(p.memory)), off+n-p.at)
			if !yield(Piece{i, p.memory[from:to], p.device + cu.DevicePtr(from), p.at + from - off}) {
				return
			}
		}
	}
}

// ReadAt copies from the parts. It does not change bytes of p in gaps. Memory that cannot be
// read is an error, as for [Memory]: n is then the offset of its part.
func (l *List) ReadAt(p []byte, off int64) (n int, err error) { return l.read(p, off, copyCached) }

// WriteAt copies to the parts. Errors are as for ReadAt.
func (l *List) WriteAt(p []byte, off int64) (n int, err error) { return l.write(p, off, copyCached) }

// WriteNonTemporal is WriteAt with stores past the caches, if all parts together have at least
// from bytes: see [Settings.NonTemporalFrom].
func (l *List) WriteNonTemporal(p []byte, off int64, from int) (n int, err error) {
	if l.bytes < int64(from) {
		return l.write(p, off, copyCached)
	}
	return l.write(p, off, copyNonTemporal)
}

func (l *List) read(p []byte, off int64, how func(dst, src []byte)) (n int, err error) {
	return l.each("read", p, off, io.EOF, func(x Piece, p []byte) { howFor(x, how)(p, x.Memory) })
}

func (l *List) write(p []byte, off int64, how func(dst, src []byte)) (n int, err error) {
	return l.each("write", p, off, io.ErrShortWrite, func(x Piece, p []byte) { howFor(x, how)(x.Memory, p) })
}

// howFor returns how to copy a piece. Stores past the caches end with a fence, which costs
// more than they save in a short piece.
func howFor(x Piece, how func(dst, src []byte)) func(dst, src []byte) {
	if len(x.Memory) < 2<<10 {
		return copyCached
	}
	return how
}

// each calls f for each piece of the transfer in p, which begins at byte off. outside is the
// error if p extends beyond the transfer.
func (l *List) each(what string, p []byte, off int64, outside error, f func(x Piece, p []byte)) (n int, err error) {
	if off < 0 || int64(len(p)) > l.bytes-off {
		return 0, outside
	}
	err = guarded(what, func() {
		for x := range l.Pieces(off, int64(len(p))) {
			n = int(x.At) // if f fails
			f(x, p[x.At:x.At+int64(len(x.Memory))])
		}
		n = len(p)
	})
	return n, err
}
