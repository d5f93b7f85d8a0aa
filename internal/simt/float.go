package simt

import (
	"math"
	"math/big"

	"github.com/ferrygpu/ferry/ptx"
)

// rounding is a direction.
type rounding uint8

const (
	roundNearest rounding = iota // ties to even
	roundAway                    // nearest, ties away from zero
	roundZero
	roundDown
	roundUp
)

const (
	nan32 = 0x7fffffff         // what operations on f32 give
	nan64 = 0xfff8000000000000 // and on f64, where no operand is one
)

func f32from(u uint32) float32 { return math.Float32frombits(u) }
func f32bits(f float32) uint32 { return math.Float32bits(f) }
func f64from(u uint64) float64 { return math.Float64frombits(u) }
func f64bits(f float64) uint64 { return math.Float64bits(f) }

// result32 is f's bits, with hardware's own NaN.
func result32(f float32) uint64 {
	if f != f {
		return nan32
	}
	return uint64(math.Float32bits(f))
}

// flush32 turns a denormal into a zero of its sign.
func flush32(u uint32) uint32 {
	if u&0x7f800000 == 0 {
		return u & 0x80000000
	}
	return u
}

// format is a binary floating point format.
type format struct {
	size    int // bits
	mant    int // bits of the fraction
	bias    int //
	nan     uint64
	finite  bool // no infinities: the largest exponent holds numbers
	maxBits uint64
	hasNaN  bool
}

var (
	formatF16  = format{size: 16, mant: 10, bias: 15, nan: 0x7fff, maxBits: 0x7bff, hasNaN: true}
	formatBF16 = format{size: 16, mant: 7, bias: 127, nan: 0x7fff, maxBits: 0x7f7f, hasNaN: true}
	formatF32  = format{size: 32, mant: 23, bias: 127, nan: nan32, maxBits: 0x7f7fffff, hasNaN: true}
	formatE4M3 = format{size: 8, mant: 3, bias: 7, nan: 0x7f, maxBits: 0x7e, finite: true, hasNaN: true}
	formatE5M2 = format{size: 8, mant: 2, bias: 15, nan: 0x7f, maxBits: 0x7b, hasNaN: true}
)

// formatOf is the format of a type narrower than f64, nil if it has none.
func formatOf(t ptx.Type) *format {
	switch t {
	case ptx.F16, ptx.F16x2:
		return &formatF16
	case ptx.BF16, ptx.BF16x2:
		return &formatBF16
	case ptx.F32:
		return &formatF32
	}
	return nil
}

// decodeFloat is the number that bits stand for, exactly.
func decodeFloat(f *format, v uint64, ftz bool) float64 {
	if f == &formatF32 {
		u := uint32(v)
		if ftz {
			u = flush32(u)
		}
		return float64(math.Float32frombits(u))
	}
	v &= 1<<f.size - 1
	frac := v & (1<<f.mant - 1)
	top := 1<<(f.size-1-f.mant) - 1
	exp := int(v>>f.mant) & top
	var x float64
	switch {
	case exp == top && !f.finite:
		x = math.Inf(1)
		if frac != 0 {
			x = math.NaN()
		}
	case f.finite && v&(1<<(f.size-1)-1) == f.nan:
		x = math.NaN()
	case exp == 0:
		if !ftz {
			x = math.Ldexp(float64(frac), 1-f.bias-f.mant)
		}
	default:
		x = math.Ldexp(float64(frac|1<<f.mant), exp-f.bias-f.mant)
	}
	if v>>(f.size-1)&1 != 0 {
		x = math.Copysign(x, -1)
	}
	return x
}

// encode rounds x to the format. If x is not exact its last bit must be one (see
// odd), so that rounding here is the only one.
func encode(f *format, x float64, mode rounding) uint64 {
	u := math.Float64bits(x)
	sign := u >> 63 << (f.size - 1)
	exp := int(u >> 52 & 0x7ff)
	frac := u & (1<<52 - 1)
	neg := u>>63 != 0
	top := uint64(1)<<(f.size-1-f.mant) - 1
	switch {
	case exp == 0x7ff && frac != 0:
		return f.nan
	case exp == 0x7ff:
		if f.finite {
			return f.nan | sign
		}
		return top<<f.mant | sign
	case exp == 0 && frac == 0:
		return sign
	case exp == 0:
		exp = 1 // a denormal of f64: far below any of the format's numbers
	default:
		frac |= 1 << 52
	}
	e := exp - 1023 + f.bias
	drop := 52 - f.mant
	if e < 1 {
		drop += 1 - e
		e = 1
	}
	if drop > 63 {
		drop = 63
	}
	kept, lost := frac>>drop, frac&(1<<drop-1)
	if roundsUp(mode, neg, kept&1 != 0, lost, drop) {
		kept++
	}
	// kept has the leading bit, unless the number is a denormal.
	v := kept + uint64(e-1)<<f.mant
	if v > f.maxBits {
		return overflow(f, mode, neg) | sign
	}
	return v | sign
}

