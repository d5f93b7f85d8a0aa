package softfloat

import (
	"math"

	"github.com/ferrygpu/ferry/softgpu/internal/sfu"
)

// Approx64 returns the function that computes an approximation of an f64: rcp or rsqrt, as
// op says. With ftz the GPU reads and computes the upper word only. Without it, the upper
// word of rsqrt is the start of one more step.
func Approx64(op string, ftz bool) func(a uint64) uint64 {
	upper := upper64(op)
	if ftz {
		return func(a uint64) uint64 { return uint64(upper(uint32(a>>32))) << 32 }
	}
	return func(a uint64) uint64 { return rsqrt64(upper, a) }
}

// upper64 returns what the special function unit does for the upper word of an f64.
func upper64(op string) func(a uint32) uint32 {
	const sign, infinity = 1 << 31, 0x7ff00000
	unit := sfu.Upper(op)
	return func(a uint32) uint32 {
		m := a &^ sign
		switch {
		case m > infinity:
			return NaN32
		case m < 1<<20:
			return a&sign | infinity
		case op == "rsqrt" && a != m:
			return NaN32
		case m == infinity:
			return a & sign
		}
		return a&sign | unit(m)
	}
}

// rsqrt64 improves the upper word by one step with the third order of the error.
func rsqrt64(upper func(uint32) uint32, a uint64) uint64 {
	x := math.Float64frombits(a)
	switch {
	case x != x:
		return math.Float64bits(Propagate(x, 0, 0))
	case x == 0:
		return a | 0x7ff0000000000000
	case x < 0:
		return 0xfff8000000000000
	case math.IsInf(x, 1):
		return 0
	}
	back := 1.0
	if a>>52 == 0 { // a denormal
		x, back = x*0x1p54, 0x1p27
	}
	y := math.Float64frombits(uint64(upper(uint32(math.Float64bits(x)>>32))) << 32)
	e := math.FMA(-x, y*y, 1)
	return math.Float64bits(math.FMA(math.FMA(e, 0.375, 0.5), y*e, y) * back)
}
