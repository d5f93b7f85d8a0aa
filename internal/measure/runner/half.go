package runner

import (
	"math"
	"math/big"
	"strconv"
)

// format16 is a 16-bit floating-point format: a sign, exp bits of exponent and mant bits of
// fraction.
type format16 struct{ exp, mant uint }

var (
	halfLayout  = format16{exp: 5, mant: 10} // IEEE binary16, f16
	brainLayout = format16{exp: 8, mant: 7}  // bfloat16, bf16
)

func (l format16) infinity() uint16 { return (1<<l.exp - 1) << l.mant }

// narrow rounds v to the format, to nearest, ties to even. A value that is too large
// becomes an infinity.
func (l format16) narrow(v float64) uint16 {
	bits := math.Float64bits(v)
	sign := uint16(bits>>63) << 15
	bits &^= 1 << 63
	if bits > 0x7ff<<52 {
		return sign | l.infinity() | 1<<(l.mant-1)
	}
	e := int(bits>>52) - 1023 + 1<<(l.exp-1) - 1 // exponent as the format stores it
	if e >= 1<<l.exp-1 {
		return sign | l.infinity()
	}
	fraction := bits&(1<<52-1) | 1<<52
	drop := 52 - l.mant
	if e < 1 { // subnormal or zero
		drop += uint(1 - e)
		e = 1
		if drop > 63 {
			return sign
		}
	}
	q := fraction >> drop
	rest, half := fraction&(1<<drop-1), uint64(1)<<(drop-1)
	if rest > half || rest == half && q&1 == 1 {
		q++
	}
	// The leading one of q, if it has one, adds 1 to the exponent. So does a carry out of
	// the fraction, which can produce infinity.
	return sign | uint16(uint64(e-1)<<l.mant+q)
}

// widen returns the exact value of h.
func (l format16) widen(h uint16) float64 {
	sign := 1.0
	if h>>15 != 0 {
		sign = -1
	}
	e := int(h >> l.mant & (1<<l.exp - 1))
	fraction := float64(h & (1<<l.mant - 1))
	bias := 1<<(l.exp-1) - 1
	switch {
	case e == 1<<l.exp-1 && fraction != 0:
		return math.NaN()
	case e == 1<<l.exp-1:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(fraction, 1-bias-int(l.mant))
	}
	return sign * math.Ldexp(1+math.Ldexp(fraction, -int(l.mant)), e-bias)
}

// parse reads a number and rounds it once. Rounding to float64 first is wrong if the
// result is the middle between two values of the format. Then parse compares the digits
// with the middle.
func (l format16) parse(s string) (uint16, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	h := l.narrow(v)
	if l.widen(h) != v && !math.IsNaN(v) {
		below, above := l.narrow(math.Nextafter(v, math.Inf(-1))), l.narrow(math.Nextafter(v, math.Inf(1)))
		if below != above {
			h = nearer(s, v, below, h, above)
		}
	}
	if h&^(1<<15) == l.infinity() && !math.IsInf(v, 0) {
		return 0, strconv.ErrRange
	}
	return h, nil
}

// nearer returns below if the number s is less than v, above if it is greater, else at.
func nearer(s string, v float64, below, at, above uint16) uint16 {
	exact, ok := new(big.Rat).SetString(s)
	if !ok {
		return at
	}
	switch exact.Cmp(new(big.Rat).SetFloat64(v)) {
	case -1:
		return below
	case 1:
		return above
	}
	return at
}
