package simt

import (
	"math"
	"math/big"
)

// Exact arithmetic, to check against.

func exactly(x float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(x) }

// round32 is an exact number, rounded to f32 once. It must not be zero.
func round32(v *big.Float, mode rounding) float32 {
	f, acc := v.Float32()
	switch {
	case acc == big.Exact || mode == roundNearest:
		return f
	case mode == roundUp && acc == big.Below, mode == roundZero && acc == big.Below && v.Sign() < 0:
		return math.Nextafter32(f, float32(math.Inf(1)))
	case mode == roundDown && acc == big.Above, mode == roundZero && acc == big.Above && v.Sign() > 0:
		return math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}

func notFinite(v ...float32) bool {
	for _, x := range v {
		if x != x || math.IsInf(float64(x), 0) {
			return true
		}
	}
	return false
}

func exactAdd(x, y float32, mode rounding) float32 {
	if notFinite(x, y) || x == -y || x == 0 && y == 0 {
		if mode == roundDown && !notFinite(x) && x == -y && math.Signbit(float64(x)) != math.Signbit(float64(y)) {
			return float32(math.Copysign(0, -1))
		}
		return x + y
	}
	return round32(new(big.Float).SetPrec(2000).Add(exactly(float64(x)), exactly(float64(y))), mode)
}

func exactMul(x, y float32, mode rounding) float32 {
	if notFinite(x, y) || x == 0 || y == 0 {
		return x * y
	}
	return round32(new(big.Float).SetPrec(2000).Mul(exactly(float64(x)), exactly(float64(y))), mode)
}

func exactFMA(x, y, z float32) float32 { return exactFMAMode(x, y, z, roundNearest) }

func exactFMAMode(x, y, z float32, mode rounding) float32 {
	if notFinite(x, y, z) {
		return float32(float64(float64(x)*float64(y)) + float64(z))
	}
	v := new(big.Float).SetPrec(2000).Mul(exactly(float64(x)), exactly(float64(y)))
	v.Add(v, exactly(float64(z)))
	if v.Sign() == 0 {
		p := float64(x) * float64(y)
		if mode == roundDown && math.Signbit(p) != math.Signbit(float64(z)) {
			return float32(math.Copysign(0, -1))
		}
		return float32(float64(p) + float64(z))
	}
	return round32(v, mode)
}

// small is a narrow format, described apart from the code that is tested.
type small struct {
	size, mant, bias int
	ieee             bool // the largest exponent is for infinities and NaN
}

var smallFormats = map[string]small{
	"f16": {16, 10, 15, true}, "bf16": {16, 7, 127, true}, "e4m3": {8, 3, 7, false}, "e5m2": {8, 2, 15, true},
}

// value is the number of some bits, NaN for those that are none.
func (s small) value(v uint64) float64 {
	frac, exp := float64(v&(1<<s.mant-1)), int(v>>s.mant)&(1<<(s.size-1-s.mant)-1)
	x := math.Ldexp(frac, 1-s.bias-s.mant)
	if exp > 0 {
		x = math.Ldexp(frac+math.Ldexp(1, s.mant), exp-s.bias-s.mant)
	}
	if top := 1<<(s.size-1-s.mant) - 1; exp == top {
		switch {
		case s.ieee && frac == 0:
			x = math.Inf(1)
		case s.ieee || frac == math.Ldexp(1, s.mant)-1:
			x = math.NaN()
		}
	}
	if v>>(s.size-1)&1 != 0 {
		x = -x
	}
	return x
}

// nearest is the format's number next to an exact one, by looking at all of its
// numbers: ties to even, and beyond the largest as if one more followed.
func (s small) nearest(x *big.Float) uint64 {
	best, bestDiff := uint64(0), new(big.Float)
	limit := uint64(1) << (s.size - 1)
	for v := uint64(0); v < limit; v++ {
		y := s.value(v)
		if math.IsInf(y, 0) {
			y = math.Ldexp(1, 1<<(s.size-2-s.mant)) // where the next number would be
		}
		if y != y {
			continue
		}
		diff := new(big.Float).SetPrec(4000).Sub(new(big.Float).Abs(x), exactly(y))
		diff.Abs(diff)
		if c := diff.Cmp(bestDiff); v == 0 || c < 0 || c == 0 && v&1 == 0 {
			best, bestDiff = v, diff
		}
	}
	if x.Signbit() {
		best |= limit
	}
	return best
}
