package bigmath

import (
	"math"
	"math/big"
	"sync"
)

// prec is the precision of the computations, in bits.
const prec = 224

// Num returns x.
func Num(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }

func fresh() *big.Float { return new(big.Float).SetPrec(prec) }

// Add returns a + b.
func Add(a, b *big.Float) *big.Float { return fresh().Add(a, b) }

// Sub returns a - b.
func Sub(a, b *big.Float) *big.Float { return fresh().Sub(a, b) }

// Mul returns a * b.
func Mul(a, b *big.Float) *big.Float { return fresh().Mul(a, b) }

// Quo returns a / b.
func Quo(a, b *big.Float) *big.Float { return fresh().Quo(a, b) }

// Neg returns -a.
func Neg(a *big.Float) *big.Float { return fresh().Neg(a) }

// Abs returns |a|.
func Abs(a *big.Float) *big.Float { return fresh().Abs(a) }

// Sqrt returns the square root of a.
func Sqrt(a *big.Float) *big.Float { return fresh().Sqrt(a) }

// Shift returns a * 2^n.
func Shift(a *big.Float, n int) *big.Float { return fresh().SetMantExp(a, n) }

// Float returns the nearest float64.
func Float(a *big.Float) float64 { x, _ := a.Float64(); return x }

var one, two, half = Num(1), Num(2), Num(0.5)

// negligible tells if term does not change sum.
func negligible(term, sum *big.Float) bool {
	return term.Sign() == 0 || sum.Sign() != 0 && term.MantExp(nil) < sum.MantExp(nil)-prec
}

// series returns first + first*r(1) + first*r(1)*r(2) ... where next turns the term k-1
// into the term k.
func series(first *big.Float, next func(term *big.Float, k int)) *big.Float {
	sum, term := fresh().Set(first), fresh().Set(first)
	for k := 1; ; k++ {
		next(term, k)
		if negligible(term, sum) {
			return sum
		}
		sum.Add(sum, term)
	}
}

// over divides in place by a small integer.
func over(x *big.Float, n int) { x.Quo(x, Num(float64(n))) }

// atanInverse returns atan(1/n), or atanh(1/n) if hyperbolic.
func atanInverse(n int64, hyperbolic bool, p uint) *big.Float {
	x := new(big.Float).SetPrec(p).Quo(new(big.Float).SetPrec(p).SetInt64(1), new(big.Float).SetPrec(p).SetInt64(n))
	square := new(big.Float).SetPrec(p).SetInt64(n * n)
	sum, term := new(big.Float).SetPrec(p).Set(x), new(big.Float).SetPrec(p).Set(x)
	for k := int64(3); term.MantExp(nil) > -int(p); k += 2 {
		term.Quo(term, square)
		part := new(big.Float).SetPrec(p).Quo(term, new(big.Float).SetPrec(p).SetInt64(k))
		if !hyperbolic && k%4 == 3 {
			part.Neg(part)
		}
		sum.Add(sum, part)
	}
	return sum
}

// piPrec has the precision of the longest reduction of an angle.
const piPrec = 1024 + 2*prec

var longPi = sync.OnceValue(func() *big.Float {
	a := new(big.Float).Mul(big.NewFloat(16), atanInverse(5, false, piPrec))
	return a.Sub(a, new(big.Float).SetPrec(piPrec).Mul(big.NewFloat(4), atanInverse(239, false, piPrec)))
})

// Pi returns pi with 1400 bits.
func Pi() *big.Float { return new(big.Float).Set(longPi()) }

var pi = sync.OnceValue(func() *big.Float { return fresh().Set(longPi()) })

var ln2 = sync.OnceValue(func() *big.Float {
	return fresh().Mul(two, atanInverse(3, true, prec+32))
})

// Ln2 returns the natural logarithm of 2.
func Ln2() *big.Float { return fresh().Set(ln2()) }

// nearest returns the nearest integer of a small x.
func nearest(x *big.Float) int { return int(math.RoundToEven(Float(x))) }
