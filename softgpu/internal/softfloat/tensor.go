package softfloat

import (
	"math"
	"math/bits"
)

// tensorBits is how many bits below the highest exponent a sum keeps.
const tensorBits = 25

// TensorSum adds as tensor cores do. All terms are shifted to the highest exponent,
// which for a product is the sum of the exponents of its factors. Bits that fall off
// are lost. A sum has at most 33 terms; the zero value is an empty sum.
type TensorSum struct {
	terms [33]float64
	exps  [33]int
	n     int
	nan   bool
	inf   float64
}

// Add adds a term with its exponent.
func (t *TensorSum) Add(x float64, exp int) {
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

// Result returns the sum. For the format f32 it is cut to the bits that f32 has.
func (t *TensorSum) Result(f *Format) float64 {
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

// cutTo returns sum * 2^exp, cut to the bits of f32 if f is f32.
func cutTo(sum int64, exp int, f *Format) float64 {
	m := uint64(max(sum, -sum))
	if over := max(bits.Len64(m)-24, -149-exp); over > 0 && f == &F32 {
		m = m >> over << over
	}
	x := math.Ldexp(float64(m), exp)
	if sum < 0 {
		x = -x
	}
	return x
}

// Exponent returns the exponent of x, -1023 for zero.
func Exponent(x float64) int { return int(math.Float64bits(x)>>52&0x7ff) - 1023 }
