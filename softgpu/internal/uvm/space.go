package uvm

import (
	"cmp"
	"slices"
)

// Processor is a processor that touches and holds pages: a device, by its
// ordinal, or [CPU].
type Processor int8

// Processors that are not devices.
const (
	CPU     Processor = -1
	Nowhere Processor = -2 // the place of untouched pages, and the absence of a preference
)

// index returns the processor's index into a block's masks.
func (p Processor) index() int { return int(p) + 1 }

// Space is the managed memory of a process and its processors.
type Space struct {
	// Peers says that devices reach each other's memory.
	Peers bool
	// Capacity returns the bytes of a device that managed memory may use. It is
	// called whenever a block moves to a device. Nil is no limit.
	Capacity func(dev Processor) uint64

	devices int
	blocks  map[uint64]*block
	used    [][]*block // by device: the blocks with pages there, the longest unused first
	next    uint64     // address of the next allocation

	small, smallUsed uint64 // the block of small allocations, 0 for none, and its used bytes
}

// NewSpace makes the managed memory of a number of devices, without
// allocations.
func NewSpace(devices int) *Space {
	return &Space{
		devices: devices,
		blocks:  map[uint64]*block{},
		used:    make([][]*block, devices),
		next:    BlockSize,
	}
}

// Advice is the advice on a page.
type Advice struct {
	ReadMostly bool
	Preferred  Processor
	AccessedBy uint32 // a bit for each device; the CPU's is the last
}

// NoAdvice is the initial advice of a page.
var NoAdvice = Advice{Preferred: Nowhere}

// accessed reports whether p has a mapping wherever the page is.
func (a *Advice) accessed(p Processor) bool { return a.AccessedBy>>(uint32(p)&31)&1 != 0 }

// Range is one allocation. Its offsets are bytes from its start.
type Range struct {
	space  *Space
	base   uint64 // in the space's own addresses
	size   uint64
	advice []Advice // by page, nil before the first advice
}

// smallAlign is the alignment of allocations that share a block.
const smallAlign = 512

// Alloc makes a range. Ranges of 2 MiB and more begin a block. Smaller ones
// share blocks, and then neighbours can share a page.
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
				b.dropPage(i)
			}
		}
		s.unlist(b)
		if len(b.ranges) == 0 {
			delete(s.blocks, b.number)
			if b.number<<BlockShift == s.small { // the block is empty
				s.smallUsed = 0
			}
		}
	})
}

// holds reports whether r has bytes in a page.
func (r *Range) holds(page uint64) bool {
	return page >= r.base>>PageShift && page <= (r.base+r.size-1)>>PageShift
}

// Page returns the number, in the space, of the page that contains off.
func (r *Range) Page(off uint64) uint64 { return (r.base + off) >> PageShift }

// eachBlock calls f for the blocks of n bytes at off, with the pages of each.
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

// block returns the block of a page.
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

// adviceOn returns the advice on a page of the space.
func (r *Range) adviceOn(page uint64) Advice {
	if r.advice == nil || !r.holds(page) {
		return NoAdvice
	}
	return r.advice[page-r.Page(0)]
}

// advised does what new advice requires at once: it maps pages for processors
// named in accessed-by, and drops copies that are not read-mostly any more.
func (s *Space) advised(page uint64, was, is Advice) {
	b, i := s.block(page), int(page%blockPages)
	if was.ReadMostly && !is.ReadMostly {
		s.collapse(b, i, is.Preferred)
	}
	if at := b.at(i, is.Preferred); at != Nowhere && is.AccessedBy&^was.AccessedBy != 0 && !is.ReadMostly {
		s.mapAccessors(b, i, at, is)
	}
}

// Run is a run of neighbouring pages in the same state.
type Run struct {
	Off, Bytes uint64    // from the range's start; whole pages but for its ends
	At         Processor // the device if a device has them, else the CPU or Nowhere
	OnCPU      bool      // the CPU has them, possibly with a device
	Mapped     uint32    // processors that access them without a fault: a bit for each device, the CPU's is the last
}

// Residency lists the places of the pages of n bytes at off.
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

// sortedPages sorts touches by address and removes duplicates.
func sortedPages(t []Touch) []Touch {
	slices.SortFunc(t, func(a, b Touch) int { return cmp.Compare(a.Page, b.Page) })
	return slices.CompactFunc(t, func(a, b Touch) bool { return a.Page == b.Page })
}

// Common returns the part of the advice that read selects, for the pages of n bytes at
// off. It returns false if the part is not the same for all of them.
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

// canMap reports whether p can access memory of at. The CPU can access only its
// own.
func (s *Space) canMap(p, at Processor) bool {
	switch {
	case at == Nowhere:
		return false
	case p == at:
		return true
	case p == CPU:
		return false
	}
	return at == CPU || s.Peers
}

// makeResident makes pages of b resident at to. They move there, or are copied
// there and then are read-only for all their holders. It counts the bytes that
// had to be copied.
func (s *Space) makeResident(b *block, pages *mask, to Processor, duplicate bool, w *Work) {
	if to >= 0 {
		s.evictFor(b, to, w)
	}
	missing := *pages
	missing.andNot(&b.resident[to.index()])
	if !b.touched {
		b.touched = true
		w.NewBlocks++
	}
	w.count(b, missing, to)
	b.resident[to.index()].or(pages)
	for index := range b.resident {
		if duplicate {
			b.writable[index].andNot(pages)
			lost := *pages
			lost.andNot(&b.resident[index])
			b.mapped[index].andNot(&lost)
		} else if Processor(index-1) != to {
			lost := *pages // holders lose the page; processors that only mapped it lose it if it moved
			if s.canMap(Processor(index-1), to) {
				lost.and(&b.resident[index])
				lost.or(&missing)
			}
			b.mapped[index].andNot(&lost)
			b.writable[index].andNot(&lost)
			b.resident[index].andNot(pages)
		}
	}
	if to >= 0 {
		s.markUsed(b, to)
	}
	s.unlist(b)
}

