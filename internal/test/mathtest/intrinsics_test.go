package mathtest

import (
	"math"
	"math/big"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
)

func init() {
	for _, m := range []struct {
		name string
		mode big.RoundingMode
	}{{"rn", big.ToNearestEven}, {"rz", big.ToZero}, {"ru", big.ToPositiveInf}, {"rd", big.ToNegativeInf}} {
		functions = append(functions,
			rounded("add_"+m.name, "__%cadd_"+m.name+"(x, y)", m.mode, 2, func(x, y, _ *big.Float) *big.Float { return new(big.Float).SetPrec(2400).Add(x, y) }),
			rounded("sub_"+m.name, "__%csub_"+m.name+"(x, y)", m.mode, 2, func(x, y, _ *big.Float) *big.Float { return new(big.Float).SetPrec(2400).Sub(x, y) }),
			rounded("mul_"+m.name, "__%cmul_"+m.name+"(x, y)", m.mode, 2, func(x, y, _ *big.Float) *big.Float { return new(big.Float).SetPrec(200).Mul(x, y) }),
			rounded("div_"+m.name, "__%cdiv_"+m.name+"(x, y)", m.mode, 2, func(x, y, _ *big.Float) *big.Float { return sticky(new(big.Float).SetPrec(200).Quo(x, y)) }),
			rounded("rcp_"+m.name, "__%crcp_"+m.name+"(x)", m.mode, 1, func(x, _, _ *big.Float) *big.Float { return sticky(new(big.Float).SetPrec(200).Quo(b.Num(1), x)) }),
			rounded("sqrt_"+m.name, "__%csqrt_"+m.name+"(x)", m.mode, 1, func(x, _, _ *big.Float) *big.Float { return sticky(new(big.Float).SetPrec(200).Sqrt(x)) }),
			rounded("fma_"+m.name, "__fma%F_"+m.name+"(x, y, z)", m.mode, 3, func(x, y, z *big.Float) *big.Float {
				p := new(big.Float).SetPrec(120).Mul(x, y)
				return new(big.Float).SetPrec(5000).Add(p, z)
			}))
	}
	functions = append(functions, rounded("rsqrt_rn", "__frsqrt_rn(x)", big.ToNearestEven, 1, func(x, _, _ *big.Float) *big.Float {
		return sticky(new(big.Float).SetPrec(200).Quo(b.Num(1), new(big.Float).SetPrec(220).Sqrt(x)))
	}).single())
	for _, a := range []struct {
		name      string
		args      int
		low, high float64
	}{{"__sinf", 1, -4, 4}, {"__cosf", 1, -4, 4}, {"__tanf", 1, -1, 1}, {"__expf", 1, -80, 80}, {"__exp10f", 1, -30, 30},
		{"__logf", 1, 0, 4}, {"__log2f", 1, 0, 4}, {"__log10f", 1, 0, 4}, {"__powf", 2, 0, 4}, {"__fdividef", 2, -4, 4}} {
		expr := a.name + "(x)"
		if a.args == 2 {
			expr = a.name + "(x, y)"
		}
		f := function{name: "approx" + a.name, expr: expr, args: a.args, low: a.low, high: a.high, approximate: true}
		functions = append(functions, f.single())
	}
}

func (f function) single() function { f.floatOnly = true; return f }

// sticky keeps a number that was rounded apart from the numbers of few bits: it sets the
// last of 200 bits.
func sticky(x *big.Float) *big.Float {
	if x.Acc() == big.Exact {
		return x
	}
	// x was rounded to nearest. Step towards the exact value by a quarter of its last place.
	y := new(big.Float).SetPrec(220).Set(x)
	step := new(big.Float).SetMantExp(big.NewFloat(0.25), x.MantExp(nil)-200)
	if x.Acc() == big.Above {
		step.Neg(step)
	}
	return y.Add(y, step)
}

// rounded is an intrinsic of one rounding, where the result is a normal number.
func rounded(name, expr string, mode big.RoundingMode, args int, exact func(x, y, z *big.Float) *big.Float) function {
	f := function{name: name, expr: expr, args: args, low: -3, high: 3, hidden: true, method: [2]string{integers, integers}}
	f.in = func([]float64) bool { return false }
	f.typed = func(k *kind, a []float64) float64 {
		if !finite(a) || (args > 1 && a[1] == 0) || (args == 1 && a[0] <= 0) {
			return math.NaN()
		}
		var v [3]*big.Float
		for i := range v {
			v[i] = b.Num(0)
			if i < len(a) {
				v[i] = b.Num(a[i])
			}
		}
		x := exact(v[0], v[1], v[2])
		if e := x.MantExp(nil); x.Sign() == 0 || e <= k.emin+1 || e >= -k.emin {
			return math.NaN()
		}
		r, _ := new(big.Float).SetPrec(uint(k.digits)).SetMode(mode).Set(x).Float64()
		return r
	}
	f.unchecked = math.IsNaN
	return f
}
