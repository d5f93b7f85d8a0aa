package uvm

import (
	"math/bits"
)

// block is 2 MiB of managed memory.
type block struct {
	number   uint64
	ranges   []*Range
	resident []mask // by processor: the pages it holds; a read-mostly page can have several holders
	mapped   []mask // by processor: the pages it accesses without a fault
	writable []mask // by processor: the pages it may write
	touched  bool   // some page was touched
	thrash   thrashing
}

// page returns the number, in the space, of the block's i'th page.
func (b *block) page(i int) uint64 { return b.number*blockPages + uint64(i) }

// adviceOn returns the advice on the block's i'th page.
func (b *block) adviceOn(i int) Advice {
	for _, r := range b.ranges {
		if r.advice != nil && r.holds(b.page(i)) {
			return r.adviceOn(b.page(i))
		}
	}
	return NoAdvice
}

// at returns the holder of a page: near if it holds the page, else the CPU,
// else the first device.
func (b *block) at(i int, near Processor) Processor {
	if near != Nowhere && b.resident[near.index()].has(i) {
		return near
	}
	for index := range b.resident {
		if b.resident[index].has(i) {
			return Processor(index - 1)
		}
	}
	return Nowhere
}

// holders returns the number of holders of a page.
func (b *block) holders(i int) (n int) {
	for index := range b.resident {
		if b.resident[index].has(i) {
			n++
		}
	}
	return n
}

// heldByOthers reports whether a processor other than p holds a page.
func (b *block) heldByOthers(i int, p Processor) bool {
	own := 0
	if b.resident[p.index()].has(i) {
		own = 1
	}
	return b.holders(i) > own
}

// populated returns the pages that have a holder.
func (b *block) populated() *mask {
	var all mask
	for index := range b.resident {
		all.or(&b.resident[index])
	}
	return &all
}

// mappedBy returns the processors that have a page mapped, as bits like
// Advice.AccessedBy.
func (b *block) mappedBy(i int) (bits uint32) {
	for index := range b.mapped {
		if b.mapped[index].has(i) {
			bits |= 1 << (uint32(index-1) & 31)
		}
	}
	return bits
}

// faults reports whether an access of p faults.
func (b *block) faults(p Processor, i int, write bool) bool {
	index := p.index()
	return !b.mapped[index].has(i) || write && !b.writable[index].has(i)
}

// dropPage removes a page from all processors.
func (b *block) dropPage(i int) {
	for index := range b.resident {
		b.resident[index].clear(i)
		b.mapped[index].clear(i)
		b.writable[index].clear(i)
	}
}

// mapFor maps pages for p.
func (b *block) mapFor(p Processor, pages *mask, write bool) {
	b.mapped[p.index()].or(pages)
	if write {
		b.writable[p.index()].or(pages)
	}
}

// within returns the pages of m that belong to an allocation.
func (b *block) within(m mask) (out mask) {
	for _, r := range b.ranges {
		first, past := b.span(r)
		var all mask
		all.fill(first, past)
		out.or(&all)
	}
	out.and(&m)
	return out
}

// span returns the pages of b in which r has bytes.
func (b *block) span(r *Range) (first, past int) {
	start := b.page(0)
	first = int(max(r.Page(0), start) - start)
	past = int(min(r.Page(r.size-1)+1, start+blockPages) - start)
	return first, past
}

// Sizes of the policy.
const (
	PageShift  = 12 // the CPU's page
	BigShift   = 16 // the size to which a fault is extended
	BlockShift = 21 // the unit of service

	PageSize  = 1 << PageShift
	BlockSize = 1 << BlockShift

	blockPages = 1 << (BlockShift - PageShift)
	bigPages   = 1 << (BigShift - PageShift)
)

// mask is a set of a block's pages.
type mask [blockPages / 64]uint64

func (m *mask) has(i int) bool { return m[i>>6]>>(i&63)&1 != 0 }

func (m *mask) set(i int) { m[i>>6] |= 1 << (i & 63) }

func (m *mask) clear(i int) { m[i>>6] &^= 1 << (i & 63) }

// fill sets pages first to past-1.
func (m *mask) fill(first, past int) {
	for i := first; i < past; {
		n := min(64-i&63, past-i)
		m[i>>6] |= (1<<n - 1) << (i & 63)
		i += n
	}
}

// count returns the number of pages from first to past-1.
func (m *mask) count(first, past int) (n int) {
	for i := first; i < past; {
		w := min(64-i&63, past-i)
		n += bits.OnesCount64(m[i>>6] >> (i & 63) & (1<<w - 1))
		i += w
	}
	return n
}

func (m *mask) empty() bool { return *m == mask{} }

func (m *mask) or(o *mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

func (m *mask) and(o *mask) {
	for i := range m {
		m[i] &= o[i]
	}
}

func (m *mask) andNot(o *mask) {
	for i := range m {
		m[i] &^= o[i]
	}
}

// next returns the first page of m from i on, blockPages if there is none.
func (m *mask) next(i int) int {
	for ; i < blockPages; i = i&^63 + 64 {
		if w := m[i>>6] >> (i & 63); w != 0 {
			return i + bits.TrailingZeros64(w)
		}
	}
	return blockPages
}

// runs returns the number of runs of neighbouring pages.
func (m *mask) runs() (n int) {
	last := uint64(0)
	for _, w := range m {
		n += bits.OnesCount64(w &^ (w<<1 | last))
		last = w >> 63
	}
	return n
}
