package simt

import (
	"math/bits"
	"sync/atomic"
)

// NewPages is room for the marks of size bytes, in order if that is asked for.
func NewPages(size uint64, shift uint, order bool) *Pages {
	n := (size + 1<<shift - 1) >> shift
	p := &Pages{Shift: shift, Read: make([]uint64, n/64+1), Written: make([]uint64, n/64+1)}
	if order {
		p.Order = make([]uint64, n)
	}
	return p
}

// Each calls f for the pages that were touched, from the lowest up. first is from
// Order, 0 without. The launch must be over.
func (p *Pages) Each(f func(page uint64, written bool, first uint64)) {
	for word := range p.Read {
		for m := p.Read[word] | p.Written[word]; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			page := uint64(word*64 + i)
			first := uint64(0)
			if page < uint64(len(p.Order)) {
				first = p.Order[page]
			}
			f(page, p.Written[word]>>i&1 != 0, first)
		}
	}
}

// note keeps the earliest time for pages first to last.
func (p *Pages) note(first, last, at uint64) {
	for page := first; page <= last && page < uint64(len(p.Order)); page++ {
		for x := &p.Order[page]; ; {
			old := atomic.LoadUint64(x)
			if old != 0 && old <= at || atomic.CompareAndSwapUint64(x, old, at) {
				break
			}
		}
	}
}
