package mathtest

import (
	"math"
	"math/big"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
)

// function is a function of math.h of both types.
type function struct {
	name string
	expr string // in C; T is the type, S the suffix f or nothing
	args int
	// low and high bound the arguments where the function is interesting.
	low, high float64
	// exact is the function, where in tells that it can be computed so.
	exact func(a []*big.Float) *big.Float
	in    func(a []float64) bool
	// special is the result elsewhere: zero, infinite or NaN.
	special func(a []float64) float64
	method  [2]string // of float and double
	// near is true where exact takes the result itself as its last argument, and improves it.
	near bool
	// only restricts the errors in the table to arguments for which it is true.
	only func(a []float64) bool
	note string
	// typed replaces special where the result depends on the type.
	typed func(t *kind, a []float64) float64
	// floatOnly has no form in double. approximate has no exact bits: only TestHardware runs it.
	floatOnly, approximate bool
	// hidden keeps a function out of the table. unchecked tells of results that no rule gives.
	hidden    bool
	unchecked func(want float64) bool
}

const (
	direct   = "its own type"
	byDouble = "double"
	integers = "exact"
)

func finite(a []float64) bool {
	for _, x := range a {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

func within(low, high float64) func([]float64) bool {
	return func(a []float64) bool { return a[0] >= low && a[0] <= high }
}

func inside(low, high float64) func([]float64) bool {
	return func(a []float64) bool { return a[0] > low && a[0] < high }
}

// one returns a function of one argument with a formula and special values.
func one(name string, exact func(*big.Float) *big.Float, special func(float64) float64, low, high float64, in func([]float64) bool) function {
	f := function{name: name, expr: name + "S(x)", args: 1, low: low, high: high, in: in, method: [2]string{direct, direct}}
	f.exact = func(a []*big.Float) *big.Float { return exact(a[0]) }
	f.special = func(a []float64) float64 { return special(a[0]) }
	return f
}

func two(name string, exact func(x, y *big.Float) *big.Float, special func(x, y float64) float64, low, high float64, in func([]float64) bool) function {
	f := function{name: name, expr: name + "S(x, y)", args: 2, low: low, high: high, in: in, method: [2]string{direct, direct}}
	f.exact = func(a []*big.Float) *big.Float { return exact(a[0], a[1]) }
	f.special = func(a []float64) float64 { return special(a[0], a[1]) }
	return f
}

func (f function) floatBy(method string) function { f.method[0] = method; return f }
func (f function) as(name, expr string) function  { f.name, f.expr = name, expr; return f }
func (f function) where(only func([]float64) bool, note string) function {
	f.only, f.note = only, note
	return f
}

// whole returns a function whose results are exact in float64, so that Go's is the reference.
func whole(name, expr string, args int, f func(a []float64) float64, low, high float64) function {
	return function{name: name, expr: expr, args: args, low: low, high: high, special: f,
		in: func([]float64) bool { return false }, method: [2]string{integers, integers}}
}

func log2(x *big.Float) *big.Float  { return b.Log2(x) }
func sqrt(x *big.Float) *big.Float  { return b.Sqrt(x) }
func rsqrt(x *big.Float) *big.Float { return b.Quo(b.Num(1), b.Sqrt(x)) }

var positive = inside(0, math.Inf(1))

func notZero(a []float64) bool { return finite(a) && a[0] != 0 }

// sinpi has the special values of sin(pi*x).
func sinpi(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return math.NaN()
	}
	return math.Copysign(0, x)
}

func notWhole(a []float64) bool { return finite(a) && a[0] != math.Trunc(a[0]) }

func notHalf(a []float64) bool {
	return finite(a) && math.Abs(a[0]) < 0x1p52 && math.Trunc(2*a[0]) != 2*a[0]
}

func inverseDomain(low, high float64, atLow, atHigh float64) func(float64) float64 {
	return func(x float64) float64 {
		switch x {
		case low:
			return atLow
		case high:
			return atHigh
		case 0:
			return x
		}
		return math.NaN()
	}
}

func lgammaSpecial(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x == 1 || x == 2:
		return 0
	}
	return inf // also for negative whole numbers
}

