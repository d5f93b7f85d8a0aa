package uvm

import (
	"cmp"
	"slices"
)

// Touch is the first access of a kernel to a page.
type Touch struct {
	Page  uint64 // number of the page in the space
	Write bool
	Key   uint64 // order of the touches: a smaller key is earlier
}

// batchFaults is the most faults of a device in one batch.
const batchFaults = 256

// Locality says where a kernel accessed its pages, in bytes of whole pages.
type Locality struct {
	Local  uint64 // on the device when the kernel was done
	Remote uint64 // used at their place, over the link
}

// Device serves the faults of a kernel on dev that begins at now. It fetches
// faults in batches of 256, in the order of their keys. A batch contains only
// concurrent accesses, which are those with the same quotient of key and
// window. Device sorts touches.
func (s *Space) Device(dev Processor, touches []Touch, window uint64, now float64, price Price) (Work, Locality) {
	slices.SortFunc(touches, func(a, b Touch) int {
		if c := cmp.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return cmp.Compare(a.Page, b.Page)
	})
	s.unpin(touches, now)
	before := s.residents(dev, touches)
	var total Work
	pending := slices.Clone(touches)
	for {
		batch, rest := s.fetch(dev, pending, window)
		if len(batch) == 0 {
			break
		}
		pending = rest
		w := s.serveBatch(dev, batch, now)
		took := price(w)
		if w.Faults == 0 { // all processors of the batch are throttled: the driver retries
			w.Slept += nap
			took += nap
		}
		now += took
		total.Add(w)
	}
	if w := before.parts(dev); w.Parts > 0 {
		price(w)
		total.Add(w)
	}
	return total, s.locality(dev, touches)
}

// residents has the number of pages of blocks that a device holds.
type residents map[*block]int

// residents counts the pages that dev holds of the blocks that are touched.
func (s *Space) residents(dev Processor, touches []Touch) residents {
	count := residents{}
	for _, t := range touches {
		b := s.block(t.Page)
		if _, ok := count[b]; !ok {
			count[b] = b.resident[dev.index()].count(0, blockPages)
		}
	}
	return count
}

// parts returns the blocks that have got pages since, and of which the CPU still
// holds a part.
func (before residents) parts(dev Processor) (w Work) {
	for b, had := range before {
		left := b.resident[CPU.index()]
		left.andNot(&b.resident[dev.index()])
		if moved := b.resident[dev.index()].count(0, blockPages) - had; moved > 0 && !left.empty() {
			w.Parts++
			w.PartBytes += uint64(moved) * PageSize
		}
	}
	return w
}

// fetch returns the next batch of faults of dev and the other pending touches,
// in the memory of pending. The faults of the batch stay pending, because
// throttled ones fault again before later ones.
func (s *Space) fetch(dev Processor, pending []Touch, window uint64) (batch, rest []Touch) {
	limit := ^uint64(0)
	i := 0
	for ; i < len(pending) && len(batch) < batchFaults; i++ {
		t := pending[i]
		if t.Key >= limit {
			break
		}
		if !s.block(t.Page).faults(dev, int(t.Page%blockPages), t.Write) {
			continue
		}
		if len(batch) == 0 {
			limit = (t.Key/window + 1) * window
		}
		batch = append(batch, t)
	}
	rest = pending[i-len(batch):]
	copy(rest, batch)
	return batch, rest
}

// serveBatch serves faults block by block.
func (s *Space) serveBatch(dev Processor, batch []Touch, now float64) Work {
	w := Work{Batches: 1}
	sorted := sortedPages(batch)
	for len(sorted) > 0 {
		b := s.block(sorted[0].Page)
		n := 0
		var faults []fault
		for n < len(sorted) && sorted[n].Page/blockPages == b.number {
			faults = append(faults, fault{int(sorted[n].Page % blockPages), sorted[n].Write})
			n++
		}
		sorted = sorted[n:]
		s.serve(b, dev, faults, now, &w)
	}
	return w
}

// unpin ends the expired pins in the blocks that are touched.
func (s *Space) unpin(touches []Touch, now float64) {
	var last *block
	for _, t := range touches {
		if b := s.block(t.Page); b != last {
			s.expire(b, now)
			last = b
		}
	}
}

// locality returns where a kernel accessed its pages.
func (s *Space) locality(dev Processor, touches []Touch) (w Locality) {
	for _, t := range touches {
		if s.block(t.Page).resident[dev.index()].has(int(t.Page % blockPages)) {
			w.Local += PageSize
		} else {
			w.Remote += PageSize
		}
	}
	return w
}

// CPU serves the faults of the CPU on n bytes at off, from the lowest page up,
// beginning at now. The CPU sleeps while it is throttled.
func (r *Range) CPU(off, n uint64, write bool, now float64, price Price) (total Work) {
	s := r.space
	r.eachBlock(off, n, func(b *block, first, past int) {
		s.expire(b, now)
		for i := first; i < past; {
			if !b.faults(CPU, i, write) {
				i++
				continue
			}
			var w Work
			if s.serve(b, CPU, []fault{{i, write}}, now, &w) > 0 {
				w.Slept += max(b.thrash.info[i].napEnd-now, 1)
			}
			now += price(w) + w.Slept
			total.Add(w)
		}
	})
	return total
}

