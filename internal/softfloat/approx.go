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

// Approx64 computes rcp or rsqrt, as op says, of an f64. With ftz the GPU reads and
// computes the upper word only.
func Approx64(op string, a uint64, ftz bool) uint64 {
	const upper = 0xffffffff00000000
	if !ftz {
		r := Approximate(op, math.Float64frombits(a))
		if r != r {
			r = Propagate(math.Float64frombits(a), 0, 0)
		}
		return math.Float64bits(r)
	}
	a &= upper
	if a>>52&0x7ff == 0 {
		a &= 1 << 63
	}
	r := Approximate(op, math.Float64frombits(a))
	if r != r {
		return 0x7fffffff00000000
	}
	v := (math.Float64bits(r) + 1<<31) & upper
	if v>>52&0x7ff == 0 {
		v &= 1 << 63
	}
	return v
}

// Approx32 computes an approximation of an f32. It returns the nearest f32, which is
// within the bounds that the ISA gives for every approximation.
func Approx32(op string, a uint32, ftz bool) uint64 {
	if ftz {
		a = Flush32(a)
	}
	x := float64(math.Float32frombits(a))
	if op == "sin" || op == "cos" {
		x = 2 * math.Pi * turns(x)
	}
	r := Canonical32(float32(Approximate(op, x)))
	if ftz {
		r = uint64(Flush32(uint32(r)))
	}
	return r
}

// turns converts an angle to turns and drops the whole ones. As on the GPU the turns
// are an f32 first, which leaves few bits of a large angle, or none.
func turns(x float64) float64 {
	const inverse = 0x3e22f983 // 1/(2*pi) as f32
	p := x * float64(math.Float32frombits(inverse))
	t := F32.Decode(F32.Encode(p, TowardZero), false)
	return t - math.Trunc(t)
}

// Approximate computes rcp, sqrt, rsqrt, sin, cos, lg2, ex2 or tanh, as op says, to
// the precision of package math.
func Approximate(op string, x float64) float64 {
	switch op {
	case "rcp":
		return 1 / x
	case "sqrt":
		return math.Sqrt(x)
	case "rsqrt":
		if x == 0 {
			return math.Copysign(math.Inf(1), x)
		}
		return 1 / math.Sqrt(x)
	case "sin":
		return math.Sin(x)
	case "cos":
		return math.Cos(x)
	case "lg2":
		return math.Log2(x)
	case "ex2":
		return math.Exp2(x)
	}
	return math.Tanh(x)
}

// DivApprox32 computes div.approx or div.full, as kind says, of f32. The GPU computes
// div.approx as a*(1/b), where the reciprocal of a large b is zero.
func DivApprox32(a, b uint32, kind string, ftz bool) uint32 {
	if ftz {
		a, b = Flush32(a), Flush32(b)
	}
	x, y := math.Float32frombits(a), math.Float32frombits(b)
	const large = 1 << 126
	if kind == "approx" && (y > large || y < -large) && !math.IsInf(float64(y), 0) {
		if math.IsInf(float64(x), 0) || x != x {
			return NaN32
		}
		return (a ^ b) & 0x80000000
	}
	return math.Float32bits(x / y)
}
