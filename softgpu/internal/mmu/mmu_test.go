package mmu

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var formats = []*Format{X86, ARM64, ARM64Large, IOMMU, Tesla, Fermi, Pascal, Ampere, Hopper}

// TestFormatsCoverTheirBits checks that the levels of each format divide all
// bits of an address down to its smallest page.
func TestFormatsCoverTheirBits(t *testing.T) {
	for _, f := range formats {
		at := f.Bits
		for i, l := range f.Levels {
			if l.Shift+l.Width != at {
				t.Errorf("%s: %s ends at bit %d, want %d", f.Name, l.Name, l.Shift+l.Width, at)
			}
			if l.Page != 0 && l.Page != 1<<l.Shift {
				t.Errorf("%s: a page of %s is %d bytes, its entry's span is %d", f.Name, l.Name, l.Page, 1<<l.Shift)
			}
			if l.TwinPage%(1<<l.Shift) != 0 || l.TwinPage != 0 && i != len(f.Levels)-1 {
				t.Errorf("%s: %s has a twin of %d bytes", f.Name, l.Name, l.TwinPage)
			}
			at = l.Shift
		}
		sizes := f.Sizes()
		if !slices.IsSortedFunc(sizes, func(a, b uint64) int { return int(b) - int(a) }) || sizes[len(sizes)-1] != 1<<at {
			t.Errorf("%s: sizes %v with %d bits left", f.Name, sizes, at)
		}
	}
}

// reference is a page table as a map from each of the smallest pages.
type reference struct {
	f     *Format
	small uint64
	pages map[uint64]refPage
}

type refPage struct {
	frame, page uint64
	aperture    Aperture
}

func (m *reference) check(t *testing.T, table *Table, addr uint64) {
	t.Helper()
	w := table.Walk(addr)
	want, mapped := m.pages[addr&^(m.small-1)]
	if mapped == w.Faults() {
		t.Fatalf("%s: %#x: mapped %v, walk %v", m.f.Name, addr, mapped, w.Entries)
	}
	for i, e := range w.Entries[:len(w.Entries)-1] {
		if l := m.f.Levels[i]; e.Kind != Directory || e.Level != l.Name || e.Index != int(addr>>l.Shift)&(1<<l.Width-1) {
			t.Fatalf("%s: %#x: entry %d is %v", m.f.Name, addr, i, e)
		}
	}
	last := w.Last()
	if l := m.f.Levels[len(w.Entries)-1]; mapped && uint64(last.Index) != addr%(1<<(l.Shift+l.Width))/last.Page {
		t.Fatalf("%s: %#x: index of %v", m.f.Name, addr, last)
	}
	if mapped {
		if w.Frame != want.frame+addr%m.small || last.Page != want.page || last.Aperture != want.aperture || last.Kind != Leaf {
			t.Fatalf("%s: %#x: leads to %#x by %v, want %#x and pages of %d", m.f.Name, addr, w.Frame, last, want.frame, want.page)
		}
		return
	}
	// The walk stops at the first level whose entry has nothing below it.
	for i, l := range m.f.Levels {
		base := addr &^ (1<<l.Shift - 1)
		below := false
		for a := range m.pages {
			below = below || a >= base && a-base < 1<<l.Shift
		}
		if !below {
			if len(w.Entries) != i+1 {
				t.Fatalf("%s: %#x: stops at %v, want level %s", m.f.Name, addr, last, l.Name)
			}
			return
		}
	}
	t.Fatalf("%s: %#x: the reference has no level where it stops", m.f.Name, addr)
}

// TestRandomMappings maps and unmaps at random, and compares walks with the
// reference.
func TestRandomMappings(t *testing.T) {
	for _, f := range formats {
		t.Run(f.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			sizes := slices.DeleteFunc(f.Sizes(), func(n uint64) bool { return n > 2*mib })
			m := &reference{f, sizes[len(sizes)-1], map[uint64]refPage{}}
			table := &Table{Format: f}
			var addrs []uint64
			near := uint64(1)<<(f.Bits-1) + 3*mib
			for range 150 {
				page := sizes[rng.IntN(len(sizes))]
				base := (near + rng.Uint64N(24*mib)) &^ (page - 1)
				n := page * (1 + rng.Uint64N(min(4, 4*mib/page)))
				addrs = append(addrs, base, base+n-1, base+n, base-1)
				switch rng.IntN(4) {
				case 0:
					m.unmap(t, table, base, n)
				case 1:
					m.fill(table, Run{Base: base, Bytes: n, Frame: rng.Uint64N(1<<30) &^ (page - 1), Page: page})
				default:
					m.mapRun(t, table, Run{Base: base, Bytes: n, Frame: rng.Uint64N(1<<30) &^ (page - 1), Page: page, Aperture: Aperture(rng.IntN(2))})
				}
				for range 4 {
					m.check(t, table, addrs[rng.IntN(len(addrs))]^rng.Uint64N(m.small))
				}
			}
			for _, a := range slices.Sorted(maps.Keys(m.pages)) {
				m.check(t, table, a)
			}
		})
	}
}