func powDomain(a []float64) bool {
	x, y := a[0], a[1]
	return finite(a) && x != 0 && y != 0 && x != 1 && x != -1 && (x > 0 || y == math.Trunc(y))
}

// pow extends the power to negative x.
func pow(x, y *big.Float) *big.Float {
	r := b.Pow(b.Abs(x), y)
	if r == nil || x.Sign() > 0 {
		return r
	}
	if n, _ := y.Int(nil); n.Bit(0) == 1 {
		r.Neg(r)
	}
	return r
}

func gammaDomain(a []float64) bool {
	x := a[0]
	return finite(a) && x != 0 && x < 250 && x > -250 && (x > 0 || x != math.Trunc(x))
}

func lgammaDomain(a []float64) bool {
	x := a[0]
	return finite(a) && x != 0 && x != 1 && x != 2 && x < 2.5e305 && x > -1e300 && (x > 0 || x != math.Trunc(x))
}

func gammaSpecial(x float64) float64 {
	switch {
	case x == 0:
		return math.Copysign(math.Inf(1), x)
	case x < 0 && math.Trunc(x) == x:
		return math.NaN()
	case x < -180:
		return math.Copysign(0, float64(1-2*(int64(math.Floor(x))&1)))
	}
	return math.Gamma(x)
}

func hypot(v ...*big.Float) *big.Float { return b.Hypot(v...) }

func lengthSpecial(inverse bool) func(a []float64) float64 {
	return func(a []float64) float64 {
		r := 0.0
		for _, x := range a {
			r = math.Hypot(r, x)
		}
		if inverse {
			return 1 / r
		}
		return r
	}
}

func length(name, expr string, args int, inverse bool) function {
	return function{name: name, expr: expr, args: args, low: -100, high: 100, special: lengthSpecial(inverse),
		in: func(a []float64) bool {
			for _, x := range a {
				if x != 0 {
					return finite(a)
				}
			}
			return false
		},
		exact: func(a []*big.Float) *big.Float {
			r := hypot(a...)
			if inverse {
				r = b.Quo(b.Num(1), r)
			}
			return r
		}, method: [2]string{byDouble, direct}}
}

func near(name string, improve func(x, y *big.Float) *big.Float, special func(float64) float64, low, high float64, in func([]float64) bool) function {
	f := one(name, nil, special, low, high, in).floatBy(byDouble)
	f.near = true
	f.exact = func(a []*big.Float) *big.Float { return improve(a[0], a[1]) }
	return f
}

var inf, nan = math.Inf(1), math.NaN()

