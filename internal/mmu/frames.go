package mmu

import (
	"cmp"
	"slices"
)

// Frames hands out physical memory, lowest first. The zero value starts at 0.
type Frames struct {
	Next uint64 // where memory begins that was never handed out
	free []span // given back, by address, none next to another
}

type span struct{ base, end uint64 }

// Take is the first free frames of n bytes, aligned to align, a power of two.
func (f *Frames) Take(n, align uint64) uint64 {
	for i, s := range f.free {
		if base := up(s.base, align); base+n <= s.end {
			f.free = slices.Delete(f.free, i, i+1)
			f.Give(s.base, base-s.base)
			f.Give(base+n, s.end-base-n)
			return base
		}
	}
	base := up(f.Next, align)
	f.Give(f.Next, base-f.Next)
	f.Next = base + n
	return base
}

// Give takes n bytes at base back.
func (f *Frames) Give(base, n uint64) {
	if n == 0 {
		return
	}
	s := span{base, base + n}
	i, _ := slices.BinarySearchFunc(f.free, s, func(a, b span) int { return cmp.Compare(a.base, b.base) })
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

func up(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
