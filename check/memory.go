package check

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// memoryKind is the kind of memory: what made it.
type memoryKind uint8

const (
	device     memoryKind = iota // cuMemAlloc
	pooled                       // cuMemAllocAsync
	pinned                       // cuMemHostAlloc
	registered                   // cuMemHostRegister
	managed                      // cuMemAllocManaged
	virtual                      // addresses of cuMemAddressReserve
	variable                     // of a module
	pageable                     // ordinary memory, all of it
)

func (s memoryKind) String() string {
	return [...]string{"device memory", "stream-ordered memory", "page-locked memory", "registered memory", "managed memory", "virtual memory", "a module's variable", "pageable memory"}[s]
}

// onHost reports whether copies treat the memory as the host's.
func (s memoryKind) onHost() bool { return s == pinned || s == registered || s == pageable }

// memory is an allocation or registration.
type memory struct {
	base, end uint64
	kind      memoryKind
	number    int
	ctx       cu.Context
	module    cu.Module // of a variable
	flags     uint32
	made      int // the line of the program
	call      string
	freed     int // the line that freed it
	freedBy   string
	dead      bool
	forgotten bool // freed long ago: none of its address ranges is kept
	foreign   bool // page-locked by another library: only the driver knows
	graph     bool // a graph allocates it: its life is not known
	launches  uint64
	written   []box // of device memory, while it is known
	known     bool  // written has all that was written
	opened    int   // of memory of another process: how often it must be closed
	hold      *hold // of registered memory
	byPin     bool  // registered by package pin: it is memory of ferry.AllocHost
	held      bool  // the driver's list has it
	accesses  []access
}

func (m *memory) String() string {
	if m.kind == pageable {
		return m.kind.String()
	}
	return fmt.Sprintf("%v %d (%d bytes)", m.shownKind(), m.number, m.end-m.base)
}

// shownKind returns the kind that findings name. Memory of ferry.AllocHost is page-locked memory
// there, although package pin registers it.
func (m *memory) shownKind() memoryKind {
	if m.byPin {
		return pinned
	}
	return m.kind
}

// addressRange is a range of addresses of a memory. Memory has a second one where the device has
// another address for it.
type addressRange struct {
	from, end uint64
	m         *memory
	at        uint64 // address of m for from
}

// memories has all memory that the driver made or page-locked, and the memory that it freed
// last, by address.
type memories struct {
	all   []addressRange // by address, without overlaps
	freed []*memory      // oldest first
	lost  func(n int)    // gets the number of freed allocations that were forgotten; may be nil
	count [pageable + 1]int
}

// mostFreed is how many freed allocations are remembered.
const mostFreed = 4096

func (x *memories) after(at uint64) int {
	i, _ := slices.BinarySearchFunc(x.all, at, func(r addressRange, at uint64) int {
		if r.end <= at {
			return -1
		}
		return 1
	})
	return i
}

// last returns the memory that is or was last at an address, and the address in it; nil for
// memory that the driver did not make.
func (x *memories) last(at uint64) (*memory, uint64) {
	if i := x.after(at); i < len(x.all) && x.all[i].from <= at {
		return x.all[i].m, at - x.all[i].from + x.all[i].at
	}
	return nil, at
}

// find returns the memory at an address and the address in it; nil for none.
func (x *memories) find(at uint64) (*memory, uint64) {
	if m, in := x.last(at); m != nil && !m.dead {
		return m, in
	}
	return nil, at
}

// gone returns the memory that was freed at an address, nil for none, or if other memory is
// there now.
func (x *memories) gone(at uint64) *memory {
	if m, _ := x.last(at); m != nil && m.dead {
		return m
	}
	return nil
}

// add adds memory.
func (x *memories) add(m *memory) {
	n := &x.count[m.shownKind()]
	*n++
	m.number = *n
	x.alias(addressRange{m.base, m.end, m, m.base})
}

// alias adds r, a first or second address range of its memory. r takes over its addresses. What
// a freed memory has outside of r, on either side, stays known. A live memory in the way loses
// its whole range: a call that this driver did not see must have freed it.
func (x *memories) alias(r addressRange) {
	first := x.after(r.from)
	last := first
	for last < len(x.all) && x.all[last].from < r.end {
		last++
	}
	list := make([]addressRange, 0, 3)
	if first < last && x.all[first].m.dead && x.all[first].from < r.from {
		left := x.all[first]
		left.end = r.from
		list = append(list, left)
	}
	list = append(list, r)
	if first < last && x.all[last-1].m.dead && x.all[last-1].end > r.end {
		right := x.all[last-1]
		right.from, right.at = r.end, right.at+r.end-right.from
		list = append(list, right)
	}
	x.all = slices.Replace(x.all, first, last, list...)
}

// remove ends the life of memory that a call frees.
func (x *memories) remove(m *memory, c *call) {
	m.dead, m.freed, m.freedBy = true, c.site, c.name
	m.written = nil
	m.hold.stop()
	x.freed = append(x.freed, m)
	if len(x.freed) > mostFreed {
		for _, m := range x.freed[:mostFreed/4] {
			m.forgotten = true
		}
		x.freed = slices.Delete(x.freed, 0, mostFreed/4)
		if x.lost != nil {
			x.lost(mostFreed / 4)
		}
		x.all = slices.DeleteFunc(x.all, func(r addressRange) bool { return r.m.forgotten })
	}
}

// removeAll ends the life of all memory for which the function which returns true, by the call c.
func (x *memories) removeAll(c *call, which func(*memory) bool) {
	for _, r := range slices.Clone(x.all) {
		if !r.m.dead && which(r.m) {
			x.remove(r.m, c)
			r.m.accesses = nil
		}
	}
}