// functions are the functions of the table.
var functions = []function{
	one("sqrt", sqrt, math.Sqrt, 0, 100, positive),
	one("rsqrt", rsqrt, func(x float64) float64 { return 1 / math.Sqrt(x) }, 0, 100, positive),
	one("cbrt", b.Cbrt, math.Cbrt, -100, 100, notZero),
	one("rcbrt", func(x *big.Float) *big.Float { return b.Quo(b.Num(1), b.Cbrt(x)) }, func(x float64) float64 { return 1 / x }, -100, 100, notZero),
	two("hypot", func(x, y *big.Float) *big.Float { return hypot(x, y) }, math.Hypot, -100, 100, func(a []float64) bool { return finite(a) && (a[0] != 0 || a[1] != 0) }).floatBy(byDouble),
	length("rhypot", "rhypotS(x, y)", 2, true),
	length("norm3d", "norm3dS(x, y, z)", 3, false),
	length("rnorm3d", "rnorm3dS(x, y, z)", 3, true),
	length("norm4d", "norm4dS(x, y, z, x)", 3, false).exactOf(func(a []*big.Float) *big.Float { return hypot(a[0], a[1], a[2], a[0]) }),
	length("rnorm4d", "rnorm4dS(x, y, z, x)", 3, true).exactOf(func(a []*big.Float) *big.Float { return b.Quo(b.Num(1), hypot(a[0], a[1], a[2], a[0])) }),
	length("norm", "({ T v[3] = {x, y, z}; normS(3, v); })", 3, false),
	length("rnorm", "({ T v[3] = {x, y, z}; rnormS(3, v); })", 3, true),

	one("exp", b.Exp, math.Exp, -110, 100, within(-1200, 1200)),
	one("exp2", b.Exp2, math.Exp2, -150, 130, within(-1200, 1200)),
	one("exp10", b.Exp10, func(x float64) float64 { return math.Pow(10, x) }, -46, 40, within(-400, 400)),
	one("expm1", b.Expm1, math.Expm1, -2, 3, func(a []float64) bool { return within(-1200, 1200)(a) && a[0] != 0 }),
	one("log", b.Log, math.Log, 0, 3, positive),
	one("log2", log2, math.Log2, 0, 3, positive),
	one("log10", b.Log10, math.Log10, 0, 3, positive),
	one("log1p", b.Log1p, math.Log1p, -1, 3, func(a []float64) bool { return finite(a) && a[0] > -1 && a[0] != 0 }),
	two("pow", pow, math.Pow, -5, 10, powDomain).floatBy(byDouble),

	one("sin", b.Sin, math.Sin, -10, 10, notZero),
	one("cos", b.Cos, math.Cos, -10, 10, finite),
	one("tan", b.Tan, math.Tan, -10, 10, notZero),
	one("sincos, sine", b.Sin, math.Sin, -10, 10, notZero).as("sincos_s", "({ T s, c; sincosS(x, &s, &c); s; })"),
	one("sincos, cosine", b.Cos, math.Cos, -10, 10, finite).as("sincos_c", "({ T s, c; sincosS(x, &s, &c); c; })"),
	one("sinpi", b.SinPi, sinpi, -4, 4, notWhole),
	one("cospi", b.CosPi, cospi, -4, 4, notHalf),
	one("", b.SinPi, sinpi, -4, 4, notWhole).as("sincospi_s", "({ T s, c; sincospiS(x, &s, &c); s; })"),
	one("", b.CosPi, cospi, -4, 4, notHalf).as("sincospi_c", "({ T s, c; sincospiS(x, &s, &c); c; })"),
	one("asin", b.Asin, math.Asin, -1, 1, func(a []float64) bool { return within(-1, 1)(a) && a[0] != 0 }),
	one("acos", b.Acos, math.Acos, -1, 1, func(a []float64) bool { return within(-1, 1)(a) && a[0] != 1 }),
	one("atan", b.Atan, math.Atan, -10, 10, notZero),
	two("atan2", b.Atan2, math.Atan2, -10, 10, func(a []float64) bool { return finite(a) && a[0] != 0 }),
	one("sinh", b.Sinh, math.Sinh, -5, 5, func(a []float64) bool { return within(-1200, 1200)(a) && a[0] != 0 }),
	one("cosh", b.Cosh, math.Cosh, -5, 5, within(-1200, 1200)),
	one("tanh", b.Tanh, math.Tanh, -5, 5, func(a []float64) bool { return within(-50, 50)(a) && a[0] != 0 }),
	one("asinh", b.Asinh, math.Asinh, -5, 5, notZero),
	one("acosh", b.Acosh, math.Acosh, 1, 5, inside(1, inf)),
	one("atanh", b.Atanh, math.Atanh, -1, 1, func(a []float64) bool { return inside(-1, 1)(a) && a[0] != 0 }),

	one("erf", b.Erf, math.Erf, -4, 4, func(a []float64) bool { return within(-30, 30)(a) && a[0] != 0 }),
	one("erfc", b.Erfc, math.Erfc, -4, 11, within(-30, 30)).floatBy(byDouble),
	one("erfcx", b.Erfcx, erfcxSpecial, -9, 100, func(a []float64) bool { return finite(a) && a[0] > -27 }).floatBy(byDouble),
	near("erfinv", b.ErfInvNear, inverseDomain(-1, 1, -inf, inf), -1, 1, func(a []float64) bool { return inside(-1, 1)(a) && a[0] != 0 }),
	near("erfcinv", b.ErfcInvNear, erfcinvSpecial, 0, 2, func(a []float64) bool { return inside(0, 2)(a) && a[0] != 1 }),
	one("normcdf", b.NormCdf, func(x float64) float64 { return math.Erfc(-x) / 2 }, -15, 9, within(-40, 40)).floatBy(byDouble),
	near("normcdfinv", b.NormCdfInvNear, normcdfinvSpecial, 0, 1, func(a []float64) bool { return inside(0, 1)(a) && a[0] != 0.5 }),
	one("tgamma", b.Gamma, gammaSpecial, -20, 36, gammaDomain).floatBy(byDouble),
	one("lgamma", b.Lgamma, lgammaSpecial, -2, 20, lgammaDomain).floatBy(byDouble).
		where(func(a []float64) bool { return a[0] > 0 }, "for x > 0; near the zeros at negative x only the absolute error is small"),

	whole("fmod", "fmodS(x, y)", 2, func(a []float64) float64 { return math.Mod(a[0], a[1]) }, -100, 100),
	whole("remainder", "remainderS(x, y)", 2, func(a []float64) float64 { return math.Remainder(a[0], a[1]) }, -100, 100),
	whole("remquo", "({ int q; remquoS(x, y, &q); })", 2, func(a []float64) float64 { return math.Remainder(a[0], a[1]) }, -100, 100),
	whole("remquo_quotient", "({ int q; remquoS(x, y, &q); (T)q; })", 2, quotient, -100, 100),
	whole("floor", "floorS(x)", 1, func(a []float64) float64 { return math.Floor(a[0]) }, -100, 100),
	whole("ceil", "ceilS(x)", 1, func(a []float64) float64 { return math.Ceil(a[0]) }, -100, 100),
	whole("trunc", "truncS(x)", 1, func(a []float64) float64 { return math.Trunc(a[0]) }, -100, 100),
	whole("round", "roundS(x)", 1, func(a []float64) float64 { return math.Round(a[0]) }, -100, 100),
	whole("rint", "rintS(x)", 1, func(a []float64) float64 { return math.RoundToEven(a[0]) }, -100, 100),
	whole("nearbyint", "nearbyintS(x)", 1, func(a []float64) float64 { return math.RoundToEven(a[0]) }, -100, 100),
	whole("logb", "logbS(x)", 1, func(a []float64) float64 { return math.Logb(a[0]) }, -100, 100),
	whole("ilogb", "(T)ilogbS(x)", 1, ilogb, -100, 100),
	whole("frexp", "({ int n; T m = frexpS(x, &n); isfinite(x) ? ldexpS(m, n) : m; })", 1, func(a []float64) float64 { return a[0] }, -100, 100),
	whole("modf_fraction", "({ T w; modfS(x, &w); })", 1, func(a []float64) float64 {
		if math.IsInf(a[0], 0) {
			return math.Copysign(0, a[0])
		}
		_, f := math.Modf(a[0])
		return math.Copysign(f, a[0])
	}, -100, 100),
	whole("modf_whole", "({ T w; modfS(x, &w); w; })", 1, func(a []float64) float64 { return math.Trunc(a[0]) }, -100, 100),
	byType("fdim", "fdimS(x, y)", 2, fdim, -100, 100),
	whole("fmin", "fminS(x, y)", 2, minimum(-1), -100, 100),
	whole("fmax", "fmaxS(x, y)", 2, minimum(1), -100, 100),
	whole("fabs", "fabsS(x)", 1, func(a []float64) float64 { return math.Abs(a[0]) }, -100, 100),
	whole("copysign", "copysignS(x, y)", 2, func(a []float64) float64 { return math.Copysign(a[0], a[1]) }, -100, 100),
	byType("nextafter", "nextafterS(x, y)", 2, nextafter, -100, 100),
	byType("ldexp", "ldexpS(x, (int)fminS(fmaxS(y, -3000), 3000))", 2, ldexp, -160, 160),
	whole("llround", "(T)llroundS(x)", 1, toInteger(math.Round), -100, 100),
	whole("llrint", "(T)llrintS(x)", 1, toInteger(math.RoundToEven), -100, 100),
	whole("class", "(T)(isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * signbit(x))", 1, class, -100, 100),
}

