package kernelrace

import "testing"

// TestFreeOfUntouchedMemory: a free and a malloc of 64 MiB record something only of pages that
// were touched, and races with the free are still found there.
func TestFreeOfUntouchedMemory(t *testing.T) {
	const base, bytes, middle = 1<<20 + 64, 64 << 20, 33 << 20
	d := New(32)
	d.Values = noValues{}
	b := d.Block(0, 0)
	b.Access(0, &Access{Addr: base + middle, Bytes: 4, Kind: Write, Inst: 1})
	b.Access(0, &Access{Addr: base, Bytes: 4, Kind: Write, Inst: 1})
	b.Access(0, &Access{Addr: base - 4, Bytes: 4, Kind: Write, Inst: 1}) // not of the allocation
	b.Overwrite(1, base, bytes, 2)
	if got := raceCount(d); got != 2 {
		t.Errorf("the free has %d races, want 2", got)
	}
	b.Reuse(2, base, bytes, 3)
	if len(d.pages) != 2 {
		t.Errorf("a free records something of %d pages, want 2", len(d.pages))
	}
	b.Access(3, &Access{Addr: base + middle + 100, Bytes: 4, Inst: 4})
	if got := raceCount(d); got != 3 {
		t.Errorf("%d races after a use beside malloc, want 3", got)
	}
}

// TestPagesOf: both ways to find the pages of some memory give the same.
func TestPagesOf(t *testing.T) {
	d := New(32)
	d.Values = noValues{}
	for _, number := range []uint64{9, 3, 4, 7} {
		d.page(number << pageShift)
	}
	for _, c := range []struct {
		addr, n uint64
		want    int
	}{{3 << pageShift, 2 << pageShift, 2}, {3<<pageShift + 5, 1, 1}, {4 << pageShift, 1 << 40, 3}, {0, 8<<pageShift + 1, 3}, {0, 0, 0}, {5 << pageShift, 2 << pageShift, 0}} {
		got := d.pagesOf(c.addr, c.n)
		if len(got) != c.want {
			t.Errorf("%d bytes at %#x: pages %v, want %d", c.n, c.addr, got, c.want)
		}
		for i := range got {
			if i > 0 && got[i-1] >= got[i] {
				t.Errorf("%d bytes at %#x: pages %v are not in order", c.n, c.addr, got)
			}
		}
	}
}
