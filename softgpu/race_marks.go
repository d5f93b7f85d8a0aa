//go:build race || hosttsan

package softgpu

import (
	"maps"
	"math/bits"
	"slices"
)

// raceMarks are the bytes that a kernel has read and written since it last told the race detector. They are
// told as ranges: the order of two accesses between two reports makes no difference to the detector.
type raceMarks struct {
	pages map[uintptr]*racePage // by address, without its lowest bits
	last  uintptr               // the address of now
	now   *racePage
}

// racePage has two bits for each byte of 4 KiB.
type racePage struct{ read, written pageMarks }

type pageMarks [1 << racePageShift / 64]uint64

const racePageShift = 12

// add marks n bytes at p.
func (m *raceMarks) add(write bool, p, n uintptr) {
	for n > 0 {
		off := p % (1 << racePageShift)
		here := min(n, 1<<racePageShift-off)
		m.page(p>>racePageShift).marks(write).set(off, here)
		p, n = p+here, n-here
	}
}

// addLanes marks n bytes, a power of two up to 64, at p plus the offset of each lane in mask. Lanes in a row
// often have the same word of marks.
func (m *raceMarks) addLanes(write bool, p uintptr, offs [32]uint64, mask uint32, n uintptr) {
	some, last := uint64(0), uintptr(0)
	for ; mask != 0; mask &= mask - 1 {
		at := p + uintptr(offs[bits.TrailingZeros32(mask)&31])
		if at%64+n > 64 {
			m.add(write, at, n)
			continue
		}
		if at/64 != last && some != 0 {
			m.or(write, last, some)
			some = 0
		}
		last = at / 64
		some |= ^uint64(0) >> (64 - n) << (at % 64)
	}
	if some != 0 {
		m.or(write, last, some)
	}
}

// or adds the marks of 64 bytes.
func (m *raceMarks) or(write bool, word uintptr, some uint64) {
	marks := m.page(word / (1 << racePageShift / 64)).marks(write)
	marks[word%uintptr(len(marks))] |= some
}

func (p *racePage) marks(write bool) *pageMarks {
	if write {
		return &p.written
	}
	return &p.read
}

// page makes a page the last one, and returns it.
func (m *raceMarks) page(number uintptr) *racePage {
	if m.now != nil && m.last == number {
		return m.now
	}
	if m.pages == nil {
		m.pages = map[uintptr]*racePage{}
	}
	p := m.pages[number]
	if p == nil {
		p = new(racePage)
		m.pages[number] = p
	}
	m.last, m.now = number, p
	return p
}

// set marks n bytes from an offset on.
func (s *pageMarks) set(off, n uintptr) {
	for n > 0 {
		here := min(n, 64-off%64)
		s[off/64] |= ^uint64(0) >> (64 - here) << (off % 64)
		off, n = off+here, n-here
	}
}

// flush calls add with the ranges of bytes, and forgets them.
func (m *raceMarks) flush(add func(raceAccess)) {
	if len(m.pages) == 0 {
		return
	}
	numbers := slices.Sorted(maps.Keys(m.pages))
	for _, write := range []bool{false, true} {
		a := raceAccess{how: kernelRead}
		if write {
			a.how = kernelWrite
		}
		for _, number := range numbers {
			m.pages[number].marks(write).each(func(off, n uintptr) {
				p := number<<racePageShift + off
				if a.p+a.n != p || a.n == 0 {
					if a.n > 0 {
						add(a)
					}
					a.p, a.n = p, 0
				}
				a.n += n
			})
		}
		if a.n > 0 {
			add(a)
		}
	}
	*m = raceMarks{}
}

// each calls f for the ranges of marked bytes, by word of marks.
func (s *pageMarks) each(f func(off, n uintptr)) {
	all := *s // a local copy: the race detector looks at each access to other memory
	for w, some := range all {
		for some != 0 {
			first := bits.TrailingZeros64(some)
			n := bits.TrailingZeros64(^(some >> first))
			f(uintptr(w*64+first), uintptr(n))
			some &^= ^uint64(0) >> (64 - n) << first
		}
	}
}
