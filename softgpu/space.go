package softgpu

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Device memory has addresses that no host pointer has: above the 48 bits of
// user space, a window for each device, all within the 49 bits of an address on
// devices.
const (
	deviceBase   = 1 << 48
	deviceWindow = 1 << 44
	aliasOffset  = deviceWindow / 2 // where a window maps host memory when there is no unified addressing
)

// span is a run of addresses of a region. A region has two where the device
// knows host memory by another address.
type span struct {
	base, end uint64
	region    *region
	alias     bool // the device's address of host memory
}

// space is the address table. Readers see a sorted slice that nobody changes;
// writers hold Driver.mu and put a new one in its place.
type space struct {
	spans atomic.Pointer[[]span]
	freed []freedSpan // the last ones, a ring
	next  int
}

// freedSpan remembers what was at an address.
type freedSpan struct {
	base, end uint64
	kind      kind
	site      site // that freed it
}

const freedKept = 1024

func (s *space) load() []span {
	if p := s.spans.Load(); p != nil {
		return *p
	}
	return nil
}

// find is the span that holds addr.
func (s *space) find(addr uint64) (span, bool) {
	spans := s.load()
	lo, hi := 0, len(spans)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if spans[mid].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || addr >= spans[lo-1].end {
		return span{}, false
	}
	return spans[lo-1], true
}

// overlaps says whether any span shares an address with [base, end).
func (s *space) overlaps(base, end uint64) (span, bool) {
	spans := s.load()
	i, _ := slices.BinarySearchFunc(spans, base, func(x span, base uint64) int { return cmp.Compare(x.end, base+1) })
	if i < len(spans) && spans[i].base < end {
		return spans[i], true
	}
	return span{}, false
}

// insert puts a span in its place. Appending writes only where no reader looks.
func (s *space) insert(x span) {
	spans := s.load()
	i, _ := slices.BinarySearchFunc(spans, x.base, func(y span, base uint64) int { return cmp.Compare(y.base, base) })
	var next []span
	if i == len(spans) {
		next = append(spans, x)
	} else {
		next = make([]span, 0, len(spans)+1)
		next = append(append(append(next, spans[:i]...), x), spans[i:]...)
	}
	s.spans.Store(&next)
}

// remove takes out the spans of r and remembers them as freed.
func (s *space) remove(r *region) {
	by := r.freedBy()
	next := slices.Clone(s.load())
	next = slices.DeleteFunc(next, func(x span) bool {
		if x.region != r {
			return false
		}
		s.forget(freedSpan{x.base, x.end, r.kind, by})
		return true
	})
	s.spans.Store(&next)
}

func (s *space) forget(f freedSpan) {
	if len(s.freed) < freedKept {
		s.freed = append(s.freed, f)
		return
	}
	s.freed[s.next] = f
	s.next = (s.next + 1) % freedKept
}
