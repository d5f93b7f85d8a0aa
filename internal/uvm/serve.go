package uvm

// fault is a page that a processor touched without being able to.
type fault struct {
	page  int // of the block
	write bool
}

// serve serves the faults of p on one block, and is how many it could not serve
// because p is throttled there.
func (s *Space) serve(b *block, p Processor, faults []fault, now float64, w *Work) (throttled int) {
	w.Blocks++
	bound := make([]mask, s.devices+1) // by destination
	var copies, writes, pinned, served mask
	for _, f := range faults {
		a := b.adviceOn(f.page)
		h := s.hint(b, f.page, p, a, now)
		if h.throttle {
			throttled++
			continue
		}
		w.Faults++
		served.set(f.page)
		if f.write {
			writes.set(f.page)
		}
		to, duplicate := s.destination(b, f.page, p, f.write, a, h)
		if duplicate {
			copies.set(f.page)
		}
		if h.pin {
			pinned.set(f.page)
		}
		bound[to.slot()].set(f.page)
	}
	to, only := onlyOne(bound)
	if only {
		ahead := s.prefetch(b, &served, to, b.adviceOn(faults[0].page))
		for i := ahead.next(0); i < blockPages; i = ahead.next(i + 1) {
			if a := b.adviceOn(i); a.ReadMostly {
				copies.set(i)
			}
		}
		bound[to.slot()].or(&ahead)
	}
	for slot := range bound {
		if !bound[slot].empty() {
			s.settleAt(b, &bound[slot], &copies, &pinned, p, Processor(slot-1), now, w)
		}
	}
	return throttled
}

// onlyOne is the one destination, false if there are more or none.
func onlyOne(bound []mask) (to Processor, only bool) {
	to = Nowhere
	for slot := range bound {
		if bound[slot].empty() {
			continue
		}
		if to != Nowhere {
			return to, false
		}
		to = Processor(slot - 1)
	}
	return to, to != Nowhere
}

// settleAt brings pages to a place and maps them for p and for who else is to
// have access.
func (s *Space) settleAt(b *block, pages, copies, pinned *mask, p, to Processor, now float64, w *Work) {
	moved, copied := *pages, *pages
	moved.andNot(copies)
	copied.and(copies)
	came := moved // from somebody else, for which alone pages can thrash
	came.andNot(&b.resident[to.slot()])
	came.and(b.held())
	if !copied.empty() {
		s.bring(b, &copied, to, true, w)
		b.mapFor(p, &copied, false)
	}
	if !moved.empty() {
		s.bring(b, &moved, to, false, w)
		if p != to {
			w.Remote += moved.count(0, blockPages)
		}
		b.mapFor(p, &moved, true)
	}
	for i := moved.next(0); i < blockPages; i = moved.next(i + 1) {
		s.mapAccessors(b, i, to, b.adviceOn(i))
		if pinned.has(i) {
			s.mapThrashing(b, i, to)
		}
	}
	b.thrash.migrated(&came, to, now)
}

// destination is where a page goes when p faults on it, and whether it is copied
// there. The rules are tried in the driver's order.
func (s *Space) destination(b *block, i int, p Processor, write bool, a Advice, h hint) (to Processor, duplicate bool) {
	at := b.at(i, p)
	switch {
	case a.ReadMostly:
		return p, !write
	case p == a.Preferred:
		return p, false
	case h.pin:
		return h.at, false
	case at == Nowhere && s.canMap(p, a.Preferred):
		return a.Preferred, false
	case at == Nowhere:
		return p, false
	case a.accessed(p) && s.canMap(p, at):
		return at, false
	case s.canMap(p, a.Preferred) && at != p:
		return a.Preferred, false
	}
	return p, false
}
