package main

import (
	"math/big"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
)

// odd is the fit P with f(r) = r + r^3 P(r^2), for r up to the given bound.
func odd(f func(*big.Float) *big.Float) func(*big.Float) (value, weight *big.Float) {
	return func(z *big.Float) (value, weight *big.Float) {
		r := b.Sqrt(z)
		ratio := b.Quo(f(r), r)
		return b.Quo(b.Sub(ratio, b.Num(1)), z), b.Quo(z, ratio)
	}
}

// tiny begins intervals at which the formula of a function divides by zero.
const tiny = 1e-12

// fits has all polynomials. Their errors are relative to the result, unless doc says otherwise.
var fits = []fit{
	{"sin", tiny, 0.62, odd(b.Sin), 27, 58, "sin(r) = r + r^3 P(r^2), |r| <= pi/4"},
	{"cos", tiny, 0.62, func(z *big.Float) (value, weight *big.Float) {
		c := b.Cos(b.Sqrt(z))
		rest := b.Add(b.Sub(c, b.Num(1)), b.Shift(z, -1))
		square := b.Mul(z, z)
		return b.Quo(rest, square), b.Quo(square, c)
	}, 27, 58, "cos(r) = 1 - r^2/2 + r^4 P(r^2), |r| <= pi/4"},
	{"atan", tiny, 1, odd(b.Atan), 27, 57, "atan(r) = r + r^3 P(r^2), |r| <= 1"},
	{"asin", tiny, 0.25, odd(b.Asin), 27, 58, "asin(r) = r + r^3 P(r^2), |r| <= 1/2"},
	{"sinh", tiny, 1, odd(b.Sinh), 27, 58, "sinh(r) = r + r^3 P(r^2), |r| <= 1"},
	{"tanh", tiny, 0.3025, odd(b.Tanh), 27, 58, "tanh(r) = r + r^3 P(r^2), |r| <= 0.55"},
	{"asinh", tiny, 0.25, odd(b.Asinh), 27, 58, "asinh(r) = r + r^3 P(r^2), |r| <= 1/2"},
	{"exp", -0.35, 0.35, func(r *big.Float) (value, weight *big.Float) {
		e, square := b.Expm1(r), b.Mul(r, r)
		return b.Quo(b.Sub(e, r), square), b.Quo(square, e)
	}, 27, 58, "exp(r) = 1 + r + r^2 P(r), |r| <= 0.35"},
	{"log1", -0.2935, 0.4145, func(f *big.Float) (value, weight *big.Float) {
		l, square := b.Log1p(f), b.Mul(f, f)
		rest := b.Add(b.Sub(l, f), b.Shift(square, -1))
		cube := b.Mul(square, f)
		return b.Quo(rest, cube), b.Quo(cube, l)
	}, 27, 0, "log(1+f) = f - f^2/2 + f^3 P(f), sqrt(1/2) <= 1+f <= sqrt(2)"},
	{"log", tiny, 0.0296, func(z *big.Float) (value, weight *big.Float) {
		q := b.Sqrt(z)
		ratio := b.Quo(b.Shift(b.Atanh(q), 1), q)
		return b.Quo(b.Sub(ratio, b.Num(2)), z), b.Quo(z, ratio)
	}, 0, 58, "log((1+q)/(1-q)) = 2q + q^3 P(q^2), |q| <= 0.172"},
	{"log5", tiny, 0.0296, func(z *big.Float) (value, weight *big.Float) {
		q := b.Sqrt(z)
		ratio := b.Quo(b.Shift(b.Atanh(q), 1), q)
		rest := b.Sub(b.Sub(ratio, b.Num(2)), b.Quo(b.Shift(z, 1), b.Num(3)))
		square := b.Mul(z, z)
		return b.Quo(rest, square), b.Quo(square, ratio)
	}, 0, 70, "log((1+q)/(1-q)) = 2q + 2/3 q^3 + q^5 P(q^2), |q| <= 0.172"},
	{"erf", tiny, 1, func(z *big.Float) (value, weight *big.Float) {
		r := b.Sqrt(z)
		ratio := b.Quo(b.Erf(r), r)
		return b.Quo(b.Sub(ratio, twoOverSqrtPi()), z), b.Quo(z, ratio)
	}, 27, 58, "erf(r) = 2/sqrt(pi) r + r^3 P(r^2), |r| <= 1"},
	{"logerfc", 1, 4, func(x *big.Float) (value, weight *big.Float) {
		c := b.Erfc(x)
		return b.Log(c), c
	}, 26, 0, "erfc(x) = exp(P(x)), 1 <= x <= 4; the error is absolute"},
	{"erfcx", -0.8, 1, func(t *big.Float) (value, weight *big.Float) {
		x := b.Quo(b.Shift(b.Add(b.Num(1), t), 2), b.Sub(b.Num(1), t)) // t = (x-4)/(x+4)
		value = b.Mul(b.Erfcx(x), b.Add(b.Num(1), b.Shift(x, 1)))
		return value, b.Quo(b.Num(1), value)
	}, 0, 57, "exp(x^2) erfc(x) (1+2x) = P((x-4)/(x+4)), x >= 0.45"},
	{"lgamma", -0.5, 0.5, func(t *big.Float) (value, weight *big.Float) {
		if t.MantExp(nil) < -30 {
			t = b.Num(0x1p-30)
		}
		ratio := b.Quo(b.Lgamma(b.Add(b.Num(2), t)), t)
		return b.Quo(b.Sub(ratio, slopeAt2()), t), b.Quo(t, ratio)
	}, 0, 60, "log(gamma(2+t)) = (1-gamma) t + t^2 P(t), |t| <= 1/2, with Euler's gamma"},
	{"gamma", -0.5, 0.5, func(t *big.Float) (value, weight *big.Float) {
		value = b.Gamma(b.Add(b.Num(2), t))
		return value, b.Quo(b.Num(1), value)
	}, 0, 58, "gamma(2+t) = P(t), |t| <= 1/2"},
	{"stirling", tiny, 1.0 / 64, func(z *big.Float) (value, weight *big.Float) {
		u := b.Sqrt(z) // 1/x
		x := b.Quo(b.Num(1), u)
		main := b.Sub(b.Mul(b.Sub(x, b.Num(0.5)), b.Log(x)), x)
		main = b.Add(main, b.Shift(b.Log(b.Shift(b.Pi(), 1)), -1))
		return b.Quo(b.Sub(b.Lgamma(x), main), u), u
	}, 0, 60, "log(gamma(x)) = (x-1/2) log(x) - x + log(2 pi)/2 + P(1/x^2)/x, x >= 8; the error is absolute"},
	{"rcbrt", 1, 8, func(m *big.Float) (value, weight *big.Float) {
		value = b.Quo(b.Num(1), b.Cbrt(m))
		return value, b.Quo(b.Num(1), value)
	}, 10, 10, "1/cbrt(m) = P(m), 1 <= m <= 8, a first approximation"},
	{"erfinv", tiny, 0.5625, func(z *big.Float) (value, weight *big.Float) {
		x := b.Sqrt(z)
		value = b.Quo(inverseErfc(b.Sub(b.Num(1), x)), x)
		return value, b.Quo(b.Num(1), value)
	}, 0, 21, "erfinv(x) = x P(x^2), |x| <= 3/4, a first approximation"},
	{"erfcinv1", 1.15, 4, erfcinvTail, 0, 25, "erfcinv(c) = P(w), w = sqrt(-log(c)), 1.15 <= w <= 4, a first approximation"},
	{"erfcinv2", 4, 27.4, erfcinvTail, 0, 28, "erfcinv(c) = P(w), w = sqrt(-log(c)), 4 <= w <= 27.4, a first approximation"},
}

// slopeAt2 returns the derivative of log(gamma) at 2: 1 - Euler's constant.
func slopeAt2() *big.Float {
	euler, _, err := big.ParseFloat("0.5772156649015328606065120900824024310421593359399235988057672348848677", 10, 224, big.ToNearestEven)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b.Sub(b.Num(1), euler)
}

func twoOverSqrtPi() *big.Float { return b.Quo(b.Num(2), b.Sqrt(b.Shift(b.Pi(), 0))) }

// inverseErfc returns the y with erfc(y) = c by bisection and Newton's steps.
func inverseErfc(c *big.Float) *big.Float {
	lo, hi := b.Num(0), b.Num(28)
	for range 40 {
		mid := b.Shift(b.Add(lo, hi), -1)
		if b.Erfc(mid).Cmp(c) > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return b.ErfcInvNear(c, lo)
}

func erfcinvTail(w *big.Float) (value, weight *big.Float) {
	value = inverseErfc(b.Exp(b.Neg(b.Mul(w, w))))
	return value, b.Quo(b.Num(1), value)
}
