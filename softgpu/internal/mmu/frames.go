package mmu

import (
	"cmp"
	"slices"
)

// Frames allocates physical memory, lowest address first. The zero value starts
// at 0.
type Frames struct {
	Next uint64      // start of the memory that was never allocated
	free []freeRange // freed memory, by address; no two ranges are adjacent
}

type freeRange struct{ base, end uint64 }

// Take allocates n bytes at the lowest free address that is a multiple of
// align, a power of two.
func (f *Frames) Take(n, align uint64) uint64 {
	for i, s := range f.free {
		if base := alignUp(s.base, align); base+n <= s.end {
			f.free = slices.Delete(f.free, i, i+1)
			f.Give(s.base, base-s.base)
			f.Give(base+n, s.end-base-n)
			return base
		}
	}
	base := alignUp(f.Next, align)
	f.Give(f.Next, base-f.Next)
	f.Next = base + n
	return base
}

// Give frees n bytes at base.
func (f *Frames) Give(base, n uint64) {
	if n == 0 {
		return
	}
	s := freeRange{base, base + n}
	i, _ := slices.BinarySearchFunc(f.free, s, func(a, b freeRange) int { return cmp.Compare(a.base, b.base) })
	if i < len(f.free) && f.free[i].base == s.end {
		s.end = f.free[i].end
		f.free = slices.Delete(f.free, i, i+1)
	}
	if i > 0 && f.free[i-1].end == s.base {
		s.base = f.free[i-1].base
		f.free = slices.Delete(f.free, i-1, i)
		i--
	}
	f.free = slices.Insert(f.free, i, s)
}

func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
