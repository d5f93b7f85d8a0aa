package simt

import (
	"math"
	"math/bits"
)

// The arithmetic of matrix instructions, as an H200 does it. Integers are exact,
// f64 is rounded after each product, floats are summed by tensorSum, except that
// hardware has no unit for two of the shapes and composes them of other operations.

// multiplyIntegers wraps around, or clamps at the end with satfinite.
func multiplyIntegers(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := int64(int32(x.c[row][col]))
			for k := range op.k {
				sum += integerProduct(op, x.a[row][k], x.b[col][k])
			}
			if op.satfinite {
				x.d[row][col] = saturate32(sum)
			} else {
				x.d[row][col] = uint64(uint32(sum))
			}
		}
	}
}

func integerProduct(op *mmaOp, a, b uint64) int64 {
	switch op.logic {
	case "xor":
		return int64(a ^ b)
	case "and":
		return int64(a & b)
	}
	return widen(a, op.a) * widen(b, op.b)
}

// widen is an integer element's value.
func widen(v uint64, t elementType) int64 {
	if t.signed {
		return int64(v<<(64-t.bits)) >> (64 - t.bits)
	}
	return int64(v)
}

// multiplyDoubles adds one product after the other, each with one rounding.
func multiplyDoubles(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := f64from(x.c[row][col])
			for k := range op.k {
				sum = arith64("fma", f64from(x.a[row][k]), f64from(x.b[col][k]), sum, op.mode)
			}
			x.d[row][col] = f64bits(sum)
		}
	}
}

// multiplyFloats is a tensorSum for each element of the result.
func multiplyFloats(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := decodeFloat(op.c.float, x.c[row][col], false)
			for k := 0; k < op.k; k += op.step() {
				sum = op.tensorSum(&x.a[row], &x.b[col], k, 1, k+op.step(), sum)
			}
			x.d[row][col] = encode(op.d.float, sum, roundNearest)
		}
	}
}

// step is how many products are summed at once: all, but of wmma's tf32, which is two
// products of half the length.
func (op *mmaOp) step() int {
	if op.n == 16 && op.k == 8 {
		return 4
	}
	return op.k
}

// multiplyQuads is m8n8k4 of f16: products and sums of f32, the accumulator last.
func multiplyQuads(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			var sum float32
			for k := range op.k {
				p := float32(elementValue(x.a[row][k], op.a)) * float32(elementValue(x.b[col][k], op.b)) // exact
				if k == 0 {
					sum = p
				} else {
					sum += float32(p)
				}
			}
			sum += float32(decodeFloat(op.c.float, x.c[row][col], false))
			x.d[row][col] = encode(op.d.float, float64(sum), roundNearest)
		}
	}
}

// multiplyBytes is the product of 8-bit floats, of which hardware makes two of f16:
// the first of elements 0 and 1 of every four, the second of the others. The
// accumulator is added last.
func multiplyBytes(op *mmaOp, x *mmaValues) {
	for row := range op.m {
		for col := range op.n {
			sum := op.tensorSum(&x.a[row], &x.b[col], 0, 2, op.k, 0)
			sum = op.tensorSum(&x.a[row], &x.b[col], 2, 2, op.k, sum)
			d := float32(sum) + float32(decodeFloat(op.c.float, x.c[row][col], false))
			x.d[row][col] = encode(op.d.float, float64(d), roundNearest)
		}
	}
}

// tensorSum is acc and the products of a row and a column from first on: all of
// them, or with a step of 2 two of every four.
func (op *mmaOp) tensorSum(a, b *[256]uint64, first, step, end int, acc float64) float64 {
	var t tensorSum
	t.put(acc, exponentOf(acc))
	for k := first; k < end; k++ {
		if step == 2 && (k-first)&2 != 0 {
			continue
		}
		x, y := elementValue(a[k], op.a), elementValue(b[k], op.b)
		t.put(x*y, op.exponent(x, op.a)+op.exponent(y, op.b))
	}
	if op.c.bits == 32 {
		return t.result(op.c.float)
	}
	return t.result(op.d.float)
}

// elementValue is a matrix element; of tf32 the upper 19 bits count.
func elementValue(v uint64, t elementType) float64 {
	if t.name == "tf32" {
		v &^= 0x1fff
	}
	return decodeFloat(t.float, v, false)
}

func exponentOf(x float64) int { return int(math.Float64bits(x)>>52&0x7ff) - 1023 }

// exponent is that of an element, as it is stored: of denormals the lowest.
func (op *mmaOp) exponent(x float64, t elementType) int {
	return max(exponentOf(x), 1-t.float.bias)
}

// tensorBits is how many bits below the highest exponent a sum keeps.
const tensorBits = 25

// tensorSum adds as tensor cores do: all terms are shifted to the highest exponent,
// which for a product is the sum of its factors'; what falls off is lost, and the
// sum is cut to f32.
type tensorSum struct {
	terms [33]float64
	exps  [33]int
	n     int
	nan   bool
	inf   float64
}

func (t *tensorSum) put(x float64, exp int) {
	switch {
	case x != x || math.IsInf(x, 0) && t.inf == -x:
		t.nan = true
	case math.IsInf(x, 0):
		t.inf = x
	case x != 0:
		t.terms[t.n], t.exps[t.n] = x, exp
		t.n++
	}
}

func (t *tensorSum) result(f *format) float64 {
	switch {
	case t.nan:
		return math.NaN()
	case t.inf != 0:
		return t.inf
	case t.n == 0:
		return 0
	}
	top := t.exps[0]
	for _, e := range t.exps[1:t.n] {
		top = max(top, e)
	}
	var sum int64
	for _, x := range t.terms[:t.n] {
		sum += int64(math.Trunc(math.Ldexp(x, tensorBits-top)))
	}
	return cutTo(sum, top-tensorBits, f)
}

// cutTo is sum * 2^exp, cut to the bits that f32 has.
func cutTo(sum int64, exp int, f *format) float64 {
	m := uint64(max(sum, -sum))
	if over := max(bits.Len64(m)-24, -149-exp); over > 0 && f == &formatF32 {
		m = m >> over << over
	}
	x := math.Ldexp(float64(m), exp)
	if sum < 0 {
		x = -x
	}
	return x
}
