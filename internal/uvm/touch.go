package uvm

import (
	"cmp"
	"slices"
)

// Touch is the first access of a kernel to a page.
type Touch struct {
	Page  uint64 // of the space
	Write bool
	Key   uint64 // when: smaller is earlier
}

// batchFaults is how many faults of a device are fetched at once.
const batchFaults = 256

// Where is what a kernel's pages came to, in bytes of whole pages.
type Where struct {
	Local  uint64 // on the device when the kernel was done
	Remote uint64 // used where they are, over the link
}

// Device serves what a kernel on dev touches, beginning at now: those of its
// pages that fault are fetched in batches of 256 in the order of their keys,
// as far as accesses are under way at once, which is those whose keys divided by
// window are the same. It sorts touches.
func (s *Space) Device(dev Processor, touches []Touch, window uint64, now float64, price Price) (Work, Where) {
	slices.SortFunc(touches, func(a, b Touch) int {
		if c := cmp.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return cmp.Compare(a.Page, b.Page)
	})
	s.unpin(touches, now)
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
		if w.Faults == 0 { // all of it naps: the driver looks again and again
			w.Slept += nap
			took += nap
		}
		now += took
		total.Add(w)
	}
	return total, s.where(dev, touches)
}

// fetch is the next batch of faults of dev and what is left, in the memory of
// pending. What turns out to be throttled comes again, before what is later.
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

// unpin ends the pins that are over, in the blocks that are touched.
func (s *Space) unpin(touches []Touch, now float64) {
	var last *block
	for _, t := range touches {
		if b := s.block(t.Page); b != last {
			s.expire(b, now)
			last = b
		}
	}
}

// where says how a kernel got at its pages.
func (s *Space) where(dev Processor, touches []Touch) (w Where) {
	for _, t := range touches {
		if s.block(t.Page).resident[dev.slot()].has(int(t.Page % blockPages)) {
			w.Local += PageSize
		} else {
			w.Remote += PageSize
		}
	}
	return w
}

// CPU serves what the CPU touches, n bytes at off from the lowest page up,
// beginning at now. Where it is throttled it sleeps.
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

// Migrate moves n bytes at off to a processor because the program says so: no
// prefetching beside them, and what thrashed there is forgotten. Pages of which
// it wants copies stay where they are, too.
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
			s.bring(b, &copies, to, true, &w)
			b.mapFor(to, &copies, false)
		}
		if !moved.empty() {
			s.bring(b, &moved, to, false, &w)
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

// Populate puts those of n bytes at off that nobody has touched at a processor,
// as a copy or a fill of them does.
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
			s.bring(b, &empty, at, false, &w)
			b.mapFor(at, &empty, true)
		}
	})
	return w
}

// MostlyCPU says whether more than half of the pages of n bytes at off are with
// the CPU.
func (r *Range) MostlyCPU(off, n uint64) bool {
	cpu, all := 0, 0
	r.eachBlock(off, n, func(b *block, first, past int) {
		cpu += b.resident[CPU.slot()].count(first, past)
		all += past - first
	})
	return 2*cpu > all
}