func (f function) exactOf(exact func(a []*big.Float) *big.Float) function { f.exact = exact; return f }

func cospi(x float64) float64 {
	switch {
	case math.IsInf(x, 0) || math.IsNaN(x):
		return nan
	case math.Trunc(x) != x:
		return 0
	case math.Abs(x) < 0x1p53 && int64(x)&1 == 1:
		return -1
	}
	return 1
}

func erfcxSpecial(x float64) float64 {
	switch {
	case x > 0:
		return 0
	case x < 0:
		return inf
	}
	return x
}

func erfcinvSpecial(x float64) float64 {
	switch x {
	case 0:
		return inf
	case 1:
		return 0
	case 2:
		return -inf
	}
	return nan
}

func normcdfinvSpecial(x float64) float64 {
	switch x {
	case 0:
		return -inf
	case 0.5:
		return 0
	case 1:
		return inf
	}
	return nan
}

func ilogb(a []float64) float64 {
	switch x := a[0]; {
	case math.IsNaN(x) || x == 0:
		return math.MinInt32
	case math.IsInf(x, 0):
		return math.MaxInt32
	}
	return math.Logb(a[0])
}

func minimum(sign float64) func(a []float64) float64 {
	return func(a []float64) float64 {
		x, y := a[0], a[1]
		switch {
		case math.IsNaN(x):
			return y
		case math.IsNaN(y):
			return x
		case sign > 0:
			return math.Max(x, y)
		}
		return math.Min(x, y)
	}
}

