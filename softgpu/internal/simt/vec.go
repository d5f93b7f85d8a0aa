package simt

import (
	"math"
	"math/bits"

	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// vec computes d from a, b and c for lanes 0 to n-1. Lanes may hold garbage, and vec
// must not fail on it.
type vec func(d, a, b, c *lanes, n int)

// compareFunc is a comparison. Bit i of the result belongs to lane i.
type compareFunc func(a, b *lanes, n int) uint32

// integer is the type of an integer operation. Sums, products and bitwise operations
// need no types: bits above the width of a type do not affect the bits within it.

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// unroll is how many lanes the loops for full warps handle in one step.
const unroll = 4

func vecMove(d, a, _, _ *lanes, n int) {
	if n == warpSize {
		*d = *a
		return
	}
	copy(d[:n], a[:n])
}

func vecAdd(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = a[i] + b[i]
			d[i+1] = a[i+1] + b[i+1]
			d[i+2] = a[i+2] + b[i+2]
			d[i+3] = a[i+3] + b[i+3]
		}
		return
	}
	for i := range d[:n] {
		d[i] = a[i] + b[i]
	}
}

func vecSub(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = a[i] - b[i]
			d[i+1] = a[i+1] - b[i+1]
			d[i+2] = a[i+2] - b[i+2]
			d[i+3] = a[i+3] - b[i+3]
		}
		return
	}
	for i := range d[:n] {
		d[i] = a[i] - b[i]
	}
}

func vecMul(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = a[i] * b[i]
			d[i+1] = a[i+1] * b[i+1]
			d[i+2] = a[i+2] * b[i+2]
			d[i+3] = a[i+3] * b[i+3]
		}
		return
	}
	for i := range d[:n] {
		d[i] = a[i] * b[i]
	}
}

func vecMad(d, a, b, c *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = a[i]*b[i] + c[i]
			d[i+1] = a[i+1]*b[i+1] + c[i+1]
			d[i+2] = a[i+2]*b[i+2] + c[i+2]
			d[i+3] = a[i+3]*b[i+3] + c[i+3]
		}
		return
	}
	for i := range d[:n] {
		d[i] = a[i]*b[i] + c[i]
	}
}

func vecNeg(d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = -a[i]
	}
}

func vecAnd(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = a[i] & b[i]
			d[i+1] = a[i+1] & b[i+1]
			d[i+2] = a[i+2] & b[i+2]
			d[i+3] = a[i+3] & b[i+3]
		}
		return
	}
	for i := range d[:n] {
		d[i] = a[i] & b[i]
	}
}

func vecOr(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = a[i] | b[i]
	}
}

func vecXor(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = a[i] ^ b[i]
	}
}

func vecNot(d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = ^a[i]
	}
}

// vecExtend converts between integer types. T is the type of the source or, if that
// is narrower, of the destination.
func vecExtend[T integer](d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(int64(T(a[i])))
	}
}

// vecMulWide multiplies numbers of type T whose product fits into 64 bits.
func vecMulWide[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(int64(T(a[i]))) * uint64(int64(T(b[i])))
	}
}

func vecMadWide[T integer](d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(int64(T(a[i])))*uint64(int64(T(b[i]))) + c[i]
	}
}

// vecMadHi returns the upper half of a product of 16-bit or 32-bit numbers, plus c.
func vecMadHi[T integer](d, a, b, c *lanes, n int) {
	width := widthOf[T]()
	for i := range d[:n] {
		d[i] = uint64(int64(T(a[i]))*int64(T(b[i]))>>width) + c[i]
	}
}

func vecMadHiU64(d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		hi, _ := bits.Mul64(a[i], b[i])
		d[i] = hi + c[i]
	}
}

func vecMadHiS64(d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		x, y := a[i], b[i]
		hi, _ := bits.Mul64(x, y)
		hi -= uint64(int64(x)>>63)&y + uint64(int64(y)>>63)&x
		d[i] = hi + c[i]
	}
}

func widthOf[T integer]() uint {
	var v T = 1
	n := uint(0)
	for v != 0 {
		v <<= 1
		n++
	}
	return n
}

// vecDiv divides like the hardware: a division by zero returns all ones.
func vecDiv[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		if y := T(b[i]); y != 0 {
			d[i] = uint64(T(a[i]) / y)
		} else {
			d[i] = ^uint64(0)
		}
	}
}

// vecRem returns the remainder. A division by zero returns all ones.
func vecRem[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		if y := T(b[i]); y != 0 {
			d[i] = uint64(T(a[i]) % y)
		} else {
			d[i] = ^uint64(0)
		}
	}
}

func vecMin[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(min(T(a[i]), T(b[i])))
	}
}

func vecMax[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(max(T(a[i]), T(b[i])))
	}
}

func vecAbs[T integer](d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		v := T(a[i])
		if v < 0 {
			v = -v
		}
		d[i] = uint64(v)
	}
}

func vecShl32(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(uint32(a[i]) << min(uint32(b[i]), 32))
	}
}

// vecShl16 shifts 16-bit numbers to the left. A shift of 16 or more leaves zero in
// the low 16 bits.
func vecShl16(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = a[i] << min(uint32(b[i]), 16)
	}
}

func vecShl64(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = a[i] << min(uint32(b[i]), 64)
	}
}

// vecShr shifts to the right. Beyond the width both Go and PTX return zero or the
// sign.
func vecShr[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(T(a[i]) >> uint32(b[i]))
	}
}

