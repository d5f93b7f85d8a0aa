package simt

import "math/bits"

// Integer arithmetic. Sums, products and bitwise operations need no types: the
// bits above the width of a type do not reach those within it.

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// unroll is how far the loops for full warps go at a time.
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

// vecExtend converts between integer types, T being the source's or, if that is
// narrower, the destination's.
func vecExtend[T integer](d, a, _, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(int64(T(a[i])))
	}
}

// vecMulWide multiplies numbers of type T whose product fits 64 bits.
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

// vecMadHi gives the upper half of a product of narrow numbers, plus c.
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

// vecDiv divides as hardware does: by zero gives all ones.
func vecDiv[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		if y := T(b[i]); y != 0 {
			d[i] = uint64(T(a[i]) / y)
		} else {
			d[i] = ^uint64(0)
		}
	}
}

// vecRem gives the remainder; by zero, all ones.
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

// vecShl shifts numbers of width bits to the left, at most by width.
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

// vecShr shifts to the right: Go, as PTX, gives zero or the sign beyond the width.
func vecShr[T integer](d, a, b, _ *lanes, n int) {
	for i := range d[:n] {
		d[i] = uint64(T(a[i]) >> uint32(b[i]))
	}
}

// lift1 makes a vector operation of one on single values.
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