func toInteger(round func(float64) float64) func(a []float64) float64 {
	return func(a []float64) float64 {
		switch r := round(a[0]); {
		case math.IsNaN(r) || r < math.MinInt64: // a NaN as the conversion of an H200
			return math.MinInt64
		case r >= 0x1p63:
			return 0x1p63
		default:
			return r + 0 // no -0
		}
	}
}

func class(a []float64) float64 {
	c := 4.0
	if math.IsNaN(a[0]) {
		c = 1
	} else if math.IsInf(a[0], 0) {
		c = 2
	}
	if math.Signbit(a[0]) {
		c += 8
	}
	return c
}

func byType(name, expr string, args int, f func(t *kind, a []float64) float64, low, high float64) function {
	r := whole(name, expr, args, nil, low, high)
	r.typed = f
	return r
}

func fdim(t *kind, a []float64) float64 {
	if a[0] <= a[1] {
		return 0
	}
	if !finite(a) {
		return a[0] - a[1]
	}
	return t.round(b.Sub(b.Num(a[0]), b.Num(a[1])))
}

func nextafter(t *kind, a []float64) float64 {
	if t.size == 32 {
		return float64(math.Nextafter32(float32(a[0]), float32(a[1])))
	}
	return math.Nextafter(a[0], a[1])
}

func ldexp(t *kind, a []float64) float64 {
	if !finite(a[:1]) || a[0] == 0 {
		return a[0]
	}
	n := math.Min(math.Max(a[1], -3000), 3000)
	if math.IsNaN(a[1]) {
		n = -3000
	}
	r := t.round(b.Shift(b.Num(a[0]), int(n)))
	return math.Copysign(r, a[0])
}

// quotient has the sign and the last three bits of the nearest quotient.
func quotient(a []float64) float64 {
	x, y := a[0], a[1]
	if !finite(a) || y == 0 {
		return 0
	}
	q := new(big.Float).SetPrec(2400)
	q.Sub(q.SetFloat64(x), new(big.Float).SetFloat64(math.Remainder(x, y)))
	n, _ := q.Quo(q, new(big.Float).SetPrec(2400).SetFloat64(y)).Add(q, big.NewFloat(math.Copysign(0.25, q2(x, y)))).Int(nil)
	bits := float64(new(big.Int).And(new(big.Int).Abs(n), big.NewInt(7)).Int64())
	if math.Signbit(x) != math.Signbit(y) && bits != 0 {
		bits = -bits
	}
	return bits
}

func q2(x, y float64) float64 {
	if math.Signbit(x) != math.Signbit(y) {
		return -1
	}
	return 1
}
