package softfloat

import "math"

// Rounding is a rounding direction.
type Rounding uint8

const (
	NearestEven Rounding = iota // to nearest, ties to even
	NearestAway                 // to nearest, ties away from zero
	TowardZero
	Down // towards minus infinity
	Up   // towards plus infinity
)

// The NaN that an operation returns when no operand is NaN.
const (
	NaN32 = 0x7fffffff
	NaN64 = 0xfff8000000000000
)

// Format is a binary floating-point format of at most 32 bits.
type Format struct {
	size   int    // bits in all
	mant   int    // bits of the fraction
	bias   int    // of the exponent
	nan    uint64 // what operations return
	max    uint64 // the largest finite number
	finite bool   // the format has no infinities: the largest exponent holds numbers
}

// The formats of PTX below f64.
var (
	F16  = Format{size: 16, mant: 10, bias: 15, nan: 0x7fff, max: 0x7bff}
	BF16 = Format{size: 16, mant: 7, bias: 127, nan: 0x7fff, max: 0x7f7f}
	TF32 = Format{size: 19, mant: 10, bias: 127, nan: NaN32 >> 13, max: 0x7f7fe000 >> 13}
	F32  = Format{size: 32, mant: 23, bias: 127, nan: NaN32, max: 0x7f7fffff}
	E4M3 = Format{size: 8, mant: 3, bias: 7, nan: 0x7f, max: 0x7e, finite: true}
	E5M2 = Format{size: 8, mant: 2, bias: 15, nan: 0x7f, max: 0x7b}
)

// NaN returns the NaN that operations of the format return.
func (f *Format) NaN() uint64 { return f.nan }

// Max returns the largest finite number of the format.
func (f *Format) Max() float64 { return f.Decode(f.max, false) }

// MinExponent returns the exponent of the smallest normal number.
func (f *Format) MinExponent() int { return 1 - f.bias }

// Decode returns the number that the bits v stand for, exactly. With ftz a denormal
// counts as zero.
func (f *Format) Decode(v uint64, ftz bool) float64 {
	if f == &F32 {
		u := uint32(v)
		if ftz {
			u = Flush32(u)
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

// Encode rounds x to the format. If x is not exact, it must be rounded to odd (see
// [Arith]), so that the rounding here is the only one.
func (f *Format) Encode(x float64, mode Rounding) uint64 {
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
		exp = 1 // a denormal of f64 is far below all numbers of the format
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
	if v > f.max {
		return f.overflow(mode, neg) | sign
	}
	return v | sign
}

// roundsUp reports whether a magnitude that loses its drop lowest bits is rounded up.
// lost is the value of those bits, odd the lowest bit that is kept.
func roundsUp(mode Rounding, neg, odd bool, lost uint64, drop int) bool {
	half := uint64(1) << (drop - 1)
	switch mode {
	case NearestEven:
		return lost > half || lost == half && odd
	case NearestAway:
		return lost >= half
	case Down:
		return neg && lost != 0
	case Up:
		return !neg && lost != 0
	}
	return false
}

// overflow returns the rounded value of a magnitude beyond the largest number.
func (f *Format) overflow(mode Rounding, neg bool) uint64 {
	if mode == TowardZero || mode == Down && !neg || mode == Up && neg {
		return f.max
	}
	if f.finite {
		return f.nan
	}
	return (uint64(1)<<(f.size-1-f.mant) - 1) << f.mant
}

// IsTiny reports whether x, rounded to the precision of the format with an unbounded
// exponent, is below the smallest normal number. Encode rounds some tiny numbers up
// to the smallest normal number; with .ftz the GPU flushes them all the same.
func (f *Format) IsTiny(x float64, mode Rounding) bool {
	least := math.Ldexp(1, 1-f.bias)
	return math.Abs(x) < least && f.Encode(4*x, mode)&(1<<(f.size-1)-1) < f.Encode(4*least, NearestEven)
}
