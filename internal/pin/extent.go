package pin

import (
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// Chunk is memory that a pool has from the driver.
type Chunk interface {
	Start() cu.HostPtr
	Bytes() uintptr
	// Cuts is where one registration ends and the next begins.
	Cuts() []uintptr
	// Close gives the memory back. One that wraps cu.ErrorNotPermitted may be tried
	// again, in other circumstances.
	Close() error
}

// chunk is a Chunk in a pool.
type chunk struct {
	Chunk
	site  string
	first *extent
}

// extent is a run of bytes of a chunk, free or not. Two that are free never touch.
type extent struct {
	chunk      *chunk
	off, bytes uintptr
	free       bool
	prev, next *extent // by address

	bin            int
	before, behind *extent // in the bin, if free
}

// bins are the free extents, by the largest class that each can hold.
type bins struct {
	heads  [classes]*extent
	filled [(classes + 63) / 64]uint64 // a bit for each bin with extents
	bytes  uintptr                     // of all
}

func (b *bins) add(e *extent) {
	e.free, e.bin = true, within(e.bytes)
	e.before, e.behind = nil, b.heads[e.bin]
	if e.behind != nil {
		e.behind.before = e
	}
	b.heads[e.bin] = e
	b.filled[e.bin/64] |= 1 << (e.bin % 64)
	b.bytes += e.bytes
}

func (b *bins) remove(e *extent) {
	if e.before != nil {
		e.before.behind = e.behind
	} else {
		b.heads[e.bin] = e.behind
		if e.behind == nil {
			b.filled[e.bin/64] &^= 1 << (e.bin % 64)
		}
	}
	if e.behind != nil {
		e.behind.before = e.before
	}
	e.free, e.before, e.behind = false, nil, nil
	b.bytes -= e.bytes
}

// take cuts a block of class c from the smallest free extent that is sure to hold
// it; nil if there is none.
func (b *bins) take(c int) *extent {
	e := b.find(c)
	if e == nil {
		return nil
	}
	b.remove(e)
	if rest := e.bytes - sizeOf(c); rest > 0 {
		e.bytes = sizeOf(c)
		r := &extent{chunk: e.chunk, off: e.off + e.bytes, bytes: rest, prev: e, next: e.next}
		if r.next != nil {
			r.next.prev = r
		}
		e.next = r
		b.add(r)
	}
	return e
}

// find is an extent of bin c, or of the next that has one.
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

// give joins an extent with what is free on either side, and keeps it.
func (b *bins) give(e *extent) {
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

// whole says that an extent is all of its chunk.
func (e *extent) whole() bool { return e.prev == nil && e.next == nil }