// lift1 makes a loop over lanes from a function of single values.
func lift1(f func(a uint64) uint64) vec {
	return func(d, a, _, _ *lanes, n int) {
		for i := range d[:n] {
			d[i] = f(a[i])
		}
	}
}

func lift2(f func(a, b uint64) uint64) vec {
	return func(d, a, b, _ *lanes, n int) {
		for i := range d[:n] {
			d[i] = f(a[i], b[i])
		}
	}
}

func lift3(f func(a, b, c uint64) uint64) vec {
	return func(d, a, b, c *lanes, n int) {
		for i := range d[:n] {
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

func vecHigh(d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(uint32(a[i]) >> 16)
	}
}

func vecAddF32(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = softfloat.Canonical32(f32from(uint32(a[i])) + f32from(uint32(b[i])))
			d[i+1] = softfloat.Canonical32(f32from(uint32(a[i+1])) + f32from(uint32(b[i+1])))
			d[i+2] = softfloat.Canonical32(f32from(uint32(a[i+2])) + f32from(uint32(b[i+2])))
			d[i+3] = softfloat.Canonical32(f32from(uint32(a[i+3])) + f32from(uint32(b[i+3])))
		}
		return
	}
	for i := range d[:n] {
		d[i] = softfloat.Canonical32(f32from(uint32(a[i])) + f32from(uint32(b[i])))
	}
}

func vecSubF32(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = softfloat.Canonical32(f32from(uint32(a[i])) - f32from(uint32(b[i])))
	}
}

func vecMulF32(d, a, b, _ *lanes, n int) {
	if n == warpSize {
		for i := 0; i < warpSize; i += unroll {
			d[i] = softfloat.Canonical32(f32from(uint32(a[i])) * f32from(uint32(b[i])))
			d[i+1] = softfloat.Canonical32(f32from(uint32(a[i+1])) * f32from(uint32(b[i+1])))
			d[i+2] = softfloat.Canonical32(f32from(uint32(a[i+2])) * f32from(uint32(b[i+2])))
			d[i+3] = softfloat.Canonical32(f32from(uint32(a[i+3])) * f32from(uint32(b[i+3])))
		}
		return
	}
	for i := range d[:n] {
		d[i] = softfloat.Canonical32(f32from(uint32(a[i])) * f32from(uint32(b[i])))
	}
}

func vecFmaF32(d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		d[i] = softfloat.Canonical32(softfloat.FMA32(f32from(uint32(a[i])), f32from(uint32(b[i])), f32from(uint32(c[i]))))
	}
}

func vecAddF64(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		x, y := f64from(a[i]), f64from(b[i])
		r := x + y
		if r != r {
			r = softfloat.Propagate(x, y, 0)
		}
		d[i] = f64bits(r)
	}
}

func vecMulF64(d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		x, y := f64from(a[i]), f64from(b[i])
		r := x * y
		if r != r {
			r = softfloat.Propagate(x, y, 0)
		}
		d[i] = f64bits(r)
	}
}

func vecFmaF64(d, a, b, c *lanes, n int) {
	for i := range d[:n] {
		x, y, z := f64from(a[i]), f64from(b[i]), f64from(c[i])
		r := math.FMA(x, y, z)
		if r != r {
			r = softfloat.Propagate(x, y, z)
		}
		d[i] = f64bits(r)
	}
}

func cmpEq[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) == T(b[i])) << i
	}
	return m
}

func cmpNe[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) != T(b[i])) << i
	}
	return m
}

func cmpLt[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) < T(b[i])) << i
	}
	return m
}

func cmpLe[T integer](a, b *lanes, n int) (m uint32) {
	for i := range a[:n] {
		m |= bit(T(a[i]) <= T(b[i])) << i
	}
	return m
}

func swap(f compareFunc) compareFunc { return func(a, b *lanes, n int) uint32 { return f(b, a, n) } }

// compareValues reports whether a comparison of floats holds. order has the bits of
// less, equal and greater; unordered is the result for NaN.
func compareValues[T float32 | float64](a, b T, order uint8, unordered bool) bool {
	switch {
	case a < b:
		return order&less != 0
	case a > b:
		return order&greater != 0
	case a == b:
		return order&equal != 0
	}
	return unordered
}

func compareF32(order uint8, unordered, ftz bool) compareFunc {
	if ftz {
		return func(a, b *lanes, n int) (m uint32) {
			for i := range a[:n] {
				x, y := f32from(softfloat.Flush32(uint32(a[i]))), f32from(softfloat.Flush32(uint32(b[i])))
				m |= bit(compareValues(x, y, order, unordered)) << i
			}
			return m
		}
	}
	switch {
	case order == less && !unordered:
		return func(a, b *lanes, n int) (m uint32) {
			for i := range a[:n] {
				m |= bit(f32from(uint32(a[i])) < f32from(uint32(b[i]))) << i
			}
			return m
		}
	case order == greater && !unordered:
		return func(a, b *lanes, n int) (m uint32) {
			for i := range a[:n] {
				m |= bit(f32from(uint32(a[i])) > f32from(uint32(b[i]))) << i
			}
			return m
		}
	}
	return func(a, b *lanes, n int) (m uint32) {
		for i := range a[:n] {
			m |= bit(compareValues(f32from(uint32(a[i])), f32from(uint32(b[i])), order, unordered)) << i
		}
		return m
	}
}

func compareF64(order uint8, unordered bool) compareFunc {
	return func(a, b *lanes, n int) (m uint32) {
		for i := range a[:n] {
			m |= bit(compareValues(math.Float64frombits(a[i]), math.Float64frombits(b[i]), order, unordered)) << i
		}
		return m
	}
}
