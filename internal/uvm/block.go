package uvm

// block is 2 MiB of managed memory.
type block struct {
	number   uint64
	ranges   []*Range
	resident []mask // by processor: the pages it holds; several hold a page that is read-mostly
	mapped   []mask // and that it reaches without a fault
	writable []mask // and may write
	begun    bool   // somebody has touched it
	thrash   thrashing
}

// page is the number in the space of the block's i'th page.
func (b *block) page(i int) uint64 { return b.number*blockPages + uint64(i) }

// adviceOn is the advice on the block's i'th page.
func (b *block) adviceOn(i int) Advice {
	for _, r := range b.ranges {
		if r.advice != nil && r.holds(b.page(i)) {
			return r.adviceOn(b.page(i))
		}
	}
	return NoAdvice
}

// at is who holds a page: near if it does, else the CPU, else the first device.
func (b *block) at(i int, near Processor) Processor {
	if near != Nowhere && b.resident[near.slot()].has(i) {
		return near
	}
	for slot := range b.resident {
		if b.resident[slot].has(i) {
			return Processor(slot - 1)
		}
	}
	return Nowhere
}

// holders is how many hold a page.
func (b *block) holders(i int) (n int) {
	for slot := range b.resident {
		if b.resident[slot].has(i) {
			n++
		}
	}
	return n
}

// held is the pages that somebody holds.
func (b *block) held() *mask {
	var all mask
	for slot := range b.resident {
		all.or(&b.resident[slot])
	}
	return &all
}

// mappedBy is who reaches a page, in the bits of Advice.AccessedBy.
func (b *block) mappedBy(i int) (bits uint32) {
	for slot := range b.mapped {
		if b.mapped[slot].has(i) {
			bits |= 1 << (uint32(slot-1) & 31)
		}
	}
	return bits
}

// faults says whether an access of p faults.
func (b *block) faults(p Processor, i int, write bool) bool {
	slot := p.slot()
	return !b.mapped[slot].has(i) || write && !b.writable[slot].has(i)
}

// drop forgets a page.
func (b *block) drop(i int) {
	for slot := range b.resident {
		b.resident[slot].clear(i)
		b.mapped[slot].clear(i)
		b.writable[slot].clear(i)
	}
}

// canMap says whether p reaches memory of at: the CPU only its own.
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

// bring makes pages of b resident at to: moved there, or copied and then held
// read-only by all who hold them. It counts what had to be copied.
func (s *Space) bring(b *block, pages *mask, to Processor, duplicate bool, w *Work) {
	if to >= 0 {
		s.makeRoom(b, to, w)
	}
	missing := *pages
	missing.andNot(&b.resident[to.slot()])
	if !b.begun {
		b.begun = true
		w.Begun++
	}
	w.count(b, missing, to)
	b.resident[to.slot()].or(pages)
	for slot := range b.resident {
		if duplicate {
			b.writable[slot].andNot(pages)
			gone := *pages
			gone.andNot(&b.resident[slot])
			b.mapped[slot].andNot(&gone)
		} else if Processor(slot-1) != to {
			gone := *pages // who held a page loses it, who only reached it does so if it moved
			if s.canMap(Processor(slot-1), to) {
				gone.and(&b.resident[slot])
				gone.or(&missing)
			}
			b.mapped[slot].andNot(&gone)
			b.writable[slot].andNot(&gone)
			b.resident[slot].andNot(pages)
		}
	}
	if to >= 0 {
		s.use(b, to)
	}
	s.settle(b)
}

// count counts how pages get to a place.
func (w *Work) count(b *block, pages mask, to Processor) {
	for slot := range b.resident {
		from := pages
		from.and(&b.resident[slot])
		w.copied(&from, Processor(slot-1), to)
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

// mapFor gives p access to pages, which it holds or reaches.
func (b *block) mapFor(p Processor, pages *mask, write bool) {
	b.mapped[p.slot()].or(pages)
	if write {
		b.writable[p.slot()].or(pages)
	}
}

// mapAccessors maps a page at a place for those who are to have access.
func (s *Space) mapAccessors(b *block, i int, at Processor, a Advice) {
	if a.AccessedBy == 0 || b.holders(i) > 1 {
		return
	}
	for slot := range b.mapped {
		if p := Processor(slot - 1); a.accessed(p) && s.canMap(p, at) {
			b.mapped[slot].set(i)
			b.writable[slot].set(i)
		}
	}
}

// collapse leaves one holder of a page: the preferred one if it holds it.
func (s *Space) collapse(b *block, i int, preferred Processor) {
	if b.holders(i) < 2 {
		return
	}
	at := b.at(i, preferred)
	for slot := range b.resident {
		if Processor(slot-1) != at {
			b.resident[slot].clear(i)
			b.mapped[slot].clear(i)
			b.writable[slot].clear(i)
		}
	}
	if b.mapped[at.slot()].has(i) {
		b.writable[at.slot()].set(i)
	}
	s.settle(b)
}
