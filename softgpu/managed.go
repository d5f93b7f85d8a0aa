package softgpu

import (
	"math/bits"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// Managed memory lies at one address for host and device, and its bytes are
// always there for both. Where the pages would be on hardware is kept for the
// time model, 64 KiB at a time.
const (
	managedShift = 16
	managedPage  = 1 << managedShift
	adviceShift  = 12
)

// Places of a page besides a device's ordinal.
const (
	onHost  int8 = -1
	nowhere int8 = -2 // nobody has touched it
)

// managedState is where the pages of a region are, and the advice about them.
type managedState struct {
	pages  []int8
	copied []bool   // also on the host, unchanged: read-mostly
	advice []advice // a 4 KiB page each; nil while there is none
	size   uint64
	attach atomic.Pointer[attachment]
}

// advice on a page.
type advice struct {
	readMostly bool
	preferred  int8 // a device, onHost or nowhere
	accessedBy uint32
	prefetched int8
}

// attachment says who may touch the memory where host and device must not do so
// at once.
type attachment struct {
	flags  cu.MemAttachFlags
	stream *streamState // of MemAttachSingle
}

var noAdvice = advice{preferred: nowhere, prefetched: nowhere}

func newManagedState(n uint64, flags cu.MemAttachFlags) *managedState {
	m := &managedState{size: n}
	m.pages = make([]int8, (n+managedPage-1)>>managedShift)
	m.copied = make([]bool, len(m.pages))
	for i := range m.pages {
		m.pages[i] = nowhere
	}
	m.attach.Store(&attachment{flags: flags})
	return m
}

// span of pages that n bytes at off touch.
func (m *managedState) span(off, n uint64) (first, past uint64) {
	return off >> managedShift, (off + n + managedPage - 1) >> managedShift
}

// mostlyHost says whether more than half of the pages are on the host.
func (m *managedState) mostlyHost(off, n uint64) bool {
	first, past := m.span(off, n)
	host := uint64(0)
	for _, at := range m.pages[first:past] {
		if at == onHost {
			host++
		}
	}
	return 2*host > past-first
}

// populate puts pages that are nowhere at a place.
func (m *managedState) populate(off, n uint64, at int) {
	first, past := m.span(off, n)
	for i := first; i < past; i++ {
		if m.pages[i] == nowhere {
			m.pages[i] = int8(at)
		}
	}
}

// adviceOf a 64 KiB page is that of its first 4 KiB.
func (m *managedState) adviceOf(page int) advice {
	if m.advice == nil {
		return noAdvice
	}
	return m.advice[page<<(managedShift-adviceShift)]
}

// advise changes the advice on n bytes at off.
func (m *managedState) advise(off, n uint64, change func(*advice)) {
	if m.advice == nil {
		m.advice = make([]advice, (m.size+1<<adviceShift-1)>>adviceShift)
		for i := range m.advice {
			m.advice[i] = noAdvice
		}
	}
	for i := off >> adviceShift; i < (off+n+1<<adviceShift-1)>>adviceShift; i++ {
		change(&m.advice[i])
	}
}

// common is what the advice on a range has in common; ok is false if it differs.
func (m *managedState) common(off, n uint64, read func(advice) int32) (v int32, ok bool) {
	if m.advice == nil {
		return read(noAdvice), true
	}
	first := off >> adviceShift
	v = read(m.advice[first])
	for i := first; i < (off+n+1<<adviceShift-1)>>adviceShift; i++ {
		if read(m.advice[i]) != v {
			return 0, false
		}
	}
	return v, true
}

// faults is what a kernel's touches of managed memory came to.
type faults struct {
	moved  uint64 // bytes that came to the device
	remote uint64 // bytes of pages that were used where they are, over the link
	local  uint64 // bytes of pages that were on the device
}

// touch moves pages to the device as a kernel's accesses fault them in.
func (m *managedState) touch(p *simt.Pages, dev int, f *faults) {
	for word := range p.Read {
		for mask := p.Read[word] | p.Written[word]; mask != 0; mask &= mask - 1 {
			i := word*64 + bits.TrailingZeros64(mask)
			written := p.Written[word]>>(i%64)&1 != 0
			m.touchPage(i, dev, written, f)
		}
	}
}

func (m *managedState) touchPage(i, dev int, written bool, f *faults) {
	if i >= len(m.pages) {
		return
	}
	a := m.adviceOf(i)
	at := m.pages[i]
	switch {
	case int(at) == dev:
		f.local += managedPage
	case at != nowhere && at != onHost || at == onHost && (a.preferred == onHost || a.accessedBy>>dev&1 != 0):
		f.remote += managedPage
		return
	default:
		f.moved += managedPage
		m.copied[i] = at == onHost && a.readMostly
		m.pages[i] = int8(dev)
	}
	if written {
		m.copied[i] = false
	}
}

// hostTouch moves pages to the host as the CPU's accesses fault them in, and is
// the bytes moved.
func (m *managedState) hostTouch(off, n uint64, written bool) (moved uint64) {
	first, past := m.span(off, n)
	for i := first; i < past; i++ {
		if m.pages[i] >= 0 && !(m.copied[i] && !written) {
			moved += managedPage
			if m.adviceOf(int(i)).readMostly && !written {
				m.copied[i] = true
				continue
			}
		} else if m.pages[i] >= 0 {
			continue
		}
		m.pages[i], m.copied[i] = onHost, false
	}
	return moved
}

// move puts pages at a place and is the bytes that had to move.
func (m *managedState) move(off, n uint64, at int8) (moved uint64) {
	first, past := m.span(off, n)
	for i := first; i < past; i++ {
		if m.pages[i] != at && m.pages[i] != nowhere {
			moved += managedPage
		}
		m.copied[i] = m.pages[i] == onHost && at >= 0 && m.adviceOf(int(i)).readMostly
		m.pages[i] = at
	}
	return moved
}
