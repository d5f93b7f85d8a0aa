package mathtest

import (
	"math"
	"math/big"
	"testing"

	b "github.com/ferrygpu/ferry/internal/test/mathtest/bigmath"
)

// TestRsqrtRounding proves that __frsqrt_rn, which rounds 1/sqrt(x) to double, twice, and
// then to float, rounds correctly. It tries each float significand and both parities of the
// exponent. Two roundings are as one where the double is further from the middle of two
// floats than its error, which is below two ulp. The other cases are computed.
func TestRsqrtRounding(t *testing.T) {
	const low = 1<<29 - 1 // the bits of a double that a float lacks
	near := 0
	for bits := math.Float32bits(1); bits < math.Float32bits(4); bits++ {
		x := float64(math.Float32frombits(bits))
		y := 1 / math.Sqrt(x)
		if d := int64(math.Float64bits(y)&low) - 1<<28; d < -2 || d > 2 {
			continue
		}
		near++
		want, _ := b.Quo(b.Num(1), b.Sqrt(new(big.Float).SetFloat64(x))).Float32()
		if float32(y) != want {
			t.Errorf("__frsqrt_rn(%v) is %v, want %v", x, float32(y), want)
		}
	}
	t.Logf("%d cases near the middle of two floats", near)
}
