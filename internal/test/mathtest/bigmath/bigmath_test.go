package bigmath

import (
	"math"
	"math/big"
	"testing"
)

// TestAgainstMath compares each function with package math, within its few ulp.
func TestAgainstMath(t *testing.T) {
	for _, c := range []struct {
		name string
		big  func(*big.Float) *big.Float
		f    func(float64) float64
		args []float64
	}{
		{"exp", Exp, math.Exp, []float64{-700, -1, 1e-9, 0.5, 3, 709}},
		{"expm1", Expm1, math.Expm1, []float64{-700, -1, 1e-9, 0.5, 3, 709}},
		{"log", Log, math.Log, []float64{1e-300, 0.5, 0.999999, 1.000001, 3, 1e300}},
		{"log1p", Log1p, math.Log1p, []float64{-0.9, 1e-20, 0.01, 3}},
		{"sin", Sin, math.Sin, []float64{1e-9, 1, 2, 3, 100, 1e300}},
		{"cos", Cos, math.Cos, []float64{1e-9, 1, 2, 3, 100, 1e300}},
		{"tan", Tan, math.Tan, []float64{1e-9, 1, 2, 3, 100, 1e6}},
		{"atan", Atan, math.Atan, []float64{1e-9, 1, -2, 3, 100, 1e300}},
		{"asin", Asin, math.Asin, []float64{1e-9, 1, -0.9, 0.3}},
		{"acos", Acos, math.Acos, []float64{1e-9, 1, -0.9, 0.3}},
		{"sinh", Sinh, math.Sinh, []float64{1e-9, 1, -2, 3, 100}},
		{"cosh", Cosh, math.Cosh, []float64{1e-9, 1, -2, 3, 100}},
		{"tanh", Tanh, math.Tanh, []float64{1e-9, 1, -2, 3}},
		{"asinh", Asinh, math.Asinh, []float64{1e-9, 1, -2, 3, 1e200}},
		{"acosh", Acosh, math.Acosh, []float64{1, 1.001, 2, 3, 1e200}},
		{"atanh", Atanh, math.Atanh, []float64{1e-9, 0.5, -0.999}},
		{"cbrt", Cbrt, math.Cbrt, []float64{1e-9, 0.5, -8, 1e300}},
		{"gamma", Gamma, math.Gamma, []float64{1e-9, 0.5, 2, 5, 100.5, -1.5}},
		{"lgamma", Lgamma, func(x float64) float64 { y, _ := math.Lgamma(x); return y }, []float64{1e-9, 0.5, 2.5, 5, 1e10, -1.5}},
		{"erf", Erf, math.Erf, []float64{1e-9, 0.5, -2, 3, 4}},
		{"erfc", Erfc, math.Erfc, []float64{1e-9, 0.5, -2, 2.9, 3.1, 20}},
	} {
		for _, x := range c.args {
			got, want := Float(c.big(Num(x))), c.f(x)
			if math.Abs(got-want) > 4e-15*math.Abs(want) {
				t.Errorf("%s(%v) = %v, want about %v", c.name, x, got, want)
			}
		}
	}
}

// TestIdentities compares two ways to the same number, to 110 bits.
func TestIdentities(t *testing.T) {
	near := func(name string, a, b *big.Float) {
		t.Helper()
		d := Sub(a, b)
		if d.Sign() != 0 && d.MantExp(nil) > b.MantExp(nil)-110 {
			t.Errorf("%s: %.40g and %.40g", name, a, b)
		}
	}
	for _, v := range []float64{0.1, 0.9999999, 1.0000001, 2.9, 7.3} {
		x := Num(v)
		near("exp(log)", Exp(Log(x)), x)
		near("log1p", Log1p(Sub(x, one)), Log(x))
		near("gamma(x+1)", Gamma(Add(x, one)), Mul(x, Gamma(x)))
		near("exp(lgamma)", Exp(Lgamma(x)), Gamma(x))
		near("tan(atan)", Tan(Atan(x)), x)
		s, c := SinCos(x)
		near("sin^2+cos^2", Add(Mul(s, s), Mul(c, c)), one)
		near("tanh", Tanh(x), Quo(Sinh(x), Cosh(x)))
	}
	x := Num(3) // the continued fraction against the series
	series := Shift(x, 0)
	square := Shift(Mul(x, x), 1)
	sum, term := fresh().Set(series), fresh().Set(series)
	for k := 1; k < 400; k++ {
		term.Mul(term, square)
		over(term, 2*k+1)
		sum.Add(sum, term)
	}
	erf := Quo(Shift(Mul(sum, Exp(Neg(Mul(x, x)))), 1), sqrtPi())
	near("erfcx", Erfcx(x), Mul(Sub(one, erf), Exp(Mul(x, x))))
	near("pi", Pi(), Mul(Num(4), Atan(one)))
	near("erfinv", ErfInvNear(Erf(half), Num(0.49999999999999)), half)
}
