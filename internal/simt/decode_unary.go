package simt

import (
	"math"

	"github.com/ferrygpu/ferry/ptx"
)

// decodeUnaryFloat is rcp, sqrt, rsqrt and the approximations of sin, cos, lg2,
// ex2 and tanh.
func decodeUnaryFloat(d *decoder) error {
	t := d.typ(0)
	m := d.floatMode()
	op := d.in.Op
	switch t {
	case ptx.F64:
		if d.has("approx") {
			return d.pure(lift1(approx64(op, m.ftz)), nil, t)
		}
		return d.pure(lift1(unary64(op, m)), nil, t)
	case ptx.F32:
		if d.has("approx") || op != "rcp" && op != "sqrt" {
			return d.pure(lift1(func(a uint64) uint64 { return approx32(op, uint32(a), m.ftz) }), nil, t)
		}
		return d.pure(lift1(func(a uint64) uint64 { return exact32(op, a, m) }), nil, t)
	case ptx.F16, ptx.F16x2, ptx.BF16, ptx.BF16x2:
		f := formatOf(t)
		if op != "ex2" && op != "tanh" {
			break
		}
		one := packed(t, func(a, _, _ uint64) uint64 {
			x := decodeFloat(f, a, m.ftz)
			return finishNarrow(f, approximate(op, x), floatMode{ftz: m.ftz})
		})
		return d.pure(lift1(func(a uint64) uint64 { return one(a, 0, 0) }), nil, t)
	}
	return d.badType()
}

// exact32 is rcp or sqrt, rounded once.
func exact32(op string, a uint64, m floatMode) uint64 {
	x := decodeFloat(&formatF32, a, m.ftz)
	if m.round == roundNearest {
		// f64 has more than twice the bits of f32: rounding twice does no harm here.
		if op == "sqrt" {
			return finish32(f32bits(float32(math.Sqrt(x))), m)
		}
		return finish32(f32bits(float32(1/x)), m)
	}
	r := 0.0
	if op == "sqrt" {
		r = arith("sqrt", x, 0, 0, false)
	} else {
		r = arith("div", 1, x, 0, false)
	}
	return finishNarrow(&formatF32, r, m)
}

// unary64 is rcp or sqrt of an f64.
func unary64(op string, m floatMode) func(uint64) uint64 {
	return func(a uint64) uint64 {
		x := f64from(a)
		var r float64
		if op == "rcp" {
			r = arith64("div", 1, x, 0, m.round)
		} else {
			r = arith64("sqrt", x, 0, 0, m.round)
		}
		if r != r {
			return f64bits(propagate(x, 0, 0))
		}
		return f64bits(r)
	}
}

// approx64 is rcp or rsqrt of an f64, of which with .ftz the upper word is looked at
// and computed.
func approx64(op string, ftz bool) func(uint64) uint64 {
	const upper = 0xffffffff00000000
	return func(a uint64) uint64 {
		if !ftz {
			r := approximate(op, f64from(a))
			if r != r {
				return f64bits(propagate(f64from(a), 0, 0))
			}
			return f64bits(r)
		}
		a &= upper
		if a>>52&0x7ff == 0 {
			a &= 1 << 63
		}
		r := approximate(op, f64from(a))
		if r != r {
			return 0x7fffffff00000000
		}
		v := (f64bits(r) + 1<<31) & upper
		if v>>52&0x7ff == 0 {
			v &= 1 << 63
		}
		return v
	}
}

// approx32 is an approximation, here to the nearest f32, which is within the
// bounds that the ISA gives for all of them.
func approx32(op string, a uint32, ftz bool) uint64 {
	if ftz {
		a = flush32(a)
	}
	x := float64(f32from(a))
	if op == "sin" || op == "cos" {
		x = 2 * math.Pi * turns(x)
	}
	r := result32(float32(approximate(op, x)))
	if ftz {
		r = uint64(flush32(uint32(r)))
	}
	return r
}

// turns is an angle in whole turns, less those that do not matter: as on hardware,
// an f32 of which large angles leave few bits, or none.
func turns(x float64) float64 {
	const inverse = 0x3e22f983 // 1/(2*pi) as f32
	p := x * float64(f32from(inverse))
	t := decodeFloat(&formatF32, encode(&formatF32, p, roundZero), false)
	return t - math.Trunc(t)
}

func approximate(op string, x float64) float64 {
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
