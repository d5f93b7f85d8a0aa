package softfloat

import (
	"math"

	"github.com/ferrygpu/ferry/softgpu/internal/sfu"
)

// The f32 by which instructions without .ftz scale operands that the special function unit
// would read, or return, as zero.
const (
	two24   = (127 + 24) << 23
	two12   = (127 + 12) << 23
	half12  = (127 - 12) << 23
	quarter = (127 - 2) << 23
	two126  = (127 + 126) << 23
)

// Approx32 returns the function that computes an approximation of an f32: rcp, sqrt,
// rsqrt, sin, cos, lg2, ex2 or tanh, as op says. It is the sequence of instructions that
// ptxas writes around one of the special function unit.
func Approx32(op string, ftz bool) func(a uint32) uint32 {
	unit := sfu.Function(op)
	switch {
	case op == "sin" || op == "cos":
		return func(a uint32) uint32 { return unit(Turns(a, ftz)) }
	case ftz || op == "tanh":
		return unit
	case op == "rcp":
		return func(a uint32) uint32 { return reciprocal(unit, a) }
	case op == "ex2":
		return func(a uint32) uint32 { return exponential(unit, a) }
	case op == "lg2":
		return func(a uint32) uint32 { return logarithm(unit, a) }
	case op == "rsqrt":
		return func(a uint32) uint32 { return scaled(unit, a, two12) }
	}
	return func(a uint32) uint32 { return scaled(unit, a, half12) }
}

// scaled computes a root f of a. A denormal is scaled by two24, and the result by back.
func scaled(f func(uint32) uint32, a, back uint32) uint32 {
	if !denormal32(a) {
		return f(a)
	}
	return product32(f(product32(a, two24)), back)
}

func reciprocal(rcp func(uint32) uint32, a uint32) uint32 {
	scale := uint32(quarter)
	switch m := a &^ (1 << 31); {
	case denormal32(a):
		scale = two24
	case m <= two126 || m >= 0x7f800000:
		return rcp(a)
	}
	return product32(rcp(product32(a, scale)), scale)
}

func exponential(ex2 func(uint32) uint32, a uint32) uint32 {
	x := math.Float32frombits(a)
	if !(x < -126) {
		return ex2(a)
	}
	root := ex2(math.Float32bits(x / 2))
	return product32(root, root)
}

func logarithm(lg2 func(uint32) uint32, a uint32) uint32 {
	if !denormal32(a) {
		return lg2(a)
	}
	return uint32(Canonical32(math.Float32frombits(lg2(product32(a, two24))) - 24))
}

// denormal32 reports whether a is a denormal or zero.
func denormal32(a uint32) bool { return a&0x7f800000 == 0 }

// product32 returns a*b, rounded to nearest.
func product32(a, b uint32) uint32 {
	return uint32(Canonical32(math.Float32frombits(a) * math.Float32frombits(b)))
}

// Turns converts an angle to turns, which the special function unit reads. The product is
// cut to an f32, which leaves few bits of the fraction of a large angle, or none.
func Turns(a uint32, ftz bool) uint32 {
	const inverse = 0x3e22f983 // 1/(2*pi) as f32
	p := F32.Decode(uint64(a), ftz) * float64(math.Float32frombits(inverse))
	return uint32(F32.Encode(p, TowardZero))
}

// DivApprox32 returns the function that computes div.approx or div.full, as kind says, of
// f32. It is the product of what [DivFactors32] returns.
func DivApprox32(kind string, ftz bool) func(a, b uint32) uint32 {
	factors := DivFactors32(kind, ftz)
	return func(a, b uint32) uint32 {
		x, y := factors(a, b)
		if !ftz {
			return product32(x, y)
		}
		return Flush32(product32(x, y))
	}
}

// DivFactors32 returns the function that computes the factors whose product is div.approx
// or div.full, as kind says, of f32: a, and the reciprocal of b. A denormal b is scaled,
// together with a. div.full scales a large b, too: div.approx returns zero there.
func DivFactors32(kind string, ftz bool) func(a, b uint32) (x, y uint32) {
	rcp := sfu.Function("rcp")
	return func(a, b uint32) (x, y uint32) {
		if ftz {
			a, b = Flush32(a), Flush32(b)
		}
		switch {
		case denormal32(b):
			a, b = product32(a, two24), product32(b, two24)
		case kind == "full" && b&^(1<<31) > two126:
			a, b = product32(a, quarter), product32(b, quarter)
		}
		if ftz {
			a = Flush32(a)
		}
		return a, rcp(b)
	}
}

// ApproxHalf returns the function that computes ex2 or tanh, as op says, of an f16 or bf16.
// It is that of f32, cut to the format.
func ApproxHalf(op string, f *Format, ftz bool) func(a uint64) uint64 {
	unit := sfu.Function(op)
	return func(a uint64) uint64 {
		r := float64(math.Float32frombits(unit(math.Float32bits(float32(f.Decode(a, ftz))))))
		if r >= math.Ldexp(1, f.bias+1) {
			r = math.Inf(1)
		}
		v := f.Encode(r, TowardZero)
		if ftz && math.Abs(r) < math.Ldexp(1, f.MinExponent()) {
			v &= 1 << (f.size - 1)
		}
		return v
	}
}
