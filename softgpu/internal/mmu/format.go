package mmu

// Format describes the levels of a page table.
type Format struct {
	Name   string
	Bits   uint    // of an address; higher bits must be zero
	Levels []Level // from the root
}

// Level is one step of a walk: the address bits that index its table, and the
// page that an entry there can be.
type Level struct {
	Name  string // such as "PDE3"
	Shift uint   // the lowest bit of the index
	Width uint   // of the index, in bits
	Page  uint64 // bytes of a page that an entry maps; 0 if an entry only points to a table
	// The twin is a table beside this one for pages of another size. The entry
	// above points to both tables. TwinPage is the size of its pages, TwinName
	// its name.
	TwinName string
	TwinPage uint64
}

// Index returns the index of addr in a table of the level.
func (l *Level) Index(addr uint64) int { return int(addr >> l.Shift & (1<<l.Width - 1)) }

// Sizes returns the page sizes of the format, largest first.
func (f *Format) Sizes() []uint64 {
	var sizes []uint64
	for i := range f.Levels {
		l := &f.Levels[i]
		if l.TwinPage != 0 {
			sizes = append(sizes, l.TwinPage)
		}
		if l.Page != 0 {
			sizes = append(sizes, l.Page)
		}
	}
	return sizes
}

// Has reports whether the format has pages of a size.
func (f *Format) Has(page uint64) bool {
	for _, s := range f.Sizes() {
		if s == page {
			return true
		}
	}
	return false
}

// below returns the next smaller page size, 0 if there is none.
func (f *Format) below(page uint64) uint64 {
	var largest uint64
	for _, s := range f.Sizes() {
		if s < page {
			largest = max(largest, s)
		}
	}
	return largest
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// The formats of CPUs and IOMMUs.
var (
	// X86 is the four-level table of x86-64.
	X86 = &Format{"x86-64, 4 levels", 48, radix9("PML4", "PDPT", "PD", "PT")}
	// ARM64 is the table of 64-bit ARM with a granule of 4 KiB.
	ARM64 = &Format{"arm64, 4 KiB granule, 4 levels", 48, radix9("L0", "L1", "L2", "L3")}
	// ARM64Large is the table of 64-bit ARM with a granule of 64 KiB.
	ARM64Large = &Format{"arm64, 64 KiB granule, 3 levels", 48, []Level{
		{Name: "L1", Shift: 42, Width: 6},
		{Name: "L2", Shift: 29, Width: 13, Page: 512 * mib},
		{Name: "L3", Shift: 16, Width: 13, Page: 64 * kib},
	}}
	// IOMMU is the second-level table of an IOMMU, four levels of 4 KiB tables.
	IOMMU = &Format{"IOMMU, 4 levels", 48, radix9("SL4", "SL3", "SL2", "SL1")}
)

func radix9(names ...string) []Level {
	return []Level{
		{Name: names[0], Shift: 39, Width: 9},
		{Name: names[1], Shift: 30, Width: 9, Page: gib},
		{Name: names[2], Shift: 21, Width: 9, Page: 2 * mib},
		{Name: names[3], Shift: 12, Width: 9, Page: 4 * kib},
	}
}

// The formats of devices.
var (
	// Tesla is the table of compute capability 1.x.
	Tesla = &Format{"GPU MMU of compute capability 1, 2 levels", 40, []Level{
		{Name: "PDE", Shift: 29, Width: 11},
		{Name: "PTE", Shift: 12, Width: 17, Page: 4 * kib, TwinName: "PTE (big)", TwinPage: 64 * kib},
	}}
	// Fermi is the table of Fermi to Maxwell.
	Fermi = &Format{"GPU MMU of Fermi to Maxwell, 2 levels", 40, []Level{
		{Name: "PDE", Shift: 27, Width: 13},
		{Name: "PTE", Shift: 12, Width: 15, Page: 4 * kib, TwinName: "PTE (big)", TwinPage: 128 * kib},
	}}
	// Pascal is the table of Pascal to Turing.
	Pascal = &Format{"GPU MMU of Pascal to Turing, 5 levels", 49, pascal(0)}
	// Ampere is the table of Ampere and Ada. It adds pages of 512 MiB.
	Ampere = &Format{"GPU MMU of Ampere and Ada, 5 levels", 49, pascal(512 * mib)}
	// Hopper is the table of Hopper, with one more level at the root.
	Hopper = &Format{"GPU MMU of Hopper, 6 levels", 57, append([]Level{
		{Name: "PDE4", Shift: 56, Width: 1},
		{Name: "PDE3", Shift: 47, Width: 9},
	}, pascal(512 * mib)[1:]...)}
)

func pascal(huge uint64) []Level {
	return []Level{
		{Name: "PDE3", Shift: 47, Width: 2},
		{Name: "PDE2", Shift: 38, Width: 9},
		{Name: "PDE1", Shift: 29, Width: 9, Page: huge},
		{Name: "PDE0", Shift: 21, Width: 8, Page: 2 * mib},
		{Name: "PTE", Shift: 12, Width: 9, Page: 4 * kib, TwinName: "PTE (big)", TwinPage: 64 * kib},
	}
}