// roundsUp is true if a magnitude that loses these bits is to grow.
func roundsUp(mode rounding, neg, odd bool, lost uint64, drop int) bool {
	half := uint64(1) << (drop - 1)
	switch mode {
	case roundNearest:
		return lost > half || lost == half && odd
	case roundAway:
		return lost >= half
	case roundDown:
		return neg && lost != 0
	case roundUp:
		return !neg && lost != 0
	}
	return false
}

// overflow is what a magnitude beyond the largest becomes.
func overflow(f *format, mode rounding, neg bool) uint64 {
	if mode == roundZero || mode == roundDown && !neg || mode == roundUp && neg {
		return f.maxBits
	}
	if f.finite {
		return f.nan
	}
	return (uint64(1)<<(f.size-1-f.mant) - 1) << f.mant
}

// odd rounds s+e to odd, where s is nearest and e the rest: of the two numbers
// around the exact one it takes the one whose last bit is set. A number so
// rounded can be rounded again, to fewer bits, as if it were exact.
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

// addOdd is x+y rounded to odd.
func addOdd(x, y float64) float64 {
	s := x + y
	b := s - x
	return odd(s, float64(x-float64(s-b))+float64(y-b))
}

// fma32 is x*y+z with one rounding.
func fma32(x, y, z float32) float32 {
	p := float64(x) * float64(y) // exact
	s := p + float64(z)
	u := math.Float64bits(s)
	// Rounding s again is wrong only if s lies half-way between two f32, or among
	// the denormals, where half-way is elsewhere.
	if u&0x1fffffff != 0x10000000 && u&0x7ff0000000000000 > (1023-126)<<52 {
		return float32(s)
	}
	return float32(addOdd(p, float64(z)))
}

// arith is an operation in a narrow format, on exact operands; the result is
// rounded to odd. down says that results are rounded towards minus infinity,
// where an exact zero difference is negative.
func arith(op string, x, y, z float64, down bool) float64 {
	var r float64
	switch op {
	case "add":
		r = addOdd(x, y)
		if r == 0 && down && math.Signbit(x) != math.Signbit(y) {
			r = math.Copysign(0, -1)
		}
	case "sub":
		return arith("add", x, -y, 0, down)
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

// arith64 is an operation on f64, rounded in the given direction.
func arith64(op string, x, y, z float64, mode rounding) float64 {
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
			x, y = y, x // the first operand's counts
		}
		return propagate(x, y, z)
	}
	if mode == roundNearest || math.IsInf(x, 0) || math.IsInf(y, 0) || math.IsInf(z, 0) || op == "div" && y == 0 {
		return r
	}
	return directed(op, x, y, z, mode)
}

// propagate is the NaN of an operation: that of the second operand, or of the third,
// or of the first.
func propagate(x, y, z float64) float64 {
	for _, v := range [...]float64{y, z, x} {
		if v != v {
			return math.Float64frombits(math.Float64bits(v) | 1<<51)
		}
	}
	return math.Float64frombits(nan64)
}

// directed is a finite operation on f64, through exact arithmetic.
func directed(op string, x, y, z float64, mode rounding) float64 {
	const exact = 5000 // bits: more than any sum or product of two f64 and a third
	a, b, c := new(big.Float).SetPrec(exact).SetFloat64(x), new(big.Float).SetFloat64(y), new(big.Float).SetFloat64(z)
	r := new(big.Float).SetPrec(exact)
	zero := 0.0 // an exact zero of operands that cancel
	if mode == roundDown {
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
	f, acc := r.Float64() // to nearest
	side := int(-acc)     // sign of exact - f
	if side == 0 {
		side = below
	}
	switch {
	case mode == roundUp && side > 0, mode == roundZero && side > 0 && r.Sign() < 0:
		return math.Nextafter(f, math.Inf(1))
	case mode == roundDown && side < 0, mode == roundZero && side < 0 && r.Sign() > 0:
		return math.Nextafter(f, math.Inf(-1))
	}
	return f
}
