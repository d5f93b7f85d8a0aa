package oracle

import (
	"math/big"
)

// tolerance is how far an approximation may be from the result of the GPU: in units
// of the last place, or absolutely. The bounds of the ISA are at least as wide.
type tolerance struct {
	ulps     uint64
	absolute float64
}

// tolerances has the tolerance of each operation. The bounds of the ISA are: rcp 1
// ulp, sqrt 2^-23 relative, rsqrt 2^-22.9, sin and cos 2^-20.5 absolute within a
// period, lg2 2^-22 absolute around 1 and relative elsewhere, ex2 2^-22.5 relative,
// tanh 2^-11 relative, div 2 ulps.
var tolerances = map[string]tolerance{
	"rcp": {1, 0}, "sqrt": {1, 0}, "rsqrt": {2, 0}, "div": {2, 0},
	"sin": {2, 0x1p-20}, "cos": {2, 0x1p-20}, "lg2": {2, 0x1p-22}, "ex2": {3, 0}, "tanh": {2, 0x1p-11},
}

// near reports whether a result is within the tolerance.
func near(k *kernel, l layout, got, want uint64) bool {
	if got == want {
		return true
	}
	a, b := l.decode(got, false), l.decode(want, false)
	tol := tolerances[k.form.op]
	if k.form.typ(0) == "f64" && k.form.has("ftz") {
		tol.ulps <<= 32 // only the upper word is computed
	}
	if a.nan || b.nan || a.inf || b.inf {
		return false
	}
	if max(got, want)-min(got, want) <= tol.ulps {
		return true
	}
	d := big0().Sub(a.value(), b.value())
	return d.Abs(d).Cmp(big.NewFloat(tol.absolute)) <= 0
}
