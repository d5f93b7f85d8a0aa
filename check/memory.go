package check

import (
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// sort is what made memory.
type sort uint8

const (
	device     sort = iota // cuMemAlloc
	pooled                 // cuMemAllocAsync
	pinned                 // cuMemHostAlloc
	registered             // cuMemHostRegister
	managed                // cuMemAllocManaged
	variable               // of a module
	pageable               // ordinary memory, all of it
)

func (s sort) String() string {
	return [...]string{"device memory", "stream-ordered memory", "page-locked memory", "registered memory", "managed memory", "a module's variable", "pageable memory"}[s]
}

// onHost reports whether copies treat the memory as the host's.
func (s sort) onHost() bool { return s == pinned || s == registered || s == pageable }

// memory is an allocation or registration.
type memory struct {
	base, end uint64
	sort      sort
	number    int
	ctx       cu.Context
	flags     uint32
	made      int // the line of the program
	call      string
	freed     int // the line that freed it
	freedBy   string
	dead      bool
	graph     bool // a graph allocates it: its life is not known
	launches  uint64
	written   []extent // of device memory, while it is known
	known     bool     // written has all that was written
	hold      *hold    // of registered memory
	held      bool     // the driver's list has it
	accesses  []access
}

func (m *memory) String() string {
	if m.sort == pageable {
		return m.sort.String()
	}
	return fmt.Sprintf("%v %d (%d bytes)", m.sort, m.number, m.end-m.base)
}

// region is a range of addresses of a memory. Memory has a second one where the device has
// another address for it.
type region struct {
	from, end uint64
	m         *memory
	at        uint64 // address of m for from
}

// memories has all memory that the driver made or page-locked, by address.
type memories struct {
	all   []region // by address, without overlaps
	dead  []*memory
	count [pageable + 1]int
}

// mostDead is how many freed allocations are remembered.
const mostDead = 4096

func (x *memories) after(at uint64) int {
	i, _ := slices.BinarySearchFunc(x.all, at, func(r region, at uint64) int {
		if r.end <= at {
			return -1
		}
		return 1
	})
	return i
}

// find returns the memory at an address and the address in it; nil for memory that the
// driver did not make.
func (x *memories) find(at uint64) (*memory, uint64) {
	if i := x.after(at); i < len(x.all) && x.all[i].from <= at {
		return x.all[i].m, at - x.all[i].from + x.all[i].at
	}
	return nil, at
}

// add adds memory. It replaces memory that it overlaps, which was freed unseen.
func (x *memories) add(m *memory) {
	x.count[m.sort]++
	m.number = x.count[m.sort]
	x.alias(region{m.base, m.end, m, m.base})
}

func (x *memories) alias(r region) {
	first := x.after(r.from)
	last := first
	for last < len(x.all) && x.all[last].from < r.end {
		last++
	}
	x.all = slices.Replace(x.all, first, last, r)
}

// remove ends the life of memory.
func (x *memories) remove(m *memory, call string, site int) {
	m.dead, m.freed, m.freedBy = true, site, call
	x.all = slices.DeleteFunc(x.all, func(r region) bool { return r.m == m })
	x.dead = append(x.dead, m)
	if len(x.dead) > mostDead {
		x.dead = slices.Delete(x.dead, 0, mostDead/4)
	}
	m.written = nil
	m.hold.stop()
}

// gone returns the memory that was at an address last, nil if there was none.
func (x *memories) gone(at uint64) *memory {
	for i := len(x.dead) - 1; i >= 0; i-- {
		if m := x.dead[i]; m.base <= at && at < m.end {
			return m
		}
	}
	return nil
}
