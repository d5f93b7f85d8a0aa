package ferry

import (
	"encoding/binary"
	"iter"

	"github.com/ferrygpu/ferry/cu"
)

// Fill sets all elements of dst to value in the order of the stream
// (cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async). It returns when that is
// queued. Elements of 1, 2 and 4 bytes can have any value; longer ones must
// consist of one such value over and over, as zero does. A page-locked buffer
// must have an address in kernels ([Host.Pointer]). A plain slice is refused: Go
// fills it. Errors are as for [Copy]. Fill is safe for concurrent use.
func Fill[T any](q Queue, dst Memory[T], value T) error {
	if b, ok := q.(*Batch); ok {
		return b.fill(regionOf(dst), bytesOf(&value))
	}
	return streamOf(q).fill(regionOf(dst), bytesOf(&value))
}

// fill is Fill with the bytes of a value.
func (s *Stream) fill(dst *region, value []byte) error {
	return s.operate("fill", dst, writes, func(q *queue) (bool, error) {
		unit, err := q.checkFill(dst, value)
		if err != nil || dst.bytes == 0 {
			return false, err
		}
		return q.set(dst, value, unit)
	})
}

// checkFill refuses what cannot be filled, and finds the unit to fill by.
func (q *queue) checkFill(dst *region, value []byte) (unit int, err error) {
	unit, ok := fillUnit(value)
	switch {
	case dst.a == nil:
		return 0, refuse("%v is Go's own: fill it with a loop or clear", dst)
	case dst.a.readOnly:
		return 0, refuse("%v is registered read-only", dst)
	case dst.bytes == 0:
		return 1, nil
	case dst.dev == 0:
		return 0, dst.unmapped()
	case !ok:
		return 0, refuse("a value of %d bytes (%#x) is no repetition of 1, 2 or 4 bytes: launch a kernel, or copy", len(value), value)
	}
	return unit, dst.reach(q.g)
}

// unmapped is the refusal of host memory that kernels cannot address.
func (r *region) unmapped() error {
	return refuse("%v has no address on the device: make it with Mapped", r.String())
}

// set queues the fill, in parts where registrations border on each other.
func (q *queue) set(dst *region, value []byte, unit int) (queued bool, err error) {
	p, err := dst.fillAddress(q.g, unit)
	if err != nil {
		return false, err
	}
	for c := range fills(dst, p, value, unit) {
		c.Stream = q.handle
		if err := c.Do(q.g.driver, q.g.ctx); err != nil {
			return queued, err
		}
		queued = true
	}
	return queued, nil
}

// fillAddress is where a GPU fills the region by units.
func (r *region) fillAddress(g *GPU, unit int) (cu.DevicePtr, error) {
	p, err := r.addressOn(g)
	if err == nil && uint64(p)%uint64(unit) != 0 {
		err = refuse("the address %#x is no multiple of %d bytes, which the driver fills at once", uint64(p), unit)
	}
	return p, err
}

// fills are the calls that fill a region at p, cut where registrations border on
// each other.
func fills(dst *region, p cu.DevicePtr, value []byte, unit int) iter.Seq[cu.Call] {
	return func(yield func(cu.Call) bool) {
		for off := uintptr(0); off < dst.bytes; {
			n, u, in := dst.unbroken(off), uintptr(unit), off%uintptr(unit)
			if in != 0 || n < u { // an edge within a unit
				n, u = 1, 1
			}
			if !yield(memset(p+cu.DevicePtr(off), value[in:], int(u), n/u)) {
				return
			}
			off += n / u * u
		}
	}
}

// memset is the call that fills n units with the first bytes of a value.
func memset(p cu.DevicePtr, value []byte, unit int, n uintptr) cu.Call {
	c := cu.Call{Op: cu.OpMemsetD8Async, Dst: p, Value: uint32(value[0]), Bytes: n}
	switch unit {
	case 2:
		c.Op, c.Value = cu.OpMemsetD16Async, uint32(binary.NativeEndian.Uint16(value))
	case 4:
		c.Op, c.Value = cu.OpMemsetD32Async, binary.NativeEndian.Uint32(value)
	}
	return c
}

// fillUnit is the shortest of 1, 2 and 4 bytes that the bytes of a value repeat;
// false if they repeat none of them.
func fillUnit(value []byte) (int, bool) {
	for _, unit := range []int{1, 2, 4} {
		if len(value)%unit == 0 && repeats(value, unit) {
			return unit, true
		}
	}
	return 0, false
}

// repeats says whether value is its first unit bytes over and over.
func repeats(value []byte, unit int) bool {
	for i := unit; i < len(value); i++ {
		if value[i] != value[i-unit] {
			return false
		}
	}
	return true
}
