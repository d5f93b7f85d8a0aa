package unordered

import (
	"cmp"
	"slices"
)

// conflict is two copies that share bytes, of which one at least is written.
type conflict struct{ first, second access }

// access is a range that a copy reads or writes.
type access struct {
	Range
	index  int // of the copy
	writes bool
}

func (a *access) end() uintptr { return a.From + a.Bytes }

// find returns a conflict between two of the copies, the one whose later access begins lowest. Its
// time is n log n.
func find(copies []Copy) (c conflict, found bool) {
	all := make([]access, 0, 2*len(copies))
	for i, x := range copies {
		if x.Dst.Bytes > 0 && x.Src.Bytes > 0 {
			all = append(all, access{x.Dst, i, true}, access{x.Src, i, false})
		}
	}
	slices.SortFunc(all, func(a, b access) int {
		return cmp.Or(cmp.Compare(a.Space, b.Space), cmp.Compare(a.From, b.From), cmp.Compare(a.index, b.index))
	})
	var reads, writes reach
	space := 0
	for _, a := range all {
		if a.Space != space {
			reads, writes, space = reach{}, reach{}, a.Space
		}
		b := writes.beside(a)
		if b.end() <= a.From && a.writes {
			b = reads.beside(a)
		}
		if b.end() > a.From {
			return ordered(a, b), true
		}
		if a.writes {
			writes.add(a)
		} else {
			reads.add(a)
		}
	}
	return conflict{}, false
}

// reach has, of accesses of one space, the one with the highest end, and the one with the highest
// end among those of other copies. This answers in constant time whether another copy's access
// reaches an address. The zero value has none: its accesses end at 0.
type reach struct{ first, second access }

func (r *reach) add(a access) {
	switch {
	case a.index == r.first.index:
		if a.end() > r.first.end() {
			r.first = a
		}
	case a.end() > r.first.end():
		r.first, r.second = a, r.first
	case a.end() > r.second.end():
		r.second = a
	}
}

// beside returns the access with the highest end of another copy than a's.
func (r *reach) beside(a access) access {
	if r.first.index == a.index {
		return r.second
	}
	return r.first
}

func ordered(a, b access) conflict {
	if b.index < a.index {
		a, b = b, a
	}
	return conflict{a, b}
}
