package uvm

import (
	"cmp"
	"slices"
)

// Processor is who can touch and hold pages: a device by its ordinal, or [CPU].
type Processor int8

// Processors that are no device.
const (
	CPU     Processor = -1
	Nowhere Processor = -2 // of a page that nobody has touched, and of no preference
)

// slot is a processor's index into a block's masks.
func (p Processor) slot() int { return int(p) + 1 }

// Space is managed memory and those who use it.
type Space struct {
	// Peers says that devices reach each other's memory.
	Peers bool
	// Room is how many bytes of a device managed memory may have; nil is no limit.
	// It is asked whenever a block needs room.
	Room func(dev Processor) uint64

	devices int
	blocks  map[uint64]*block
	used    [][]*block // by device: those with pages there, the longest unused first
	next    uint64     // the address of the next allocation

	small, smallUsed uint64 // the block of small allocations, 0 for none, and its bytes that are had
}

// NewSpace is managed memory of so many devices, without an allocation.
func NewSpace(devices int) *Space {
	return &Space{
		devices: devices,
		blocks:  map[uint64]*block{},
		used:    make([][]*block, devices),
		next:    BlockSize,
	}
}

// Advice on a page.
type Advice struct {
	ReadMostly bool
	Preferred  Processor
	AccessedBy uint32 // a bit a device; the CPU's is the last
}

// NoAdvice is what pages begin with.
var NoAdvice = Advice{Preferred: Nowhere}

// accessed says whether p is to have a mapping wherever the page is.
func (a *Advice) accessed(p Processor) bool { return a.AccessedBy>>(uint32(p)&31)&1 != 0 }

// Range is one allocation. Its offsets are bytes from its start.
type Range struct {
	space  *Space
	base   uint64 // in the space's own addresses
	size   uint64
	advice []Advice // by page, nil while there is none
}

// smallAlign is how allocations below a block's size lie: in a block with others.
const smallAlign = 512

// Alloc makes a range. Ranges of 2 MiB and more begin a block; smaller ones share
// blocks with each other, and then neighbours can share a page.
func (s *Space) Alloc(bytes uint64) *Range {
	r := &Range{space: s, size: bytes}
	if bytes >= BlockSize {
		r.base = s.next
		s.next += (bytes + BlockSize - 1) &^ (BlockSize - 1)
	} else {
		if s.small == 0 || s.smallUsed+bytes > BlockSize {
			s.small, s.smallUsed = s.next, 0
			s.next += BlockSize
		}
		r.base = s.small + s.smallUsed
		s.smallUsed += (bytes + smallAlign - 1) &^ (smallAlign - 1)
	}
	r.eachBlock(0, bytes, func(b *block, _, _ int) { b.ranges = append(b.ranges, r) })
	return r
}

// Free ends a range. Pages that it shares with others stay.
func (r *Range) Free() {
	s := r.space
	r.eachBlock(0, r.size, func(b *block, first, past int) {
		b.ranges = slices.DeleteFunc(b.ranges, func(o *Range) bool { return o == r })
		for i := first; i < past; i++ {
			if !slices.ContainsFunc(b.ranges, func(o *Range) bool { return o.holds(b.page(i)) }) {
				b.drop(i)
			}
		}
		s.settle(b)
		if len(b.ranges) == 0 {
			delete(s.blocks, b.number)
			if b.number<<BlockShift == s.small { // it begins anew
				s.smallUsed = 0
			}
		}
	})
}

// holds says whether r has bytes in a page.
func (r *Range) holds(page uint64) bool {
	return page >= r.base>>PageShift && page <= (r.base+r.size-1)>>PageShift
}

// Page is the number, in the space, of the page that off is in.
func (r *Range) Page(off uint64) uint64 { return (r.base + off) >> PageShift }

// eachBlock calls f for the blocks of n bytes at off with the pages of each.
func (r *Range) eachBlock(off, n uint64, f func(b *block, first, past int)) {
	if n == 0 {
		return
	}
	first, last := r.Page(off), r.Page(off+n-1)
	for page := first; page <= last; {
		b := r.space.block(page)
		begin := int(page % blockPages)
		past := int(min(blockPages, last-page+1+uint64(begin)))
		f(b, begin, past)
		page += uint64(past - begin)
	}
}