// Migrate moves n bytes at off to a processor, as a prefetch of the program
// does. It prefetches no other pages, and forgets the thrashing of these.
// Read-mostly pages also stay where they are.
func (r *Range) Migrate(off, n uint64, to Processor) (w Work) {
	s := r.space
	r.eachBlock(off, n, func(b *block, first, past int) {
		w.Blocks++
		var moved, copies mask
		for i := first; i < past; i++ {
			if b.adviceOn(i).ReadMostly {
				copies.set(i)
			} else {
				moved.set(i)
			}
		}
		if !copies.empty() {
			s.makeResident(b, &copies, to, true, &w)
			b.mapFor(to, &copies, false)
		}
		if !moved.empty() {
			s.makeResident(b, &moved, to, false, &w)
			b.mapFor(to, &moved, true)
		}
		for i := moved.next(0); i < blockPages; i = moved.next(i + 1) {
			s.mapAccessors(b, i, to, b.adviceOn(i))
		}
		b.thrash.forget(&moved)
		b.thrash.forget(&copies)
	})
	return w
}

// Populate gives untouched pages of n bytes at off to a processor, as a copy or
// a fill of them does.
func (r *Range) Populate(off, n uint64, at Processor) (w Work) {
	s := r.space
	r.eachBlock(off, n, func(b *block, first, past int) {
		var empty mask
		for i := first; i < past; i++ {
			if b.at(i, Nowhere) == Nowhere {
				empty.set(i)
			}
		}
		if !empty.empty() {
			s.makeResident(b, &empty, at, false, &w)
			b.mapFor(at, &empty, true)
		}
	})
	return w
}

// MostlyCPU reports whether the CPU holds more than half of the pages of n
// bytes at off.
func (r *Range) MostlyCPU(off, n uint64) bool {
	cpu, all := 0, 0
	r.eachBlock(off, n, func(b *block, first, past int) {
		cpu += b.resident[CPU.index()].count(first, past)
		all += past - first
	})
	return 2*cpu > all
}

// fault is an access to a page that the processor has not mapped.
type fault struct {
	page  int // index in the block
	write bool
}

// serve serves the faults of p on one block. It returns the number of faults
// that it did not serve because p is throttled.
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
		if f.write && a.ReadMostly && b.heldByOthers(f.page, p) {
			w.Collapsed++
		}
		to, duplicate := s.destination(b, f.page, p, f.write, a, h)
		if duplicate {
			copies.set(f.page)
		}
		if h.pin {
			pinned.set(f.page)
		}
		bound[to.index()].set(f.page)
	}
	to, only := singleDestination(bound)
	if only {
		ahead := s.prefetch(b, &served, to, b.adviceOn(faults[0].page))
		for i := ahead.next(0); i < blockPages; i = ahead.next(i + 1) {
			if a := b.adviceOn(i); a.ReadMostly {
				copies.set(i)
			}
		}
		bound[to.index()].or(&ahead)
	}
	for index := range bound {
		if !bound[index].empty() {
			s.placePages(b, &bound[index], &copies, &pinned, p, Processor(index-1), now, w)
		}
	}
	return throttled
}

// singleDestination returns the only destination, or false if there are more or
// none.
func singleDestination(bound []mask) (to Processor, only bool) {
	to = Nowhere
	for index := range bound {
		if bound[index].empty() {
			continue
		}
		if to != Nowhere {
			return to, false
		}
		to = Processor(index - 1)
	}
	return to, to != Nowhere
}

// placePages makes pages resident at a place, and maps them for p and for the
// processors named in accessed-by.
func (s *Space) placePages(b *block, pages, copies, pinned *mask, p, to Processor, now float64, w *Work) {
	moved, copied := *pages, *pages
	moved.andNot(copies)
	copied.and(copies)
	arrived := moved // only pages that come from another processor can thrash
	arrived.andNot(&b.resident[to.index()])
	arrived.and(b.populated())
	if !copied.empty() {
		s.makeResident(b, &copied, to, true, w)
		b.mapFor(p, &copied, false)
	}
	if !moved.empty() {
		s.makeResident(b, &moved, to, false, w)
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
	b.thrash.recordMigration(&arrived, to, now)
}

// destination returns the place to which a page goes when p faults on it, and
// whether it is copied there. The rules are tried in the driver's order.
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

// threshold is the percentage of a subtree that must be resident or faulted for
// the whole subtree to migrate.
const threshold = 51

// prefetch returns the pages that migrate to a processor beside those on which
// it faulted. The leaves of the tree are its resident pages and the big pages
// of its faults. Each fault migrates the largest subtree around it that is
// dense enough.
func (s *Space) prefetch(b *block, faulted *mask, to Processor, a Advice) (ahead mask) {
	if a.Preferred == to && b.populated().empty() { // the first touch, at the preferred location
		ahead.fill(0, blockPages)
		ahead.andNot(faulted)
		return b.within(ahead)
	}
	thrashing := b.thrash.pages
	tree := b.resident[to.index()]
	tree.or(faulted)
	for first := 0; first < blockPages; first += bigPages {
		if faulted.count(first, first+bigPages) > 0 && thrashing.count(first, first+bigPages) == 0 {
			tree.fill(first, first+bigPages)
		}
	}
	for i := faulted.next(0); i < blockPages; i = faulted.next(i + 1) {
		if thrashing.has(i) {
			continue
		}
		first, past := dense(&tree, i)
		ahead.fill(first, past)
		if past == blockPages {
			break
		}
	}
	ahead.andNot(faulted)
	ahead.andNot(&b.resident[to.index()])
	ahead.andNot(&thrashing)
	return b.within(ahead)
}

// dense returns the largest subtree around a page that is dense enough.
func dense(tree *mask, page int) (first, past int) {
	first, past = page, page+1
	for n := 1; n <= blockPages; n *= 2 {
		at := page &^ (n - 1)
		if tree.count(at, at+n)*100 > n*threshold {
			first, past = at, at+n
		}
	}
	return first, past
}
