package bigmath

import "math/big"

// reduce returns x - k*unit/2^shift of least size, and k modulo 4.
func reduce(x, unit *big.Float) (*big.Float, int) {
	q := new(big.Float).SetPrec(piPrec).Quo(x, unit)
	half := big.NewFloat(0.5)
	if q.Sign() < 0 {
		half.Neg(half)
	}
	k, _ := q.Add(q, half).Int(nil)
	r := new(big.Float).SetPrec(piPrec).SetInt(k)
	r.Sub(new(big.Float).SetPrec(piPrec).Set(x), r.Mul(r, unit))
	return fresh().Set(r), int(new(big.Int).And(k, big.NewInt(3)).Int64())
}

func sinSeries(r *big.Float) *big.Float {
	if r.Sign() == 0 {
		return fresh()
	}
	square := Neg(Mul(r, r))
	return series(r, func(t *big.Float, n int) { t.Mul(t, square); over(t, 2*n*(2*n+1)) })
}

func cosSeries(r *big.Float) *big.Float {
	square := Neg(Mul(r, r))
	return series(one, func(t *big.Float, n int) { t.Mul(t, square); over(t, 2*n*(2*n-1)) })
}

// quadrant returns sin and cos of r + k*pi/2.
func quadrant(r *big.Float, k int) (s, c *big.Float) {
	s, c = sinSeries(r), cosSeries(r)
	switch k {
	case 1:
		return c, Neg(s)
	case 2:
		return Neg(s), Neg(c)
	case 3:
		return Neg(c), s
	}
	return s, c
}

// SinCos returns sine and cosine of x.
func SinCos(x *big.Float) (s, c *big.Float) {
	return quadrant(reduce(x, new(big.Float).SetMantExp(longPi(), -1)))
}

// SinCosPi returns sine and cosine of pi*x.
func SinCosPi(x *big.Float) (s, c *big.Float) {
	r, k := reduce(x, half)
	return quadrant(Mul(r, pi()), k)
}

// Sin returns the sine of x.
func Sin(x *big.Float) *big.Float { s, _ := SinCos(x); return s }

// Cos returns the cosine of x.
func Cos(x *big.Float) *big.Float { _, c := SinCos(x); return c }

// Tan returns the tangent of x.
func Tan(x *big.Float) *big.Float { s, c := SinCos(x); return Quo(s, c) }

// SinPi returns the sine of pi*x.
func SinPi(x *big.Float) *big.Float { s, _ := SinCosPi(x); return s }

// CosPi returns the cosine of pi*x.
func CosPi(x *big.Float) *big.Float { _, c := SinCosPi(x); return c }

// Atan returns the arc tangent of x.
func Atan(x *big.Float) *big.Float {
	switch {
	case x.Sign() == 0:
		return fresh()
	case x.Sign() < 0:
		return Neg(Atan(Neg(x)))
	case x.Cmp(one) > 0:
		return Sub(Shift(pi(), -1), Atan(Quo(one, x)))
	}
	halvings := 0
	for x.MantExp(nil) > -3 { // tan(a/2) = t / (1 + sqrt(1 + t^2))
		x = Quo(x, Add(one, Sqrt(Add(one, Mul(x, x)))))
		halvings++
	}
	square, power := Neg(Mul(x, x)), fresh().Set(x)
	sum := series(x, func(t *big.Float, n int) {
		power.Mul(power, square)
		t.Quo(power, Num(float64(2*n+1)))
	})
	return Shift(sum, halvings)
}

// Atan2 returns the angle of the point (x, y), which is not the origin.
func Atan2(y, x *big.Float) *big.Float {
	if x.Sign() == 0 {
		a := Shift(pi(), -1)
		if y.Sign() < 0 {
			a.Neg(a)
		}
		return a
	}
	a := Atan(Quo(y, x))
	switch {
	case x.Sign() > 0:
		return a
	case y.Signbit():
		return Sub(a, pi())
	}
	return Add(a, pi())
}

// Asin returns the arc sine of x, |x| <= 1.
func Asin(x *big.Float) *big.Float {
	return Atan2(x, Sqrt(Mul(Sub(one, x), Add(one, x))))
}

// Acos returns the arc cosine of x, |x| <= 1.
func Acos(x *big.Float) *big.Float {
	return Atan2(Sqrt(Mul(Sub(one, x), Add(one, x))), x)
}
