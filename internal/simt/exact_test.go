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
		if mode == roundDown && x == -y && math.Signbit(float64(x)) != math.Signbit(float64(y)) {
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
