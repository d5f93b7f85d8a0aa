package bigmath

import (
	"math/big"
	"sync"
)

// bernoulli returns the Bernoulli numbers of even index to B(84): element k is B(2k).
var bernoulli = sync.OnceValue(func() []*big.Float {
	const n = 84
	b := make([]*big.Rat, n+1)
	a := make([]*big.Rat, n+1) // the algorithm of Akiyama and Tanigawa
	for m := range b {
		a[m] = big.NewRat(1, int64(m+1))
		for j := m; j > 0; j-- {
			d := new(big.Rat).Sub(a[j-1], a[j])
			a[j-1] = d.Mul(d, big.NewRat(int64(j), 1))
		}
		b[m] = new(big.Rat).Set(a[0])
	}
	var even []*big.Float
	for m := 0; m <= n; m += 2 {
		even = append(even, fresh().SetRat(b[m]))
	}
	return even
})

// stirling returns log(gamma(x)) for x >= 36.
func stirling(x *big.Float) *big.Float {
	sum := Sub(Mul(Sub(x, half), Log(x)), x)
	sum.Add(sum, Shift(Log(Shift(pi(), 1)), -1))
	inverse := Quo(one, x)
	square := Mul(inverse, inverse)
	for k, b := range bernoulli() {
		if k == 0 {
			continue
		}
		term := Mul(b, inverse)
		over(term, 2*k*(2*k-1))
		if negligible(term, sum) {
			break
		}
		sum.Add(sum, term)
		inverse.Mul(inverse, square)
	}
	return sum
}

// lift returns x + n >= 36 and the product x(x+1)...(x+n-1).
func lift(x *big.Float) (up, product *big.Float) {
	up, product = fresh().Set(x), Num(1)
	for up.Cmp(Num(36)) < 0 {
		product.Mul(product, up)
		up.Add(up, one)
	}
	return up, product
}

// Gamma returns gamma(x) for x from -299 to 300 that is no pole, else nil. The results are far
// beyond the range of a float64.
func Gamma(x *big.Float) *big.Float {
	if x.Sign() < 0 {
		g := Gamma(Sub(one, x))
		if g == nil {
			return nil
		}
		return Quo(pi(), Mul(SinPi(x), g))
	}
	if x.Cmp(Num(300)) > 0 {
		return nil
	}
	up, product := lift(x)
	return Quo(Exp(stirling(up)), product)
}

// Lgamma returns log(|gamma(x)|), where x is no pole.
func Lgamma(x *big.Float) *big.Float {
	if x.Sign() < 0 {
		s := Abs(SinPi(x))
		return Sub(Log(Quo(pi(), s)), Lgamma(Sub(one, x)))
	}
	up, product := lift(x)
	return Sub(stirling(up), Log(product))
}

var sqrtPi = sync.OnceValue(func() *big.Float { return Sqrt(pi()) })

// Erf returns the error function.
func Erf(x *big.Float) *big.Float {
	if x.Sign() == 0 {
		return fresh()
	}
	if a := Abs(x); a.Cmp(Num(3)) > 0 {
		r := Sub(one, Erfc(a))
		if x.Sign() < 0 {
			r.Neg(r)
		}
		return r
	}
	square := Shift(Mul(x, x), 1)
	sum := series(x, func(t *big.Float, n int) { t.Mul(t, square); over(t, 2*n+1) })
	return Quo(Shift(Mul(sum, Exp(Neg(Mul(x, x)))), 1), sqrtPi())
}

// Erfcx returns exp(x^2) * erfc(x).
func Erfcx(x *big.Float) *big.Float {
	if x.Cmp(Num(3)) < 0 {
		return Mul(Exp(Mul(x, x)), Sub(one, Erf(x)))
	}
	// The continued fraction 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + ...)))).
	f := Float(x)
	f = max(1, 3000/(f*f))
	n := 40 + int(f)
	t := fresh().Set(x)
	for k := n; k > 0; k-- {
		t = Add(x, Quo(Num(float64(k)/2), t))
	}
	return Quo(one, Mul(t, sqrtPi()))
}

// Erfc returns the complementary error function.
func Erfc(x *big.Float) *big.Float {
	if x.Cmp(Num(3)) < 0 {
		return Sub(one, Erf(x))
	}
	return Mul(Exp(Neg(Mul(x, x))), Erfcx(x))
}

// erfSlope returns 2/sqrt(pi) * exp(-y^2).
func erfSlope(y *big.Float) *big.Float {
	return Quo(Shift(Exp(Neg(Mul(y, y))), 1), sqrtPi())
}

// ErfInvNear improves y, which is near the inverse of erf at x, by two steps of Newton.
func ErfInvNear(x, y *big.Float) *big.Float {
	for range 2 {
		y = Sub(y, Quo(Sub(Erf(y), x), erfSlope(y)))
	}
	return y
}

// ErfcInvNear improves y, which is near the inverse of erfc at x, by two steps of Newton.
func ErfcInvNear(x, y *big.Float) *big.Float {
	for range 2 {
		y = Add(y, Quo(Sub(Erfc(y), x), erfSlope(y)))
	}
	return y
}

var rootHalf = sync.OnceValue(func() *big.Float { return Sqrt(half) })

// NormCdf returns the distribution function of the standard normal distribution.
func NormCdf(x *big.Float) *big.Float {
	return Shift(Erfc(Neg(Mul(x, rootHalf()))), -1)
}

// NormCdfInvNear improves y, which is near the inverse of NormCdf at x.
func NormCdfInvNear(x, y *big.Float) *big.Float {
	r := ErfcInvNear(Shift(x, 1), Neg(Mul(y, rootHalf())))
	return Neg(Quo(r, rootHalf()))
}
