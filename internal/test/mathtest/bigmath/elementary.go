package bigmath

import (
	"math/big"
)

// Exp returns e^x.
func Exp(x *big.Float) *big.Float {
	k := nearest(Quo(x, ln2()))
	r := Shift(Sub(x, Mul(Num(float64(k)), ln2())), -8)
	sum := series(one, func(t *big.Float, n int) { t.Mul(t, r); over(t, n) })
	for range 8 {
		sum.Mul(sum, sum)
	}
	return Shift(sum, k)
}

// Expm1 returns e^x - 1.
func Expm1(x *big.Float) *big.Float {
	if x.Sign() == 0 || x.MantExp(nil) > -3 {
		return Sub(Exp(x), one)
	}
	return series(x, func(t *big.Float, n int) { t.Mul(t, x); over(t, n+1) })
}

// Exp2 returns 2^x.
func Exp2(x *big.Float) *big.Float { return Exp(Mul(x, ln2())) }

// Exp10 returns 10^x.
func Exp10(x *big.Float) *big.Float { return Exp(Mul(x, Log(Num(10)))) }

// atanhSeries returns atanh(q) for small q.
func atanhSeries(q *big.Float) *big.Float {
	if q.Sign() == 0 {
		return fresh()
	}
	square, power := Mul(q, q), fresh().Set(q)
	return series(q, func(t *big.Float, n int) {
		power.Mul(power, square)
		t.Quo(power, Num(float64(2*n+1)))
	})
}

// Log returns the natural logarithm of x.
func Log(x *big.Float) *big.Float {
	m := fresh()
	e := x.MantExp(m)
	if m.Cmp(Num(0.7)) < 0 {
		m, e = Shift(m, 1), e-1
	}
	// Two square roots make the series short.
	m = Sqrt(Sqrt(m))
	l := Shift(atanhSeries(Quo(Sub(m, one), Add(m, one))), 3)
	return Add(l, Mul(Num(float64(e)), ln2()))
}

// Log1p returns log(1+x).
func Log1p(x *big.Float) *big.Float {
	if x.Sign() == 0 || x.MantExp(nil) > -4 {
		return Log(Add(one, x))
	}
	return Shift(atanhSeries(Quo(x, Add(two, x))), 1)
}

// Log2 returns the logarithm of x to base 2.
func Log2(x *big.Float) *big.Float { return Quo(Log(x), ln2()) }

// Log10 returns the logarithm of x to base 10.
func Log10(x *big.Float) *big.Float { return Quo(Log(x), Log(Num(10))) }

// Pow returns x^y for x > 0, for results between 2^-1200 and 2^1200; nil for others.
func Pow(x, y *big.Float) *big.Float {
	p := Mul(y, Log(x))
	if p.MantExp(nil) > 11 {
		return nil
	}
	return Exp(p)
}

// Cbrt returns the cube root of x.
func Cbrt(x *big.Float) *big.Float {
	if x.Sign() <= 0 {
		if x.Sign() == 0 {
			return fresh()
		}
		return Neg(Cbrt(Neg(x)))
	}
	return Exp(Quo(Log(x), Num(3)))
}

// Sinh returns the hyperbolic sine of x.
func Sinh(x *big.Float) *big.Float {
	if x.Sign() < 0 {
		return Neg(Sinh(Neg(x)))
	}
	e := Expm1(x)
	return Shift(Add(e, Quo(e, Add(e, one))), -1)
}

// Cosh returns the hyperbolic cosine of x.
func Cosh(x *big.Float) *big.Float {
	e := Exp(x)
	return Shift(Add(e, Quo(one, e)), -1)
}

// Tanh returns the hyperbolic tangent of x.
func Tanh(x *big.Float) *big.Float {
	e := Expm1(Shift(x, 1))
	return Quo(e, Add(e, two))
}

// Asinh returns the inverse hyperbolic sine of x.
func Asinh(x *big.Float) *big.Float {
	if x.Sign() < 0 {
		return Neg(Asinh(Neg(x)))
	}
	square := Mul(x, x)
	return Log1p(Add(x, Quo(square, Add(one, Sqrt(Add(one, square))))))
}

// Acosh returns the inverse hyperbolic cosine of x >= 1.
func Acosh(x *big.Float) *big.Float {
	t := Sub(x, one)
	return Log1p(Add(t, Sqrt(Mul(t, Add(t, two)))))
}

// Atanh returns the inverse hyperbolic tangent of x, |x| < 1.
func Atanh(x *big.Float) *big.Float {
	return Shift(Log1p(Quo(Shift(x, 1), Sub(one, x))), -1)
}

// Hypot returns the length of a vector.
func Hypot(v ...*big.Float) *big.Float {
	sum := fresh()
	for _, x := range v {
		sum.Add(sum, Mul(x, x))
	}
	return Sqrt(sum)
}
