package softgpu

import (
	"sync"

	"github.com/ferrygpu/ferry/softgpu/internal/kernelrace"
)

// writtenSize is the bytes of a page of which a record says which are written.
const writtenSize = 1 << kernelrace.WrittenShift

// writtenBytes says which bytes of the devices' memory have been written, for the check of
// kernels that read others. A nil *writtenBytes records nothing.
type writtenBytes struct {
	space *space
	mu    sync.Mutex
	pages map[uint64]*kernelrace.Written
}

// newWritten returns the record of a driver, or nil if kernels are not checked.
func newWritten(s *space, checks bool) *writtenBytes {
	if !checks {
		return nil
	}
	return &writtenBytes{space: s, pages: map[uint64]*kernelrace.Written{}}
}

// finder returns page, or nil if nothing is recorded.
func (w *writtenBytes) finder() func(number uint64) *kernelrace.Written {
	if w == nil {
		return nil
	}
	return w.page
}

// page returns the record of a page, or nil if the page is not device memory.
func (w *writtenBytes) page(number uint64) *kernelrace.Written {
	x, ok := w.space.overlaps(number*writtenSize, (number+1)*writtenSize)
	if !ok || x.region.kind != kindDevice && x.region.kind != kindPool && x.region.kind != kindModule {
		return nil
	}
	return w.at(number)
}

func (w *writtenBytes) at(number uint64) *kernelrace.Written {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pages[number]
	if p == nil {
		p = new(kernelrace.Written)
		w.pages[number] = p
	}
	return p
}

// allocated records that n bytes from an address on have no values. A page without a record
// has none already: memory that nobody writes needs no records.
func (w *writtenBytes) allocated(addr, n uint64) {
	w.recorded(addr, n, func(_ uint64, p *kernelrace.Written, off, n uint64) { p.Clear(off, n) })
}

// freed drops the records of n bytes from an address on, which are whole pages.
func (w *writtenBytes) freed(addr, n uint64) {
	w.recorded(addr, n, func(number uint64, _ *kernelrace.Written, _, _ uint64) { delete(w.pages, number) })
}

// recorded calls do for each record of n bytes from an address on. There may be far more
// pages than records, or the other way round.
func (w *writtenBytes) recorded(addr, n uint64, do func(number uint64, p *kernelrace.Written, off, n uint64)) {
	if w == nil || n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	part := func(number uint64, p *kernelrace.Written) {
		start, end := max(addr, number*writtenSize), min(addr+n, (number+1)*writtenSize)
		if p != nil && start < end {
			do(number, p, start%writtenSize, end-start)
		}
	}
	if n/writtenSize > uint64(len(w.pages)) {
		for number, p := range w.pages {
			part(number, p)
		}
		return
	}
	for number := addr / writtenSize; number*writtenSize < addr+n; number++ {
		part(number, w.pages[number])
	}
}

// wrote records that an operation writes n bytes of a span from an offset on.
func (p span) wrote(off, n uint64) {
	if r := p.region; r != nil && !r.kind.onHost() {
		r.dev.drv.values.wrote(r.base+p.off+off, n)
	}
}

func (w *writtenBytes) wrote(addr, n uint64) {
	if w == nil {
		return
	}
	for end := addr + n; addr < end; addr = addr/writtenSize*writtenSize + writtenSize {
		w.at(addr/writtenSize).Set(addr%writtenSize, min(end-addr, writtenSize-addr%writtenSize))
	}
}
