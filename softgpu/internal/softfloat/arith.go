package softfloat

import (
	"math"
	"math/big"
)

// odd rounds s+e to odd. s is the sum rounded to nearest, e the rest. Two float64 lie
// around the exact sum. odd returns the one whose last bit is set. Such a number can be
// rounded again, to fewer bits, as if it were exact.
func odd(s, e float64) float64 {
	u := math.Float64bits(s)
	if u&1 != 0 || !(e > 0 || e < 0) {
		return s
	}
	if s == 0 {
		return math.Copysign(math.SmallestNonzeroFloat64, e)
	}
	if e > 0 == (s > 0) {
		return math.Float64frombits(u + 1)
	}
	return math.Float64frombits(u - 1)
}

// addOdd returns x+y rounded to odd.
func addOdd(x, y float64) float64 {
	s := x + y
	b := s - x
	return odd(s, float64(x-float64(s-b))+float64(y-b))
}

// FMA32 returns x*y+z with one rounding, to nearest.
func FMA32(x, y, z float32) float32 {
	p := float64(x) * float64(y) // exact
	s := p + float64(z)
	u := math.Float64bits(s)
	// Rounding s again is wrong only if s lies half-way between two float32, or
	// among the denormals, where half-way is elsewhere.
	if u&0x1fffffff != 0x10000000 && u&0x7ff0000000000000 > (1023-126)<<52 {
		return float32(s)
	}
	return float32(addOdd(p, float64(z)))
}

// Arith computes add, sub, mul, fma, div or sqrt, as op says, for a format narrower
// than f64. The operands are exact. The result is rounded to odd, so that
// [Format.Encode] can round it to the format. down says that Encode will round down. An
// exact zero difference is then negative.
func Arith(op string, x, y, z float64, down bool) float64 {
	var r float64
	switch op {
	case "add":
		r = addOdd(x, y)
		if r == 0 && down && math.Signbit(x) != math.Signbit(y) {
			r = math.Copysign(0, -1)
		}
	case "sub":
		return Arith("add", x, -y, 0, down)
	case "mul":
		r = x * y
	case "fma":
		p := x * y
		r = addOdd(p, z)
		if r == 0 && down && math.Signbit(p) != math.Signbit(z) {
			r = math.Copysign(0, -1)
		}
	case "div":
		r = x / y
		if rest := math.FMA(-r, y, x); rest != 0 {
			r = odd(r, math.Copysign(rest, rest*sign(y)))
		}
	case "sqrt":
		r = math.Sqrt(x)
		r = odd(r, math.FMA(-r, r, x))
	}
	return r
}

func sign(x float64) float64 { return math.Copysign(1, x) }

// Arith64 computes add, sub, mul, fma, div or sqrt, as op says, for f64.
func Arith64(op string, x, y, z float64, mode Rounding) float64 {
	var r float64
	switch op {
	case "add":
		r = x + y
	case "sub":
		r = x - y
	case "mul":
		r = x * y
	case "fma":
		r = math.FMA(x, y, z)
	case "div":
		r = x / y
	case "sqrt":
		r = math.Sqrt(x)
	}
	if r != r {
		if op == "div" {
			x, y = y, x // the NaN of the first operand wins
		}
		return Propagate(x, y, z)
	}
	if mode == NearestEven || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsInf(z, 0) || op == "div" && y == 0 {
		return r
	}
	return directed(op, x, y, z, mode)
}

// Propagate returns the NaN that an operation on f64 returns: the NaN of the second
// operand, else of the third, else of the first, else [NaN64].
func Propagate(x, y, z float64) float64 {
	for _, v := range [...]float64{y, z, x} {
		if v != v {
			return math.Float64frombits(math.Float64bits(v) | 1<<51)
		}
	}
	return math.Float64frombits(NaN64)
}

// directed computes an operation on finite f64 with exact arithmetic, and rounds it
// towards zero, up or down.
func directed(op string, x, y, z float64, mode Rounding) float64 {
	const exact = 5000 // bits: more than any sum or product of two f64 and a third
	a, b, c := new(big.Float).SetPrec(exact).SetFloat64(x), new(big.Float).SetFloat64(y), new(big.Float).SetFloat64(z)
	r := new(big.Float).SetPrec(exact)
	zero := 0.0 // the result if the operands cancel
	if mode == Down {
		zero = math.Copysign(0, -1)
	}
	below := 0 // sign of what is lost before the last rounding
	switch op {
	case "add", "sub":
		if op == "sub" {
			y = -y
			b.Neg(b)
		}
		if x == 0 && y == 0 {
			if math.Signbit(x) == math.Signbit(y) {
				return x
			}
			return zero
		}
		r.Add(a, b)
	case "mul":
		if x == 0 || y == 0 {
			return x * y
		}
		r.Mul(a, b)
	case "fma":
		p := x * y
		if (x == 0 || y == 0) && z == 0 {
			if math.Signbit(p) == math.Signbit(z) {
				return p
			}
			return zero
		}
		r.Mul(a, b)
		r.Add(r, c)
	case "div":
		if x == 0 {
			return x / y
		}
		r.SetPrec(2200).SetMode(big.ToZero).Quo(a, b)
		below = int(-r.Acc())
	case "sqrt":
		if x == 0 {
			return x
		}
		r.SetPrec(2200).SetMode(big.ToZero).Sqrt(a)
		if new(big.Float).SetPrec(exact).Mul(r, r).Cmp(a) < 0 {
			below = 1
		}
	}
	if r.Sign() == 0 {
		return zero
	}
	return roundExact(r, below, mode)
}

// roundExact rounds a number towards zero, up or down. below is the sign of what r has
// lost already.
func roundExact(r *big.Float, below int, mode Rounding) float64 {
	f, acc := r.Float64() // to nearest
	side := int(-acc)     // sign of exact - f
	if side == 0 {
		side = below
	}
	switch {
	case mode == Up && side > 0, mode == TowardZero && side > 0 && r.Sign() < 0:
		return math.Nextafter(f, math.Inf(1))
	case mode == Down && side < 0, mode == TowardZero && side < 0 && r.Sign() > 0:
		return math.Nextafter(f, math.Inf(-1))
	}
	return f
}
