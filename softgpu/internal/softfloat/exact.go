package softfloat

import "math"

// Exact32 computes rcp or sqrt, as op says, of an f32 with one rounding.
func Exact32(op string, a uint64, m Mode) uint64 {
	x := F32.Decode(a, m.FTZ)
	if m.Round == NearestEven {
		// f64 has more than twice the bits of f32: rounding twice does no harm here.
		if op == "sqrt" {
			return Finish32(math.Float32bits(float32(math.Sqrt(x))), m)
		}
		return Finish32(math.Float32bits(float32(1/x)), m)
	}
	r := 0.0
	if op == "sqrt" {
		r = Arith("sqrt", x, 0, 0, false)
	} else {
		r = Arith("div", 1, x, 0, false)
	}
	return F32.Finish(r, m)
}

// Exact64 computes rcp or sqrt, as op says, of an f64 with one rounding.
func Exact64(op string, x float64, mode Rounding) float64 {
	var r float64
	if op == "rcp" {
		r = Arith64("div", 1, x, 0, mode)
	} else {
		r = Arith64("sqrt", x, 0, 0, mode)
	}
	if r != r {
		return Propagate(x, 0, 0)
	}
	return r
}
