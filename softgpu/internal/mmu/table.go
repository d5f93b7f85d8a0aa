package mmu

import (
	"cmp"
	"fmt"
	"slices"
)

// Aperture is the memory to which an entry leads.
type Aperture uint8

// The apertures.
const (
	System Aperture = iota // the host's memory; a device reaches it over the link
	Video                  // the device's own memory
	Peer                   // another device's memory
)

// String returns the aperture's name.
func (a Aperture) String() string { return [...]string{"system", "video", "peer"}[a] }

// Run is a run of pages that are contiguous in both address spaces.
type Run struct {
	Base, Bytes uint64 // of the addresses
	Frame       uint64 // where the first page leads
	Page        uint64 // bytes of each page
	Aperture    Aperture
	Peer        int // the device, for aperture Peer
	ReadOnly    bool
}

func (r *Run) end() uint64 { return r.Base + r.Bytes }

// Table is a page table. It is not safe for concurrent use with the methods
// that change it.
type Table struct {
	Format *Format
	runs   []Run // by address
}

// Map maps a run. It fails if the format has no such pages, or if part of the range is
// mapped. It also fails if an address or a frame is not aligned to them or too large.
func (t *Table) Map(r Run) error {
	switch {
	case !t.Format.Has(r.Page):
		return fmt.Errorf("map %#x: %s has no pages of %d bytes", r.Base, t.Format.Name, r.Page)
	case (r.Base|r.Bytes|r.Frame)%r.Page != 0 || r.Bytes == 0:
		return fmt.Errorf("map %d bytes at %#x to %#x: not whole pages of %d bytes", r.Bytes, r.Base, r.Frame, r.Page)
	case r.end() < r.Base || r.end() > 1<<t.Format.Bits:
		return fmt.Errorf("map %d bytes at %#x: past the %d bits of an address", r.Bytes, r.Base, t.Format.Bits)
	}
	i := t.after(r.Base)
	if i < len(t.runs) && t.runs[i].Base < r.end() {
		return fmt.Errorf("map %d bytes at %#x: %#x is mapped", r.Bytes, r.Base, max(r.Base, t.runs[i].Base))
	}
	t.runs = slices.Insert(t.runs, i, r)
	return nil
}

// Fill maps the unmapped parts of r, with smaller pages next to mapped ones.
// Addresses and frames must be aligned to the pages of r.
func (t *Table) Fill(r Run) {
	for base := r.Base; base < r.end(); {
		past := r.end()
		if i := t.after(base); i < len(t.runs) && t.runs[i].Base < past {
			if past = t.runs[i].Base; past <= base {
				base = t.runs[i].end()
				continue
			}
		}
		t.fillGap(r, base, past)
		base = past
	}
}

// fillGap maps [base, past) of r, which must not be mapped.
func (t *Table) fillGap(r Run, base, past uint64) {
	first, last := alignUp(base, r.Page), past&^(r.Page-1)
	if first < last {
		part := r
		part.Base, part.Bytes, part.Frame = first, last-first, r.Frame+(first-r.Base)
		if err := t.Map(part); err != nil {
			panic("BUG: " + err.Error())
		}
	} else {
		first, last = past, past
	}
	smaller := t.Format.below(r.Page)
	if smaller == 0 {
		return
	}
	r.Frame, r.Base = r.Frame+(base-r.Base), base
	r.Page = smaller
	if first > base {
		t.fillGap(r, base, first)
	}
	if last < past {
		t.fillGap(r, last, past)
	}
}

// after returns the index of the first run that ends after addr.
func (t *Table) after(addr uint64) int {
	i, _ := slices.BinarySearchFunc(t.runs, addr, func(r Run, addr uint64) int { return cmp.Compare(r.end(), addr+1) })
	return i
}

// Unmap unmaps a range. It fails if the range cuts a page.
func (t *Table) Unmap(base, bytes uint64) error {
	end := base + bytes
	var kept []Run
	first := t.after(base)
	past := first
	for ; past < len(t.runs) && t.runs[past].Base < end; past++ {
		r := t.runs[past]
		if low := r; r.Base < base {
			low.Bytes = base - r.Base
			if low.Bytes%r.Page != 0 {
				return fmt.Errorf("unmap %#x: inside a page of %d bytes", base, r.Page)
			}
			kept = append(kept, low)
		}
		if high := r; r.end() > end {
			high.Base, high.Bytes, high.Frame = end, r.end()-end, r.Frame+(end-r.Base)
			if high.Bytes%r.Page != 0 {
				return fmt.Errorf("unmap up to %#x: inside a page of %d bytes", end, r.Page)
			}
			kept = append(kept, high)
		}
	}
	t.runs = slices.Replace(t.runs, first, past, kept...)
	return nil
}

// Runs returns all runs by address. The caller must not change them.
func (t *Table) Runs() []Run { return t.runs }

// any reports whether [base, end) contains a mapped page of the given size, or
// of any size if page is 0.
func (t *Table) any(base, end, page uint64) bool {
	for i := t.after(base); i < len(t.runs) && t.runs[i].Base < end; i++ {
		if page == 0 || t.runs[i].Page == page {
			return true
		}
	}
	return false
}
