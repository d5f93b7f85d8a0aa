package unordered

import (
	"math/rand/v2"
	"testing"
)

func at(from, n uintptr) Range { return Range{From: from, Bytes: n} }

// TestFind compares with a check of each pair of copies and each byte.
func TestFind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	conflicts := 0
	for range 20000 {
		copies := make([]Copy, r.IntN(5))
		place := func() Range { return Range{Space: r.IntN(2), From: uintptr(r.IntN(60)), Bytes: uintptr(r.IntN(7))} }
		for i := range copies {
			copies[i] = Copy{place(), place()}
			copies[i].Src.Bytes = copies[i].Dst.Bytes
		}
		c, got := find(copies)
		if want := conflictOfBytes(copies); got != want {
			t.Fatalf("find(%v) = %v, %t, want %t", copies, c, got, want)
		}
		if !got {
			continue
		}
		conflicts++
		a, b := c.first, c.second
		if a.index >= b.index || !a.writes && !b.writes || a.Space != b.Space || a.From >= b.end() || b.From >= a.end() {
			t.Fatalf("find(%v) = %v, which is no conflict of two copies in their order", copies, c)
		}
	}
	if conflicts < 1000 || conflicts > 19000 {
		t.Errorf("%d of 20000 lists have conflicts: the test compares too little", conflicts)
	}
}

// conflictOfBytes is find, byte by byte.
func conflictOfBytes(copies []Copy) bool {
	type place struct {
		space int
		at    uintptr
	}
	for i, x := range copies {
		written := map[place]bool{}
		for k := range x.Dst.Bytes {
			written[place{x.Dst.Space, x.Dst.From + k}] = true
		}
		for j, y := range copies {
			for _, r := range []Range{y.Dst, y.Src} {
				for k := range r.Bytes {
					if i != j && written[place{r.Space, r.From + k}] {
						return true
					}
				}
			}
		}
	}
	return false
}

// TestFindManyReaders finds no conflict among many copies that read the same bytes. It takes minutes
// if find compares each copy with each other.
func TestFindManyReaders(t *testing.T) {
	copies := make([]Copy, 100_000)
	for i := range copies {
		copies[i] = Copy{Dst: at(uintptr(100+i*10), 10), Src: at(0, 10)}
	}
	if c, found := find(copies); found {
		t.Errorf("got the conflict %v, want none", c)
	}
	copies[99_999].Src = at(105, 10)
	if c, found := find(copies); !found || c.first.index != 0 || c.second.index != 99_999 {
		t.Errorf("got %v, %t, want a conflict of copies 0 and 99,999", c, found)
	}
}
