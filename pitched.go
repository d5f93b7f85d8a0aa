package ferry

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
)

// AllocPitched takes memory on the GPU for height rows of width elements, each row
// where accesses are fastest (cuMemAllocPitch). pitch is the elements from the
// start of a row to that of the next, at least width; the buffer has height*pitch
// elements. Layers of a box are so many more rows. Errors are as for [Alloc].
func AllocPitched[T any](g *GPU, width, height int) (d *Device[T], pitch int, err error) {
	e, err := elementOf[T]()
	if err != nil {
		return nil, 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if width < 0 || height < 0 {
		return nil, 0, refuse("allocate device memory: %d rows of %d elements: the numbers cannot be negative", height, width)
	}
	if width == 0 || height == 0 || e.size == 0 {
		d, err := Alloc[T](g, width*height)
		return d, width, err
	}
	row, err := e.bytes(width)
	if err != nil {
		return nil, 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if e.size&(e.size-1) != 0 { // the pitch must be whole elements: ask for a multiple of both
		unit := pitchUnit / min(pitchUnit, e.size&-e.size) * e.size
		if row > math.MaxInt-unit {
			return nil, 0, &refusal{cu.ErrorOutOfMemory, fmt.Sprintf("allocate device memory: rows of %d elements of %s are more bytes than an address can count", width, e.name)}
		}
		row = (row + unit - 1) / unit * unit
	}
	if over, _ := bits.Mul64(uint64(row), uint64(height)); over != 0 || uint64(row)*uint64(height) > math.MaxInt {
		return nil, 0, &refusal{cu.ErrorOutOfMemory, fmt.Sprintf("allocate device memory: %d rows of %s are more bytes than an address can count", height, sizeText(row))}
	}
	a, err := newAllocation[T](g, deviceMemory, int(row/e.size)*height)
	if err != nil {
		return nil, 0, err
	}
	var bytes uintptr
	if a.dev, bytes, err = g.driver.MemAllocPitch(g.ctx, row, uintptr(height), accessSize(e.size)); err != nil {
		return nil, 0, a.fail("allocate", err, g.room(a.bytes, err))
	}
	if bytes%e.size != 0 {
		err := refuse("the driver's pitch of %d bytes is no whole number of elements of %s, %d bytes each: use Alloc", bytes, e.name, e.size)
		if free := g.driver.MemFree(g.ctx, a.dev); free != nil {
			err = fmt.Errorf("%w; and undoing it: %w", err, free)
		}
		return nil, 0, a.fail("allocate", err, "")
	}
	pitch = int(bytes / e.size)
	a.count, a.bytes = pitch*height, bytes*uintptr(height)
	a.start()
	return &Device[T]{a.whole()}, pitch, nil
}

// pitchUnit is a multiple of what drivers align rows to.
const pitchUnit = 512

// accessSize is what a kernel loads at once of elements of a size, as
// cuMemAllocPitch wants to know.
func accessSize(size uintptr) uint32 {
	switch {
	case size%16 == 0:
		return 16
	case size%8 == 0:
		return 8
	}
	return 4
}
