package ferry

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Device is a buffer in the GPU's memory. It is safe for concurrent use.
type Device[T any] struct{ span span }

// Alloc takes memory for n elements on the GPU (cuMemAlloc), aligned to 256 bytes and
// not cleared. Zero elements are a valid, empty buffer. T is any type without Go
// pointers. An error wraps cu.ErrorOutOfMemory, with what is free, or
// cu.ErrorInvalidValue.
func Alloc[T any](g *GPU, n int) (*Device[T], error) {
	a, err := newAllocation[T](g, deviceMemory, n)
	if err != nil {
		return nil, err
	}
	if a.bytes > 0 {
		if a.dev, err = g.driver.MemAlloc(g.ctx, a.bytes); err != nil {
			return nil, a.fail("allocate", err, a.room(err))
		}
	}
	a.start()
	return &Device[T]{a.whole()}, nil
}

// AllocPitched takes memory on the GPU for height rows of width elements, each row
// where accesses are fastest (cuMemAllocPitch). pitch is the elements from the start
// of a row to that of the next, at least width; the buffer has height*pitch elements.
// Layers are so many more rows. Errors are as for [Alloc].
func AllocPitched[T any](g *GPU, width, height int) (d *Device[T], pitch int, err error) {
	e, err := elementOf[T]()
	if err != nil {
		return nil, 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if width < 0 || height < 0 {
		return nil, 0, refusal.Invalid("allocate device memory: %d rows of %d elements: the numbers cannot be negative", height, width)
	}
	if width == 0 || height == 0 || e.size == 0 {
		d, err := Alloc[T](g, width*height)
		return d, width, err
	}
	row, err := e.row(width)
	if err != nil {
		return nil, 0, err
	}
	if over, _ := bits.Mul64(uint64(row), uint64(height)); over != 0 || uint64(row)*uint64(height) > math.MaxInt {
		return nil, 0, refusal.New(cu.ErrorOutOfMemory, "allocate device memory: %d rows of %s are more bytes than an address can count", height, refusal.Size(row))
	}
	a, err := newAllocation[T](g, deviceMemory, int(row/e.size)*height)
	if err != nil {
		return nil, 0, err
	}
	var bytes uintptr
	if a.dev, bytes, err = g.driver.MemAllocPitch(g.ctx, row, uintptr(height), accessSize(e.size)); err != nil {
		return nil, 0, a.fail("allocate", err, a.room(err))
	}
	if bytes%e.size != 0 {
		err := refusal.Invalid("the driver's pitch of %d bytes is no whole number of elements of %s, %d bytes each: use Alloc", bytes, e.name, e.size)
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

// row is the bytes to ask for a row of width elements, so that the pitch is a whole
// number of elements.
func (e *element) row(width int) (uintptr, error) {
	row, err := e.bytes(width)
	if err != nil {
		return 0, fmt.Errorf("allocate device memory: %w", err)
	}
	if e.size&(e.size-1) == 0 {
		return row, nil
	}
	unit := pitchUnit / min(pitchUnit, e.size&-e.size) * e.size // a multiple of both
	if row > math.MaxInt-unit {
		return 0, refusal.New(cu.ErrorOutOfMemory, "allocate device memory: rows of %d elements of %s are more bytes than an address can count", width, e.name)
	}
	return (row + unit - 1) / unit * unit, nil
}

// accessSize is what a kernel loads at once of elements of a size, as cuMemAllocPitch
// wants to know.
func accessSize(size uintptr) uint32 {
	switch {
	case size%16 == 0:
		return 16
	case size%8 == 0:
		return 8
	}
	return 4
}

// Len is the number of elements.
func (d *Device[T]) Len() int { return d.where(nil).len() }

// Size is the size in bytes.
func (d *Device[T]) Size() int { return d.where(nil).size() }

// String describes the buffer: "device buffer 3 (1000 float32, 3.9 KiB) on soft:h200".
func (d *Device[T]) String() string { return d.where(nil).String() }

// Pointer is the address in kernels; 0 for an empty buffer.
func (d *Device[T]) Pointer() cu.DevicePtr { return d.where(nil).pointer() }

// Range is elements i to j-1, of the same memory: what is in flight on a range is in
// flight on the buffer. It needs no Close and is good until the buffer's. A range that
// does not exist is one whose every use is an error.
func (d *Device[T]) Range(i, j int) *Device[T] { return &Device[T]{d.where(nil).sub(i, j)} }

// Wait waits until nothing is in flight on the buffer. See [Host.Wait].
func (d *Device[T]) Wait(ctx context.Context) error {
	return d.where(nil).waitHost(await.Context(ctx), inflight.Write)
}

// Close waits for what is in flight on the buffer and frees it (cuMemFree). Within a
// host function it is freed soon afterwards. Close of a range does nothing; of a
// closed or nil buffer, too.
func (d *Device[T]) Close() error { return d.where(nil).close() }

func (d *Device[T]) untyped() (*span, int) { return d.where(nil), int(sizeOf[T]()) }

func (d *Device[T]) where(*T) *span {
	if d == nil {
		return nil
	}
	return &d.span
}
