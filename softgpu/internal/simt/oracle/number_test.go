package oracle

import (
	"math/big"
)

// number is the exact value of the bits of a floating-point format.
type number struct {
	nan, inf, neg bool
	x             *big.Float // the value with its sign if it is finite and not zero
}

// layout is a floating-point format as IEEE 754 defines it, or OCP for 8 bits.
type layout struct {
	exp, mant int
	nan       uint64 // what operations return
	noInf     bool
}

var layouts = map[string]layout{
	"f16": {5, 10, 0x7fff, false}, "bf16": {8, 7, 0x7fff, false}, "f32": {8, 23, 0x7fffffff, false}, "f64": {11, 52, 0xfff8000000000000, false},
	"tf32": {8, 10, 0x3ffff, false}, "e4m3": {4, 3, 0x7f, true}, "e5m2": {5, 2, 0x7f, false},
}

// precision is enough for any sum of products of f64.
const precision = 4400

func big0() *big.Float { return new(big.Float).SetPrec(precision) }

func (l layout) bias() int { return 1<<(l.exp-1) - 1 }

func (l layout) decode(v uint64, ftz bool) number {
	top := uint64(1)<<l.exp - 1
	frac, exp := v&(1<<l.mant-1), v>>l.mant&top
	n := number{neg: v>>(l.mant+l.exp)&1 != 0}
	switch {
	case l.noInf && exp == top && frac == 1<<l.mant-1:
		n.nan = true
		return n
	case !l.noInf && exp == top:
		n.nan, n.inf = frac != 0, frac == 0
		return n
	case exp == 0 && (frac == 0 || ftz):
		return n
	case exp == 0:
		exp = 1
	default:
		frac |= 1 << l.mant
	}
	n.x = big0().SetMantExp(big0().SetUint64(frac), int(exp)-l.bias()-l.mant)
	if n.neg {
		n.x.Neg(n.x)
	}
	return n
}

// encode rounds n to the format once.
func (l layout) encode(n number, mode string) uint64 {
	sign := uint64(bit(n.neg)) << (l.mant + l.exp)
	inf := (uint64(1)<<l.exp - 1) << l.mant
	largest := inf - 1
	if l.noInf {
		inf, largest = l.nan, l.nan-1
	}
	switch {
	case n.nan:
		return l.nan
	case n.inf:
		return sign | inf
	case n.x == nil:
		return sign
	}
	e := n.x.MantExp(nil) - 1 // exponent of the leading bit
	e = max(e, 1-l.bias())
	scaled := big0().SetMantExp(n.x, l.mant-e)
	whole := roundWhole(scaled.Abs(scaled), mode, n.neg)
	v := whole + uint64(e+l.bias()-1)<<l.mant
	if v > largest {
		if mode == "rz" || mode == "rm" && !n.neg || mode == "rp" && n.neg {
			return sign | largest
		}
		return sign | inf
	}
	return sign | v
}

// roundWhole rounds a magnitude to an integer; neg is its sign.
func roundWhole(x *big.Float, mode string, neg bool) uint64 {
	whole, _ := x.Uint64() // truncated
	rest := big0().Sub(x, big0().SetUint64(whole))
	half := rest.Cmp(big.NewFloat(0.5))
	switch mode {
	case "rz":
	case "rm":
		whole += uint64(bit(neg && rest.Sign() != 0))
	case "rp":
		whole += uint64(bit(!neg && rest.Sign() != 0))
	case "rna":
		whole += uint64(bit(half >= 0))
	default:
		whole += uint64(bit(half > 0 || half == 0 && whole&1 != 0))
	}
	return whole
}

// exact returns a finite result; zero is the sign of an exact zero.
func exact(x *big.Float, zero bool) number {
	if x.Sign() == 0 {
		return number{neg: zero}
	}
	return number{x: x, neg: x.Sign() < 0}
}

func (n number) value() *big.Float {
	if n.x == nil {
		return big0()
	}
	return n.x
}

func (n number) zero() bool { return n.x == nil && !n.nan && !n.inf }

func add(a, b number, mode string) number {
	switch {
	case a.nan || b.nan || a.inf && b.inf && a.neg != b.neg:
		return number{nan: true}
	case a.inf:
		return a
	case b.inf:
		return b
	case a.zero() && b.zero() && a.neg == b.neg:
		return a
	}
	return exact(big0().Add(a.value(), b.value()), mode == "rm")
}

func mul(a, b number) number {
	neg := a.neg != b.neg
	switch {
	case a.nan || b.nan || a.inf && b.zero() || a.zero() && b.inf:
		return number{nan: true}
	case a.inf || b.inf:
		return number{inf: true, neg: neg}
	}
	return exact(big0().Mul(a.value(), b.value()), neg)
}

func div(a, b number) number {
	neg := a.neg != b.neg
	switch {
	case a.nan || b.nan || a.inf && b.inf || a.zero() && b.zero():
		return number{nan: true}
	case a.inf || b.zero():
		return number{inf: true, neg: neg}
	case b.inf || a.zero():
		return number{neg: neg}
	}
	// 300 bits are enough: a quotient of such numbers that lies on a rounding
	// boundary is exact.
	return exact(new(big.Float).SetPrec(300).Quo(a.x, b.x), neg)
}

func sqrt(a number) number {
	switch {
	case a.nan || a.neg && !a.zero():
		return number{nan: true}
	case a.inf || a.zero():
		return a
	}
	return exact(new(big.Float).SetPrec(300).Sqrt(a.x), false)
}

// tiny reports whether a number, rounded to the precision of the format with an
// unbounded exponent, is below the smallest normal number.
func (l layout) tiny(n number, mode string) bool {
	e := n.x.MantExp(nil) - 1
	scaled := big0().SetMantExp(n.x, l.mant-e)
	up := roundWhole(scaled.Abs(scaled), mode, n.neg)>>(l.mant+1) > 0 // rounded up to the next power of two
	return e+bit(up) < 1-l.bias()
}

// compare returns -1, 0 or 1; ordered is false if one of the two is NaN.
func compare(a, b number) (c int, ordered bool) {
	if a.nan || b.nan {
		return 0, false
	}
	key := func(n number) *big.Float {
		if n.inf {
			return big0().SetInf(n.neg)
		}
		return n.value()
	}
	return key(a).Cmp(key(b)), true
}
