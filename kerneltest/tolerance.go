package kerneltest

import (
	"math"

	"github.com/ferrygpu/ferry/internal/measure/runner"
)

// Tolerance is how much a result may differ from the reference. A result is accepted if
// it is within ULP or within Abs. The zero value demands equal numbers: then 0 equals -0,
// and NaN equals every NaN. With any tolerance NaN differs from every number, and an
// infinity from every other value.
type Tolerance struct {
	// ULP is the largest distance in units in the last place: how many values of the
	// argument's type one must step to get from one number to the other. It applies to
	// floats.
	ULP uint64
	// Abs is the largest absolute difference. It applies to floats and integers, not to
	// bit patterns (b8 to b64).
	Abs float64
	// Bits demands equal bits, also of NaN and of zeros. ULP and Abs are then ignored.
	Bits bool
}

// accepts reports whether got is close enough to want.
func (t Tolerance) accepts(typ runner.Type, got, want uint64) bool {
	switch {
	case got == want:
		return true
	case t.Bits:
		return false
	case typ.IsFloat():
		return t.acceptsFloat(typ, got, want)
	case typ.IsInteger():
		return t.Abs > 0 && float64(integerDistance(typ, got, want)) <= t.Abs
	}
	return false
}

func (t Tolerance) acceptsFloat(typ runner.Type, got, want uint64) bool {
	if got == fillPattern(typ) { // is a NaN
		return false
	}
	g, w := typ.Float(got), typ.Float(want)
	switch {
	case math.IsNaN(g) || math.IsNaN(w):
		return math.IsNaN(g) && math.IsNaN(w)
	case math.IsInf(g, 0) || math.IsInf(w, 0):
		return g == w
	}
	return g == w || ulpDistance(typ, got, want) <= t.ULP || math.Abs(g-w) <= t.Abs
}

// ulpDistance returns how many values apart two floats are. Both are not NaN.
func ulpDistance(typ runner.Type, x, y uint64) uint64 {
	a, b := steps(typ, x), steps(typ, y)
	return uint64(max(a, b)) - uint64(min(a, b))
}

// steps returns how many values lie between 0 and a float, negative for negative floats.
func steps(typ runner.Type, bits uint64) int64 {
	sign := uint64(1) << (8*typ.Size() - 1)
	if bits&sign != 0 {
		return -int64(bits &^ sign)
	}
	return int64(bits)
}

// integerDistance returns the absolute difference of two integers.
func integerDistance(typ runner.Type, x, y uint64) uint64 {
	if typ < runner.S8 {
		return max(x, y) - min(x, y)
	}
	unused := 64 - 8*typ.Size()
	a, b := int64(x<<unused)>>unused, int64(y<<unused)>>unused
	return uint64(max(a, b)) - uint64(min(a, b))
}

// fillPattern returns the initial value of the elements of out buffers. It is a NaN for
// floats, so that arithmetic with it is found.
func fillPattern(typ runner.Type) uint64 {
	switch typ {
	case runner.F16:
		return 0x7ea5
	case runner.BF16:
		return 0x7fe5
	case runner.F32:
		return 0x7fe5a5a5
	case runner.F64:
		return 0x7ffda5a5a5a5a5a5
	}
	return 0xa5a5a5a5a5a5a5a5 >> (64 - 8*typ.Size())
}