// mapAccessors maps a page for the processors named in accessed-by.
func (s *Space) mapAccessors(b *block, i int, at Processor, a Advice) {
	if a.AccessedBy == 0 || b.holders(i) > 1 {
		return
	}
	for index := range b.mapped {
		if p := Processor(index - 1); a.accessed(p) && s.canMap(p, at) {
			b.mapped[index].set(i)
			b.writable[index].set(i)
		}
	}
}

// collapse leaves one holder of a page: the preferred one if it holds the page.
func (s *Space) collapse(b *block, i int, preferred Processor) {
	if b.holders(i) < 2 {
		return
	}
	at := b.at(i, preferred)
	for index := range b.resident {
		if Processor(index-1) != at {
			b.resident[index].clear(i)
			b.mapped[index].clear(i)
			b.writable[index].clear(i)
		}
	}
	if b.mapped[at.index()].has(i) {
		b.writable[at.index()].set(i)
	}
	s.unlist(b)
}

// markUsed makes b the last block that dev would evict.
func (s *Space) markUsed(b *block, dev Processor) {
	list := s.used[dev]
	if n := len(list); n > 0 && list[n-1] == b {
		return
	}
	if i := slices.Index(list, b); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	s.used[dev] = append(list, b)
}

// unlist removes b from the lists of devices that hold none of its pages.
func (s *Space) unlist(b *block) {
	for d := range s.devices {
		s.unlistOn(b, Processor(d))
	}
}

func (s *Space) unlistOn(b *block, dev Processor) {
	if !b.resident[dev.index()].empty() {
		return
	}
	if i := slices.Index(s.used[dev], b); i >= 0 {
		s.used[dev] = slices.Delete(s.used[dev], i, i+1)
	}
}

// evictFor evicts blocks from dev until b fits. The blocks that got pages
// longest ago go to the CPU first, and lose all mappings. A single block always
// fits, because no kernel would make progress otherwise.
func (s *Space) evictFor(b *block, dev Processor, w *Work) {
	if s.Capacity == nil || !b.resident[dev.index()].empty() {
		return
	}
	room := int(s.Capacity(dev) >> BlockShift)
	for len(s.used[dev]) > 0 && len(s.used[dev])+1 > room {
		old := s.used[dev][0]
		pages := old.resident[dev.index()]
		s.makeResident(old, &pages, CPU, false, w)
		for index := range old.mapped {
			old.mapped[index].andNot(&pages)
			old.writable[index].andNot(&pages)
		}
		w.Evicted++
	}
}

// Work is what the driver did for a call.
type Work struct {
	Batches   int // of faults of a device, each with a flush and a replay
	Blocks    int // services of a block, at most one for each batch
	Faults    int // of pages, each counted once for each batch
	NewBlocks int // blocks that were touched for the first time

	In, Out, Peer          uint64 // bytes copied from the CPU, to it, and between devices
	InRuns, OutRuns, Peers int    // runs of neighbouring pages in these copies
	Zeroed                 uint64 // bytes of pages that were touched for the first time

	Parts     int    // blocks of which a kernel moved only a part to its device
	PartBytes uint64 // bytes of these parts

	// Pages advised as read-mostly that a processor wrote while others held copies.
	Collapsed int

	Remote  int     // pages that faulted and were mapped at their place, over the link
	Evicted int     // blocks; their bytes are in Out
	Slept   float64 // ns that a throttled processor waited
}

// Add adds o to w.
func (w *Work) Add(o Work) {
	w.Batches += o.Batches
	w.Blocks += o.Blocks
	w.Faults += o.Faults
	w.NewBlocks += o.NewBlocks
	w.In += o.In
	w.Out += o.Out
	w.Peer += o.Peer
	w.InRuns += o.InRuns
	w.OutRuns += o.OutRuns
	w.Peers += o.Peers
	w.Zeroed += o.Zeroed
	w.Parts += o.Parts
	w.PartBytes += o.PartBytes
	w.Collapsed += o.Collapsed
	w.Remote += o.Remote
	w.Evicted += o.Evicted
	w.Slept += o.Slept
}

// count counts the copies and zeroed pages that bring pages to a place.
func (w *Work) count(b *block, pages mask, to Processor) {
	for index := range b.resident {
		from := pages
		from.and(&b.resident[index])
		w.copied(&from, Processor(index-1), to)
		pages.andNot(&from)
	}
	w.Zeroed += uint64(pages.count(0, blockPages)) << PageShift
}

// copied counts a copy of pages.
func (w *Work) copied(pages *mask, from, to Processor) {
	n := uint64(pages.count(0, blockPages)) << PageShift
	switch {
	case n == 0:
	case from == CPU:
		w.In += n
		w.InRuns += pages.runs()
	case to == CPU:
		w.Out += n
		w.OutRuns += pages.runs()
	default:
		w.Peer += n
		w.Peers += pages.runs()
	}
}

// Price returns the time of a piece of work in nanoseconds.
type Price func(Work) float64
