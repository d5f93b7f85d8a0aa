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

// find returns a conflict between two of the copies, that of the lowest addresses.
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
	var reads, writes []access // that may reach the next access
	for _, a := range all {
		before := func(b access) bool { return b.Space != a.Space || b.end() <= a.From }
		reads, writes = slices.DeleteFunc(reads, before), slices.DeleteFunc(writes, before)
		if b, is := of(writes, a); is {
			return ordered(a, b), true
		}
		if !a.writes {
			reads = append(reads, a)
			continue
		}
		if b, is := of(reads, a); is {
			return ordered(a, b), true
		}
		writes = append(writes, a)
	}
	return conflict{}, false
}

// of returns an access of another copy than a's.
func of(all []access, a access) (access, bool) {
	i := slices.IndexFunc(all, func(b access) bool { return b.index != a.index })
	if i < 0 {
		return access{}, false
	}
	return all[i], true
}

func ordered(a, b access) conflict {
	if b.index < a.index {
		a, b = b, a
	}
	return conflict{a, b}
}
