package pin

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// Blocks have one of some 290 sizes, the classes: multiples of 256 bytes up to 2 KiB, then
// eight sizes to each doubling. So a block is larger than asked for by less than an eighth,
// or by less than 256 bytes.
const (
	quantum    = 256
	linear     = 8 // classes that are multiples of the quantum
	linearBits = 11
	classes    = linear + (46-linearBits)*8
	maxBlock   = 1 << 46 // bytes
)

// classOf returns the smallest class of blocks with at least n bytes, 1 to maxBlock.
func classOf(n uintptr) int {
	if n <= linear*quantum {
		return int((n+quantum-1)/quantum) - 1
	}
	e := bits.Len64(uint64(n-1)) - 1
	return linear + (e-linearBits)*8 + int((n-1)>>(e-3)) - 8
}

// sizeOf returns the bytes of a block of class c.
func sizeOf(c int) uintptr {
	if c < linear {
		return uintptr(c+1) * quantum
	}
	e := (c-linear)/8 + linearBits
	return uintptr((c-linear)%8+9) << (e - 3)
}

// classWithin returns the largest class of blocks that fit into n bytes, a multiple of the
// quantum.
func classWithin(n uintptr) int {
	c := classOf(n)
	if sizeOf(c) > n {
		c--
	}
	return c
}

// Segment is memory that a pool has from its source.
type Segment interface {
	Start() cu.HostPtr
	Bytes() uintptr
	// Boundaries returns where one registration ends and the next begins, in bytes from
	// the start.
	Boundaries() []uintptr
	// Close gives the memory back to the source. After an error that wraps
	// cu.ErrorNotPermitted it may be called again, outside of a host function, and after an
	// error that is a *Stays at any time.
	Close() error
}

// Stays is an error of Segment.Close after which the memory is page-locked as before.
type Stays struct{ Err error }

func (e *Stays) Error() string { return e.Err.Error() }

// Unwrap returns the error of the call.
func (e *Stays) Unwrap() error { return e.Err }

// segment is a Segment in a pool.
type segment struct {
	Segment
	site  string  // Source.Site when it was taken
	first *extent // the one with the lowest addresses
}

// extent is a range of bytes of a segment: a block, or free. Two free ones are never next
// to each other. Pool.mu guards all fields that change.
type extent struct {
	segment    *segment
	off, bytes uintptr
	free       bool
	prev, next *extent // by address

	bin              int
	binPrev, binNext *extent // in the bin, if free
}

// bins are the free extents, by the largest class that each can hold.
type bins struct {
	heads  [classes]*extent
	filled [(classes + 63) / 64]uint64 // a bit for each bin with extents
	bytes  uintptr                     // of all extents
}

func (b *bins) add(e *extent) {
	e.free, e.bin = true, classWithin(e.bytes)
	e.binPrev, e.binNext = nil, b.heads[e.bin]
	if e.binNext != nil {
		e.binNext.binPrev = e
	}
	b.heads[e.bin] = e
	b.filled[e.bin/64] |= 1 << (e.bin % 64)
	b.bytes += e.bytes
}

func (b *bins) remove(e *extent) {
	if e.binPrev != nil {
		e.binPrev.binNext = e.binNext
	} else {
		b.heads[e.bin] = e.binNext
		if e.binNext == nil {
			b.filled[e.bin/64] &^= 1 << (e.bin % 64)
		}
	}
	if e.binNext != nil {
		e.binNext.binPrev = e.binPrev
	}
	e.free, e.binPrev, e.binNext = false, nil, nil
	b.bytes -= e.bytes
}

// take cuts an extent of class c from the first bin whose extents are all large enough. It
// returns nil if there is none.
func (b *bins) take(c int) *extent {
	e := b.find(c)
	if e == nil {
		return nil
	}
	b.remove(e)
	if rest := e.bytes - sizeOf(c); rest > 0 {
		e.bytes = sizeOf(c)
		r := &extent{segment: e.segment, off: e.off + e.bytes, bytes: rest, prev: e, next: e.next}
		if r.next != nil {
			r.next.prev = r
		}
		e.next = r
		b.add(r)
	}
	return e
}

// find returns an extent of bin c, or of the next bin that has one.
func (b *bins) find(c int) *extent {
	word := b.filled[c/64] >> (c % 64) << (c % 64)
	for i := c / 64; ; {
		if word != 0 {
			return b.heads[i*64+bits.TrailingZeros64(word)]
		}
		if i++; i == len(b.filled) {
			return nil
		}
		word = b.filled[i]
	}
}

// put joins an extent with the free ones on both sides, and adds it.
func (b *bins) put(e *extent) {
	if p := e.prev; p != nil && p.free {
		b.remove(p)
		p.absorb(e)
		e = p
	}
	if n := e.next; n != nil && n.free {
		b.remove(n)
		e.absorb(n)
	}
	b.add(e)
}

// absorb takes over the bytes of the next extent.
func (e *extent) absorb(n *extent) {
	e.bytes += n.bytes
	if e.next = n.next; e.next != nil {
		e.next.prev = e
	}
}

// whole reports whether an extent is all of its segment.
func (e *extent) whole() bool { return e.prev == nil && e.next == nil }
