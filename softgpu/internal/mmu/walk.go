package mmu

import "fmt"

// Entry is the entry that one level of a walk reads.
type Entry struct {
	Level string // such as "PDE3"
	Index int    // in its table
	Kind  Kind

	// Of a page:
	Page     uint64 // its bytes
	Frame    uint64 // physical address of its first byte
	Aperture Aperture
	Peer     int
	ReadOnly bool
}

// Kind is the kind of an entry.
type Kind uint8

// Kinds of entries.
const (
	Invalid   Kind = iota // nothing is mapped here: the walk stops
	Directory             // it points to the table of the next level
	Leaf                  // it is a page
)

// String returns the entry as text: "PDE3[0] table", "PTE[17] 4 KiB page of
// system memory at 0x1000", "PDE1[3] invalid".
func (e Entry) String() string {
	at := fmt.Sprintf("%s[%d]", e.Level, e.Index)
	switch e.Kind {
	case Invalid:
		return at + " invalid"
	case Directory:
		return at + " table"
	}
	text := fmt.Sprintf("%s %s page of %v memory at %#x", at, Size(e.Page), e.Aperture, e.Frame)
	if e.Aperture == Peer {
		text = fmt.Sprintf("%s %s page of device %d's memory at %#x", at, Size(e.Page), e.Peer, e.Frame)
	}
	if e.ReadOnly {
		text += ", read-only"
	}
	return text
}

// Size formats a number of bytes that is a power of two, or near one.
func Size(n uint64) string {
	switch {
	case n >= gib:
		return fmt.Sprintf("%d GiB", n/gib)
	case n >= mib:
		return fmt.Sprintf("%d MiB", n/mib)
	case n >= kib:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Walk lists the entries that hardware reads to translate an address.
type Walk struct {
	Addr    uint64
	Entries []Entry
	Frame   uint64 // where the address itself leads; 0 if Faults
}

// Last returns the entry at which the walk ended.
func (w *Walk) Last() Entry { return w.Entries[len(w.Entries)-1] }

// Faults reports whether the walk ended at an invalid entry.
func (w *Walk) Faults() bool { return w.Last().Kind == Invalid }

// Walk translates addr. An address with more bits than the format fails at the
// root.
func (t *Table) Walk(addr uint64) Walk {
	w := Walk{Addr: addr}
	levels := t.Format.Levels
	if addr >= 1<<t.Format.Bits {
		w.Entries = []Entry{{Level: levels[0].Name, Index: levels[0].Index(addr)}}
		return w
	}
	var run *Run
	if i := t.after(addr); i < len(t.runs) && t.runs[i].Base <= addr {
		run = &t.runs[i]
	}
	for i := range levels {
		e := t.entry(&levels[i], i == len(levels)-1, addr, run)
		w.Entries = append(w.Entries, e)
		if e.Kind == Leaf {
			w.Frame = e.Frame + addr%e.Page
		}
		if e.Kind != Directory {
			break
		}
	}
	return w
}

// entry returns the entry that is read at level l on the way to addr. run maps
// addr, or is nil if nothing does.
func (t *Table) entry(l *Level, last bool, addr uint64, run *Run) Entry {
	e := Entry{Level: l.Name, Index: l.Index(addr)}
	if run != nil && (run.Page == l.Page || run.Page == l.TwinPage) {
		if run.Page == l.TwinPage {
			e.twin(l, addr)
		}
		page := addr &^ (run.Page - 1)
		e.Kind, e.Page, e.Frame = Leaf, run.Page, run.Frame+(page-run.Base)
		e.Aperture, e.Peer, e.ReadOnly = run.Aperture, run.Peer, run.ReadOnly
		return e
	}
	span := uint64(1) << l.Shift
	base := addr &^ (span - 1)
	if !last && t.any(base, base+span, 0) {
		e.Kind = Directory
	}
	table := addr &^ (span<<l.Width - 1)
	if past := table + span<<l.Width; l.TwinPage != 0 && !t.any(table, past, l.Page) && t.any(table, past, l.TwinPage) {
		e.twin(l, addr) // there is no other table to read
	}
	return e
}

// twin makes e the entry of the table of larger pages.
func (e *Entry) twin(l *Level, addr uint64) {
	e.Level = l.TwinName
	e.Index = l.Index(addr) / int(l.TwinPage>>l.Shift)
}