// mapRun maps r in both, and expects an error if any of it is mapped.
func (m *reference) mapRun(t *testing.T, table *Table, r Run) {
	t.Helper()
	taken := false
	for a := r.Base; a < r.end(); a += m.small {
		_, ok := m.pages[a]
		taken = taken || ok
	}
	if err := table.Map(r); (err != nil) != taken {
		t.Fatalf("map %+v: %v; taken: %v", r, err, taken)
	}
	for a := r.Base; a < r.end() && !taken; a += m.small {
		m.pages[a] = refPage{r.Frame + (a - r.Base), r.Page, r.Aperture}
	}
}

// fill fills both. The reference uses the largest page that is free altogether.
func (m *reference) fill(table *Table, r Run) {
	table.Fill(r)
	free := func(a, n uint64) bool {
		for ; n > 0; a, n = a+m.small, n-m.small {
			if _, ok := m.pages[a]; ok {
				return false
			}
		}
		return true
	}
	for a := r.Base; a < r.end(); {
		page := uint64(0)
		for _, s := range m.f.Sizes() {
			if s <= r.Page && page == 0 && a%s == 0 && a+s <= r.end() && free(a, s) {
				page = s
			}
		}
		for n := uint64(0); n < page; n += m.small {
			m.pages[a+n] = refPage{r.Frame + (a + n - r.Base), page, r.Aperture}
		}
		a += max(page, m.small)
	}
}

// unmap unmaps a range in both, and expects an error if it cuts a page.
func (m *reference) unmap(t *testing.T, table *Table, base, n uint64) {
	t.Helper()
	cuts := false
	for _, end := range []uint64{base, base + n} {
		if p, ok := m.pages[end]; ok && end%p.page != 0 {
			cuts = true
		}
	}
	before := slices.Clone(table.Runs())
	if err := table.Unmap(base, n); (err != nil) != cuts {
		t.Fatalf("unmap %d bytes at %#x: %v; cuts a page: %v", n, base, err, cuts)
	}
	if cuts {
		if !slices.Equal(before, table.Runs()) {
			t.Fatal("an unmap that was refused changed the table")
		}
		return
	}
	for a := base; a < base+n; a += m.small {
		delete(m.pages, a)
	}
}

func TestMapRefused(t *testing.T) {
	table := &Table{Format: Pascal}
	for want, r := range map[string]Run{
		"has no pages of 8192 bytes": {Base: 0, Bytes: 8192, Page: 8192},
		"not whole pages":            {Base: 4096, Bytes: 2 * mib, Page: 2 * mib},
		"past the 49 bits":           {Base: 1<<49 - 4096, Bytes: 8192, Page: 4096},
	} {
		if err := table.Map(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
	if w := table.Walk(1 << 60); !w.Faults() || len(w.Entries) != 1 {
		t.Errorf("an address of too many bits: %v", w.Entries)
	}
}

// A mapping of 80 GiB must not cost 40,960 entries.
func TestLargeMappingIsOneRun(t *testing.T) {
	table := &Table{Format: Hopper}
	if err := table.Map(Run{Base: 1 << 48, Bytes: 80 * gib, Page: 2 * mib, Aperture: Video}); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { table.Walk(1<<48 + 79*gib + 12345) }); n > 6 {
		t.Errorf("a walk makes %v allocations", n)
	}
	if w := table.Walk(1<<48 + 79*gib + 12345); w.Frame != 79*gib+12345 || len(table.Runs()) != 1 {
		t.Errorf("leads to %#x in %d runs", w.Frame, len(table.Runs()))
	}
}

func ExampleTable_Walk() {
	table := &Table{Format: Hopper}
	err := table.Map(Run{Base: 0x7f0000000000, Bytes: 1 << 20, Frame: 0x100000000, Page: 4096, Aperture: System})
	fmt.Println(err)
	for _, addr := range []uint64{0x7f0000002345, 0x7f0000100000} {
		w := table.Walk(addr)
		for _, e := range w.Entries {
			fmt.Println(e)
		}
		fmt.Printf("%#x leads to %#x, faults: %v\n", addr, w.Frame, w.Faults())
	}
	// Output:
	// <nil>
	// PDE4[0] table
	// PDE3[0] table
	// PDE2[508] table
	// PDE1[0] table
	// PDE0[0] table
	// PTE[2] 4 KiB page of system memory at 0x100002000
	// 0x7f0000002345 leads to 0x100002345, faults: false
	// PDE4[0] table
	// PDE3[0] table
	// PDE2[508] table
	// PDE1[0] table
	// PDE0[0] table
	// PTE[256] invalid
	// 0x7f0000100000 leads to 0x0, faults: true
}
