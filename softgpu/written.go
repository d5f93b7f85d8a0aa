package softgpu

import (
	"sync"

	"github.com/ferrygpu/ferry/internal/kernelrace"
)

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
	const size = 1 << kernelrace.WrittenShift
	x, ok := w.space.overlaps(number*size, (number+1)*size)
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

// allocated records that n bytes from an address on have no values.
func (w *writtenBytes) allocated(addr, n uint64) {
	w.each(addr, n, (*kernelrace.Written).Clear)
}

// wrote records that an operation writes n bytes of a place from an offset on.
func (p place) wrote(off, n uint64) {
	if r := p.region; r != nil && !r.kind.onHost() {
		r.dev.drv.values.each(r.base+p.off+off, n, (*kernelrace.Written).Set)
	}
}

func (w *writtenBytes) each(addr, n uint64, do func(w *kernelrace.Written, off, n uint64)) {
	if w == nil {
		return
	}
	const size = 1 << kernelrace.WrittenShift
	for end := addr + n; addr < end; addr = addr/size*size + size {
		do(w.at(addr/size), addr%size, min(end-addr, size-addr%size))
	}
}