// block is the block of a page.
func (s *Space) block(page uint64) *block {
	n := page / blockPages
	b := s.blocks[n]
	if b == nil {
		b = &block{number: n, resident: make([]mask, s.devices+1), mapped: make([]mask, s.devices+1), writable: make([]mask, s.devices+1)}
		s.blocks[n] = b
	}
	return b
}

// Advise changes the advice on the pages of n bytes at off.
func (r *Range) Advise(off, n uint64, change func(*Advice)) {
	if n == 0 {
		return
	}
	base := r.Page(0)
	if r.advice == nil {
		r.advice = make([]Advice, r.Page(r.size-1)-base+1)
		for i := range r.advice {
			r.advice[i] = NoAdvice
		}
	}
	for page := r.Page(off); page <= r.Page(off+n-1); page++ {
		a := &r.advice[page-base]
		was := *a
		change(a)
		r.space.advised(page, was, *a)
	}
}

// adviceOn is the advice on a page of the space.
func (r *Range) adviceOn(page uint64) Advice {
	if r.advice == nil || !r.holds(page) {
		return NoAdvice
	}
	return r.advice[page-r.Page(0)]
}

// advised does what new advice does at once: pages get mapped for a processor that
// is to have access, and copies are given up.
func (s *Space) advised(page uint64, was, is Advice) {
	b, i := s.block(page), int(page%blockPages)
	if was.ReadMostly && !is.ReadMostly {
		s.collapse(b, i, is.Preferred)
	}
	if at := b.at(i, is.Preferred); at != Nowhere && is.AccessedBy&^was.AccessedBy != 0 && !is.ReadMostly {
		s.mapAccessors(b, i, at, is)
	}
}

// Run is neighbouring pages of a range with the same places.
type Run struct {
	Off, Bytes uint64    // from the range's start; whole pages but for its ends
	At         Processor // the device if one has them, else the CPU or Nowhere
	OnCPU      bool      // the CPU has them, too or alone
	Mapped     uint32    // who reaches them without a fault: a bit a device, the CPU's is the last
}

// Residency lists where the pages of n bytes at off are.
func (r *Range) Residency(off, n uint64) []Run {
	var out []Run
	r.eachBlock(off, n, func(b *block, first, past int) {
		for i := first; i < past; i++ {
			from := max(b.page(i)<<PageShift, r.base+off) - r.base
			to := min((b.page(i)+1)<<PageShift, r.base+off+n) - r.base
			run := Run{Off: from, Bytes: to - from, At: b.at(i, Nowhere), OnCPU: b.resident[0].has(i), Mapped: b.mappedBy(i)}
			for d := range r.space.devices {
				if b.resident[d+1].has(i) {
					run.At = Processor(d)
				}
			}
			if last := len(out) - 1; last >= 0 && out[last].same(run) {
				out[last].Bytes += run.Bytes
				continue
			}
			out = append(out, run)
		}
	})
	return out
}

func (r Run) same(o Run) bool { return r.At == o.At && r.OnCPU == o.OnCPU && r.Mapped == o.Mapped }

// sortedPages sorts by address and drops what is there twice.
func sortedPages(t []Touch) []Touch {
	slices.SortFunc(t, func(a, b Touch) int { return cmp.Compare(a.Page, b.Page) })
	return slices.CompactFunc(t, func(a, b Touch) bool { return a.Page == b.Page })
}

// Common is what the advice on the pages of n bytes at off has in common; ok is
// false if it differs.
func (r *Range) Common(off, n uint64, read func(Advice) int32) (v int32, ok bool) {
	v = read(r.adviceOn(r.Page(off)))
	if r.advice == nil {
		return v, true
	}
	for page := r.Page(off); page <= r.Page(off+n-1); page++ {
		if read(r.adviceOn(page)) != v {
			return 0, false
		}
	}
	return v, true
}
