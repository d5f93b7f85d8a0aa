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
		return d.pure(lift1(unary64(op, m, d.has("approx"))), nil, t)
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
	return finish32(uint32(encode(&formatF32, r, m.round)), m)
}

// unary64 is a function of one f64.
func unary64(op string, m floatMode, approx bool) func(uint64) uint64 {
	return func(a uint64) uint64 {
		x := f64from(a)
		if approx && m.ftz && a&0x7ff0000000000000 == 0 {
			x = math.Copysign(0, x)
		}
		var r float64
		switch op {
		case "rcp":
			r = arith64("div", 1, x, 0, m.round)
		case "sqrt":
			r = arith64("sqrt", x, 0, 0, m.round)
		default:
			r = approximate(op, x)
		}
		if r != r {
			return f64bits(propagate(x, 0, 0))
		}
		if approx {
			return f64bits(r) &^ 0xffffffff // only the upper word is computed
		}
		return f64bits(r)
	}
}

// approx32 is an approximation, here to the nearest f32, which is within the
// bounds that the ISA gives for all of them.
func approx32(op string, a uint32, ftz bool) uint64 {
	if ftz {
		a = flush32(a)
	}
	r := result32(float32(approximate(op, float64(f32from(a)))))
	if ftz {
		r = uint64(flush32(uint32(r)))
	}
	return r
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
