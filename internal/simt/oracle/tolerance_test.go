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

// tolerances has the operations whose coefficients are unknown. The others are exact. The
// bounds of the ISA are: sqrt 2^-23 relative, tanh 2^-11 relative.
var tolerances = map[string]tolerance{"sqrt": {1, 0}, "tanh": {2, 0x1p-15}}

// near reports whether a result is within the tolerance.
func near(k *kernel, l layout, got, want uint64) bool {
	if got == want {
		return true
	}
	a, b := l.decode(got, false), l.decode(want, false)
	tol := tolerances[k.form.op]
	if a.nan || b.nan || a.inf || b.inf {
		return false
	}
	if max(got, want)-min(got, want) <= tol.ulps {
		return true
	}
	d := big0().Sub(a.value(), b.value())
	return d.Abs(d).Cmp(big.NewFloat(tol.absolute)) <= 0
}
